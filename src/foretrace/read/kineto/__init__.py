"""Kineto's Chrome JSON, as torch.profiler writes it."""
