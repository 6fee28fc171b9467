"""Give a trace to others: redacted copies, stores, and the way to Perfetto.

    share("traces/", store_for("s3://bucket/run7"))      # redacted, with reports and an index page
    annotated(trace, "copy.json.gz")                     # for Perfetto, with findings as tracks

`vocabulary` has the words that may leave, `pseudonyms` replaces the others, `chrome`,
`compiler_copy` and `snapshot_copy` write the copy, `stores` takes it, `publish` does all of it;
`perfetto` and `handoff` are the way into Perfetto's page without an upload.
"""
