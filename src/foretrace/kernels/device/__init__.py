"""Triton kernels and the code that launches them. Imported only where Triton is installed."""
