"""Names from real traces: every kernel belongs to a family, and hardly any time is left without a
role.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from foretrace.work import families
from work.families.test_contract import check

RECORDED = Path(str(files("foretrace") / "read/recordings/h200"))
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES")
AT_MOST_OTHER = {"recorded": 0.01, "public": 0.03}  # of kernel time


@cache
def kernels(folder: str) -> dict[str, float]:
    """Distinct kernel names of all traces in a folder, with their time in microseconds. Plain JSON,
    no reader of ours.
    """
    found: dict[str, float] = defaultdict(float)
    for path in sorted(Path(folder).glob("*.json.gz")):
        trace = json.loads(gzip.decompress(path.read_bytes()), strict=False)
        for event in trace["traceEvents"] if isinstance(trace, dict) else trace:
            if str(event.get("cat", "")).lower() == "kernel":
                found[event["name"]] += float(event.get("dur") or 0)
    return found


def folders() -> list[object]:
    missing = pytest.mark.skipif(
        not PUBLIC, reason="set FORETRACE_PUBLIC_TRACES to a folder of public traces"
    )
    return [
        pytest.param("recorded", str(RECORDED), id="recorded"),
        pytest.param("public", PUBLIC or "", id="public", marks=[pytest.mark.public, missing]),
    ]


@pytest.mark.parametrize(("kind", "folder"), folders())
def test_every_kernel_belongs_to_a_family(kind: str, folder: str) -> None:
    assert kernels(folder)
    for name in kernels(folder):
        kernel = families.decode(name)
        check(kernel)
        assert kernel.family != "unknown", name


@pytest.mark.parametrize(("kind", "folder"), folders())
def test_hardly_any_time_is_without_a_role(kind: str, folder: str) -> None:
    times = kernels(folder)
    other = sum(time for name, time in times.items() if families.decode(name).role == "other")
    assert other <= AT_MOST_OTHER[kind] * sum(times.values())


def test_the_mlp_runs_three_matmuls_and_its_activation() -> None:
    """GeGLU in eager mode: gate, up and down on Hopper kernels, then gelu and mul apart."""
    trace = json.loads(gzip.decompress((RECORDED / "mlp_eager.json.gz").read_bytes()))
    names = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    shorts = [families.decode(name).short for name in names[:5]]
    assert shorts == [
        "nvjet 256x128x64 tn bf16",
        "gelu",
        "nvjet 256x128x64 tn bf16",
        "mul bf16",
        "nvjet 192x128x64 tn bf16",
    ]
