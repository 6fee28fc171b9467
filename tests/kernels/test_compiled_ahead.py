"""Kernels without a GPU: compiled ahead of time, and interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from ahead import SHARED_LIMIT, digest

from sweep import FULL

pytest.importorskip("triton")


# A thread's accumulators take 512 bytes. Triton 3.9 puts two counters of one kernel on the stack.
FEW_BYTES = 8
WHICH = "all" if FULL else "sample"
LEAST = {80: 1, 90: 9, 100: 1} if WHICH == "sample" else {80: 8, 90: 9, 100: 9}


def _compiled(tmp_path: Path) -> list[str]:
    """A line for the sources and one for each variant: what is written down, where nothing changed."""
    script = Path(__file__).with_name("ahead.py")
    known = script.with_suffix(".jsonl").read_text().splitlines()
    if not FULL and json.loads(known[0])["sources"] == digest():
        return known
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DUMP_PTXAS_LOG": "1"}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, str(script), WHICH]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_no_spills_and_shared_memory_within_the_limit(tmp_path: Path) -> None:
    variants = [json.loads(line) for line in _compiled(tmp_path)[1:]]
    compiled = Counter(v["arch"] for v in variants)
    assert all(compiled[arch] >= LEAST[arch] for arch in SHARED_LIMIT), compiled
    bad = [v for v in variants if v["stack"] > FEW_BYTES or v["shared"] > SHARED_LIMIT[v["arch"]]]
    assert not bad


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
