"""Tests that run the Triton kernels on a CPU, under Triton's interpreter.

The interpreter is chosen when a kernel is defined, so these run in a process of their own:
`test_compiled_ahead.py` one folder up starts it with TRITON_INTERPRET=1. Without that variable there
is nothing to collect here.
"""

import os

if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]
