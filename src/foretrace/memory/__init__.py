"""The memory of a GPU: its peak, what holds it, and what frees it."""
