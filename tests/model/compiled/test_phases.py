"""Compile times, caches and CUDA graphs."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from foretrace.model.compiled.compile_time import (
    cache_states,
    cudagraph_skips,
    phases,
    rerecordings,
    stage_times,
    with_skips,
)
from foretrace.read.compiler import LogRecord, TextRecord
from foretrace.schema.compiler import (
    Compilation,
    CompilePhase,
    FxGraph,
    GraphNode,
    Rerecording,
    SourceLine,
)
from model.compiled.recorded import artifact, logs, message, record, records_of

RUNS = [("mlp", "0/0"), ("unfusable", "0/0"), ("recompiles", "0/1"), ("llama_train", "0/0")]


def _event(name: str, ph: str, ts: float, tid: int = 0) -> LogRecord:
    payload = json.dumps({"name": name, "ph": ph, "ts": ts, "tid": tid, "args": {}})
    return record("chromium_event", {}, payload)


@pytest.mark.parametrize(("run", "compile_id"), RUNS)
def test_the_outer_phase_is_what_torch_measured(run: str, compile_id: str) -> None:
    """`compilation_metrics` has the same time from another clock: within 1%."""
    records = records_of(run, compile_id)
    found = phases(records)
    metrics = next(each.fields for each in records if each.kind == "compilation_metrics")
    frame = next(each for each in found if each.name == "entire_frame_compile")
    assert frame.ns == pytest.approx(metrics["duration_us"] * 1000, rel=0.01)
    code = next(each for each in found if each.name == "code_gen")
    if run != "llama_train":  # the metrics of a forward leave out its backward
        wanted = metrics["inductor_code_gen_cumulative_compile_time_us"]
        assert code.ns == pytest.approx(wanted * 1000, rel=0.01)
    outer = sum(each.ns for each in found if each.depth == 0)
    assert sum(stage_times(found).values()) == pytest.approx(outer, abs=len(found) * 1000)


def test_a_phase_that_ran_twice_and_one_that_never_ended() -> None:
    found = phases(
        [
            _event("dynamo", "B", 0), _event("code_gen", "B", 1), _event("x", "B", 2),
            _event("code_gen", "E", 3), _event("code_gen", "B", 4), _event("code_gen", "E", 9),
            _event("other thread", "B", 0, tid=1), _event("dynamo", "E", 10),
            _event("never begun", "E", 10),
        ]
    )  # fmt: skip
    assert found == (
        CompilePhase("dynamo", 10_000, 0, "Dynamo", 3_000),
        CompilePhase("code_gen", 7_000, 1, "code generation", 7_000),
    )


def test_a_damaged_event_is_left_out() -> None:
    assert phases([record("chromium_event", {}, '{"name": 3'), record("chromium_event", {})]) == ()


def test_caches() -> None:
    disabled = {"FX graph": "disabled", "Triton autotuning": "disabled"}
    assert cache_states(logs("llama_train").records) == disabled
    found = cache_states(
        [
            artifact("fx_graph_cache_miss", "{}"),
            artifact("fx_graph_cache_hit", "{}"),
            artifact("aotautograd_cache_hash", '{"cache_state": "miss"}'),
            artifact("triton_kernel_info", '{"triton_poi": {"autotune_cache_state": "hit"}}'),
        ]
    )
    assert found == {"FX graph": "miss, hit", "AOTAutograd": "miss", "Triton autotuning": "hit"}
    bypass = artifact("fx_graph_cache_bypass", '{"cache_bypass_reason": "constant tensors"}')
    assert cache_states([bypass]) == {"FX graph": "bypass: constant tensors"}


def test_skipped_cuda_graphs() -> None:
    text = (
        "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"
        '   File "/a/train.py", line 12, in f\n    x.add_(1)\n'
    )
    metrics = record("compilation_metrics", {"cudagraph_skip_reason": text})
    wanted = ("mutated inputs (1 instances) (/a/train.py:12)",)
    assert cudagraph_skips([metrics], [message("cudagraphs", text)]) == wanted
    assert cudagraph_skips((), [message("perf_hints", text)]) == wanted
    assert cudagraph_skips(logs("mlp").records, logs("mlp").texts) == ()


def test_rerecorded_cuda_graphs() -> None:
    line = "[0/0] Re-recording function=f, mode=FORWARD, reason=static input data pointer changed."
    assert rerecordings([message("cudagraphs", line)]) == (
        Rerecording("0/0", "f", "static input data pointer changed", "FORWARD"),
    )
    older = line.replace(" mode=FORWARD,", "")  # torch 2.11
    assert [each.mode for each in rerecordings([message("cudagraphs", older)])] == [""]


def test_a_skip_found_at_run_time_belongs_to_the_graph_with_its_line() -> None:
    line = SourceLine("/a/train.py", 12)
    graph = FxGraph("dynamo", (GraphNode("add_", "add_", source=line),))
    both = [Compilation("0/0"), Compilation("1/0", graphs=(graph,))]
    text = 'skipping cudagraphs due to mutated inputs. Found from : \n  File "/a/train.py", line 12, in f'
    told = TextRecord("cudagraphs", "", text, 1, None)
    assert [each.cudagraph_skips for each in with_skips(both, [told])] == [
        (), ("mutated inputs (/a/train.py:12)",)
    ]  # fmt: skip
    assert with_skips(both, [replace(told, text="skipping cudagraphs due to x")]) == tuple(both)
