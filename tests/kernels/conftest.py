"""The kernels' tests. `exactness.py` beside this file holds the rule by which a result is judged."""
