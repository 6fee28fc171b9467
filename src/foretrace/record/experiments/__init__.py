"""Measuring without a trace: `timing` times calls side by side, `shapes` follows a rung from shape
to shape, `roofs` measures this machine, and `machine` says what a rung runs on.
"""
