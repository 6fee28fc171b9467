"""No rate above what the GPU can do, on any trace: a cost that implies one is wrong."""

import os
from pathlib import Path

import pytest
from recorded_calls import RECORDED

import foretrace
from foretrace.trace.metadata import device_of
from foretrace.trace.roofs import dtype_of
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs import peak_flops
from opened_traces import opened
from sweep import looped

PUBLIC = Path(os.environ.get("FORETRACE_PUBLIC_TRACES") or "/nonexistent")
OTHERS = sorted([*PUBLIC.glob("*.json.gz"), *PUBLIC.glob("serving/*/replay.json.gz")])


def check(trace: Trace) -> None:
    device = device_of(trace.about)
    if device is None:
        return
    highest = max(device.peak_flops.values())
    for case in trace.kernel_cases.iter_rows(named=True):
        kernel = families.decode(case["name"])
        peak = peak_flops(device, dtype_of(case, kernel), kernel.get("tensor_core")) or highest
        roof = device.bytes_per_s
        if case["bound"] == "l2":
            roof = (device.measured and device.measured.l2_bytes_per_s) or 0.0
        assert (case["gbps"] or 0) * 1e9 <= roof, case["name"]
        assert (case["tflops"] or 0) * 1e12 <= peak, case["name"]
        assert (case["roof_percent"] or 0) <= 100, case["name"]


@looped("path", RECORDED, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_recorded_traces(path: Path) -> None:
    check(opened(path))


@pytest.mark.public
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(PUBLIC)))
def test_public_traces(path: Path) -> None:
    check(foretrace.open(path))
