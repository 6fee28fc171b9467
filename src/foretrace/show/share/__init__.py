"""Give a trace to others: redacted copies, stores, and the way to Perfetto.

`vocabulary` has the words that may leave, `pseudonyms` replaces the others, `chrome`,
`compiler_copy` and `snapshot_copy` write the copy, `stores` takes it, `publish` does all of it.
"""
