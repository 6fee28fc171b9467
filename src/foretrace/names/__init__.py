"""What the name of a kernel, a device or a matmul says."""
