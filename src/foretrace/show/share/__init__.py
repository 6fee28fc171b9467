"""Give a trace to others: redacted copies, stores, and the way to Perfetto.

`pseudonyms` has the words that may leave and replaces the others, `chrome`,
`compiler_copy` and `snapshot_copy` write the copy, `stores` takes it, `publish` does all of it.
"""
