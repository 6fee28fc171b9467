"""foretrace: guess first, then look. Capture, read, check and compare PyTorch profiler traces."""

__version__ = "0.1.0"
