"""The local viewer: a folder of traces, or one of millions of events, in the browser of this
machine and no other.

`catalog` lists what may be opened, `opened` holds what is open, `tiles` answers with what fits on
the screen, `guard` refuses whatever does not come from our own page, `app` puts them together,
`run` starts it.
"""
