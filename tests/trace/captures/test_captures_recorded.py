"""Replays of a Llama decode at three batch sizes, joined with the trace of their captures, against
the same calls without graphs; and the public sets of vLLM and SGLang.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from shutil import copy

import polars as pl
import pytest

import foretrace as ft
from corpus.places import PUBLIC
from opened_traces import opened

OWN = Path(__file__).parents[2] / "recorded"
REPLAY, CAPTURE = OWN / "graph_replay.json.gz", OWN / "graph_capture.json.gz"
SERVING = [Path(PUBLIC) / "serving" / name for name in ("sglang_decode", "vllm_decode_full")]
# ops of TraceLens's table whose kernels have names of their own
WORDS = {
    "aiter::gemm_a16w16": "Cijk",
    "vllm::rocm_unquantized_gemm": "Cijk",
    "aten::mm": "Cijk",
    "aten::addmm": "Cijk",
    "aiter::rmsnorm": "rmsnorm",
    "aiter::add_rmsnorm": "rmsnorm",
    "sgl_kernel::silu_and_mul": "act_and_mul",
    "_C::rotary_embedding": "rotary_embedding",
    "_C_cache_ops::reshape_and_cache_flash": "reshape_and_cache",
}


def calls(trace: ft.Trace) -> dict[str, list[list[tuple[object, ...]]]]:
    """For each region, the work of each call: kernel, ops around it, arguments, modules."""
    origins, gpu, host = trace.origins, trace.gpu, trace.host
    own = trace.module_calls.own
    found: dict[str, list[list[tuple[object, ...]]]] = {}
    for span in trace.spans.regions:
        rows = [
            (
                host.names[host.name[gpu.id[row]]],
                origins.host.op_chain(int(origins.op[row])),
                origins.arguments.of(int(origins.op[row])),
                int(own[row]) >= 0,
            )
            for row in span.work.tolist()
        ]
        found.setdefault(span.name, []).append(rows)
    return found


@cache
def replayed() -> ft.Trace:
    return ft.open(REPLAY, cache=False, captures=CAPTURE)


def test_every_replayed_kernel_has_the_op_and_sizes_of_the_eager_run() -> None:
    replay, eager = calls(replayed()), calls(opened(OWN / "graph_eager.json.gz"))
    for size in (1, 8, 32):
        joined, truth = replay[f"decode bs={size}"], eager[f"decode bs={size}"]
        assert len(joined) == len(truth) == 3
        assert [len(call) for call in joined] == [421] * 3
        assert joined == truth


def test_captures_beside_a_trace_are_found(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    copy(REPLAY, tmp_path)
    copy(CAPTURE, tmp_path / "captures")
    trace = ft.open(tmp_path / "graph_replay.json.gz", cache=False)
    assert len(trace.captures) == 1
    assert int(trace.origins.is_captured.sum()) == 9 * 421
    assert trace.ledger.count("captured") == 9 * 421
    assert trace.ledger.count("capture_mismatch") == 0


def in_step(trace: ft.Trace, step: int) -> pl.DataFrame:
    cost = ("name", "op_name", "flops", "bytes_read", "bytes_written", "bytes", "cost_certainty")
    return trace.kernels.filter(pl.col("step") == step).select(cost).sort(cost)


def test_a_replay_costs_what_the_eager_run_costs() -> None:
    """Decoding at batch 1, 8 and 32; a matmul replayed three times is three calls of one kernel."""
    for step in range(3):
        found = in_step(replayed(), step)
        assert (found.height, found["bytes"].null_count()) == (3 * 421, 0)
        assert found.equals(in_step(opened(OWN / "graph_eager.json.gz"), step))


@pytest.mark.parametrize("folder", SERVING, ids=[each.name for each in SERVING])
def test_serving_sets(folder: Path) -> None:
    if not PUBLIC or not folder.is_dir():
        pytest.skip("the public serving traces are not here (FORETRACE_PUBLIC_TRACES)")
    trace = ft.open(folder / "replay.json.gz", cache=False)
    gpu, origins = trace.gpu, trace.origins
    replayed = trace.host.is_graph_launch[gpu.launch]
    assert origins.is_captured[replayed].all()
    known = gpu.length[origins.op >= 0].sum() / gpu.length.sum()
    assert known > 0.99
    with open(folder / "tracelens.csv") as file:
        theirs = {row["name"].partition("->")[0] for row in csv.DictReader(file)}
    ours = set()
    for row, event in enumerate(gpu.id.tolist()):
        name = trace.host.names[trace.host.name[event]]
        chain = origins.host.op_chain(int(origins.op[row]))
        ours |= {re.sub(r"(sglang_profiler::.*)_\d+$", r"\1", op) for op in chain}
        for op in chain:
            assert WORDS.get(op, "") in name, (op, name)
    missing = {name for name in theirs - ours if not name.startswith(("pseudo_op::", "hip"))}
    assert missing == set()
