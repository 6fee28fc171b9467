"""The kernels' tests; `exactness.py` holds the rule that decides whether a result is right."""
