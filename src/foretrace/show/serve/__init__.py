"""The local viewer: a folder of traces, or one of millions of events, in this machine's browser.

`catalog` lists what may be opened, `library` holds what is open, `tiles` answers with what fits on
the screen, `queries` runs SQL apart, `guard` refuses whatever does not come from our own page,
`prompt` whoever is too slow or sends too much, `app` puts them together, `run` starts it.
"""
