"""The local viewer: a folder of traces, or one of millions of events, in this machine's browser.

`library` lists what may be opened, holds what is open and knows what belongs to an event, `tiles`
answers with what fits on the screen, `http_limits` refuses what does not come from our own page, is
too slow or too large, `app` has the routes and runs SQL apart, `run` starts it.
"""
