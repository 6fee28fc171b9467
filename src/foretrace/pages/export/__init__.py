"""Give a trace to others: redacted copies, the Hub, and the way to Perfetto.

`allowed` says which texts may leave, `chrome` writes the copy, `publish` puts it where it goes.
"""
