"""What this card or CPU can do at most, measured: memory by working set, matmuls."""
