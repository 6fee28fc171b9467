"""Counters of Nsight Compute, joined to the kernels of a trace."""
