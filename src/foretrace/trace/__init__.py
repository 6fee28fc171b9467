"""One recording: its host, its GPU, the steps, and everything that is worked out from them."""
