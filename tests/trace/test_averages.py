"""The rows of the profiler's table, against the raw events of a recording."""

from __future__ import annotations

import gzip
import json

import pytest

import foretrace as ft
from foretrace.read import recordings
from foretrace.trace.recording import average

PATH = recordings.find("mlp_eager_64x128x768x3072_bf16")


@pytest.mark.parametrize(
    "name", ["aten::mm", "aten::linear", "aten::gelu", "aten::t", "aten::none"]
)
def test_a_row_is_what_the_raw_events_add_up_to(name: str) -> None:
    assert PATH is not None
    events = json.loads(gzip.decompress(PATH.read_bytes()))["traceEvents"]
    calls = [event for event in events if event.get("name") == name and event.get("ph") == "X"]
    launches = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    work = [
        (launches[event["args"]["correlation"]], event["dur"])
        for event in events
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    inside = [
        dur
        for call in calls
        for launched, dur in work
        if call["ts"] <= launched < call["ts"] + call["dur"]
    ]
    row = average(ft.open(PATH, cache=False), name)
    assert row.calls == len(calls)
    assert row.cpu_ns == round(sum(call["dur"] for call in calls) * 1000)
    assert row.gpu_ns == round(sum(inside) * 1000)
    assert row.self_gpu_ns == (row.gpu_ns if name != "aten::linear" else 0)


def test_a_graph_launch_has_host_time_alone() -> None:
    """As in torch: the kernels of a replay come from no op, and have rows of their own."""
    path = recordings.decoding()["llama_decode_cuda_graph_2layers"]
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    spent = [event["dur"] for event in events if event.get("name") == "cudaGraphLaunch"]
    row = average(ft.open(path, cache=False), "cudaGraphLaunch")
    assert (row.calls, row.gpu_ns, row.self_gpu_ns) == (len(spent), 0, 0)
    assert row.cpu_ns == row.self_cpu_ns == round(sum(spent) * 1000)
