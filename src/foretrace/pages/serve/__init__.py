"""The local viewer: a folder of traces, or one of millions of events, in this machine's browser."""
