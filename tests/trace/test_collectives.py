"""Messages and bandwidths of collectives, by the definitions of nccl-tests."""

from pathlib import Path

import pytest

from foretrace.trace.trace import Trace
from opened_traces import open_made

KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def traced(folder: Path, *records: dict[str, object], on_op: bool = False) -> Trace:
    """A trace with one collective of 1 ms for each record, stated by the kernel or by its op."""
    events: list[dict[str, object]] = []
    for at, record in enumerate(records):
        ts, link = 10 + 2000 * at, {"correlation": 100 + at, "External id": 7 + at}
        own, ops = ({}, record) if on_op else (record, {})
        op = {"cat": "cpu_op", "name": "record_param_comms", "tid": 1, "ts": ts, "dur": 8}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "tid": 1, "dur": 2}
        gpu = {"cat": "kernel", "name": KERNEL, "tid": 7, "ts": ts + 20, "dur": 1000.0}
        events += [
            {"ph": "X", "pid": 1, **op, "args": {"External id": 7 + at, **ops}},
            {"ph": "X", "pid": 1, **call, "ts": ts + 1, "args": link},
            {"ph": "X", "pid": 0, **gpu, "args": {**link, "device": 0, "stream": 7, **own}},
        ]
    return open_made({"schemaVersion": 1, "traceEvents": events}, folder)


def message(name: str, given: int, taken: int, ranks: int = 8) -> dict[str, object]:
    sizes = {"In msg nelems": given, "Out msg nelems": taken, "Group size": ranks}
    group = {"Process Group Name": "3", "Seq": 41, "Comms Id": 1234567890123456789}
    return {"Collective name": name, "dtype": "BFloat16", **sizes, **group}


@pytest.mark.parametrize(
    ("record", "collective", "size", "bus"),
    [
        (message("allreduce", 1_000_000, 1_000_000), "all-reduce", 2_000_000, 2 * 1.75),
        (message("_allgather_base", 125_000, 1_000_000), "all-gather", 2_000_000, 2 * 0.875),
        (message("_reduce_scatter_base", 1_000_000, 125_000), "reduce-scatter", 2_000_000, 1.75),
        (message("all_to_allv", 1_000_000, 1_000_000), "all-to-all", 2_000_000, 1.75),
        (message("broadcast", 1_000_000, 1_000_000), "broadcast", 2_000_000, 2.0),
        (message("send", 1_000_000, 1_000_000, 2), "send", 2_000_000, 2.0),
    ],
)
def test_bus_bandwidth(
    tmp_path: Path, record: dict[str, object], collective: str, size: int, bus: float
) -> None:
    row = traced(tmp_path, record).collectives.row(0, named=True)
    assert (row["collective"], row["message_bytes"]) == (collective, size)
    assert row["algorithm_gbps"] == pytest.approx(2.0)
    assert row["bus_gbps"] == pytest.approx(bus)


def test_the_op_states_what_the_kernel_does_not(tmp_path: Path) -> None:
    trace = traced(tmp_path, message("allreduce", 1000, 1000), on_op=True)
    assert trace.collectives["message_bytes"].to_list() == [2000]
    assert trace.kernels["bytes"].to_list() == [4000], "read once and written once"


def test_rows_of_one_size_and_group_are_one(tmp_path: Path) -> None:
    records = [message("allreduce", 8, 8), message("allreduce", 16, 16), message("allreduce", 8, 8)]
    found = traced(tmp_path, *records).collectives
    assert found["count"].to_list() == [2, 1]
    other = message("allreduce", 8, 8) | {"Process Group Name": "4"}
    assert traced(tmp_path, records[0], other).collectives.height == 2


@pytest.mark.parametrize(
    "record",
    [
        {},
        message("barrier", 0, 0),
        message("allreduce", 8, 8) | {"dtype": "Nonsense"},
        message("allreduce", -1, -1),
        {"Collective name": "allreduce"},
    ],
)
def test_without_a_message_there_is_no_bandwidth(tmp_path: Path, record: dict[str, object]) -> None:
    trace = traced(tmp_path, record)
    assert trace.collectives.is_empty()
    assert trace.kernel_cases["limited_by"].to_list() == ["the links, or ranks that wait"]


def test_without_ranks_there_is_no_bus_bandwidth(tmp_path: Path) -> None:
    record = message("allreduce", 8, 8)
    del record["Group size"]
    row = traced(tmp_path, record).collectives.row(0, named=True)
    assert row["algorithm_gbps"] > 0
    assert row["bus_gbps"] is None
