"""Runs the tests of `interpreted/` in a process of their own, where Triton's interpreter is on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")


def test_under_the_interpreter() -> None:
    folder = Path(__file__).with_name("interpreted")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        str(folder),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1"}
    )
    assert done.returncode == 0, done.stdout[-4000:]
