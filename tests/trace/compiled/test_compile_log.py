"""Graph breaks, guards, compile times and CUDA graphs, in the wordings of several versions."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from compiled_recordings import artifact, logs, message, record, records_of, texts_of
from foretrace.read.compiler import LogRecord, TextRecord
from foretrace.read.compiler.records import (
    Compilation,
    FxGraph,
    GraphBreak,
    GraphNode,
    GuardFailure,
    SourceLine,
    TunedMatmul,
)
from foretrace.trace.compiled.compile_log import (
    BREAK_RECORD,
    RECOMPILE_RECORD,
    cudagraph_skips,
    graph_breaks,
    guard_failures,
    limit_reached,
    phases,
    resume_name,
    stage_times,
    tuned,
    with_skips,
)
from foretrace.why.lines import tuned_text

PLANTED = GraphBreak(
    SourceLine("/home/user/scripts/record.py", 52, "f", "torch._dynamo.graph_break()"),
    "Call to `torch._dynamo.graph_break()`",
    "User-inserted graph break. Message: None",
    "Remove the `torch._dynamo.graph_break()` call.",
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html",
)
# torch 2.6
SHORT = """Graph break in user code at /a/train.py:5
Reason: Unsupported: call_function BuiltinVariable(print) [] {}
User code traceback:
  File "/a/train.py", line 5, in f
    print(x)
"""
# torch 2.4
OLD = """Graph break: from user code at:
  File "/a/train.py", line 5, in f
    x = g(x)
Traceback (most recent call last):
  File "/lib/torch/_dynamo/symbolic_convert.py", line 462, in wrapper
    return inner_fn(self, inst)
torch._dynamo.exc.Unsupported: call torch._dynamo.disable() wrapped function g
"""
# torch 2.13
SKIPPED = """Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.
torch.compile will skip tracing the frame f (train.py line 3) and fall back to eager.
The graph break occurred in the following user code:
  File "/a/train.py", line 5, in f
    with ctx():

Traceback (most recent call last):
  File "/lib/torch/_dynamo/convert_frame.py", line 9, in _compile
    raise
torch._dynamo.exc.Unsupported: Graph break under GenericContextWrappingVariable
  Explanation: Attempted to graph break in an active context manager
    that does not support it.
  Hint: Move the break out of it.
  Hint: Remove it.

  Developer debug context: Active manager: ctx
"""
REPEATED = """Graph break (user stack suppressed due to duplicate graph break) in user code at /a/t.py:7
Graph Break Reason: Data-dependent branching
  Explanation: if x.sum() > 0
"""
SIZE = "tensor 'x' size mismatch at index 0. expected 64, actual 32"
RUNS = [("mlp", "0/0"), ("unfusable", "0/0"), ("recompiles", "0/1"), ("llama_train", "0/0")]


def test_the_planted_break_is_one_in_both_logs() -> None:
    records, texts = records_of("unfusable", "0/0"), texts_of("unfusable", "0/0")
    assert graph_breaks(records, ()) == graph_breaks((), texts) == (PLANTED,)
    assert graph_breaks(records, texts) == (PLANTED,)
    assert resume_name(PLANTED) == "torch_dynamo_resume_in_f_at_52"
    assert graph_breaks(records_of("mlp", "0/0"), texts_of("mlp", "0/0")) == ()


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (SHORT, "call_function BuiltinVariable(print) [] {}", 5),
        (OLD, "call torch._dynamo.disable() wrapped function g", 5),
        (SKIPPED, "Graph break under GenericContextWrappingVariable", 5),
        (REPEATED, "Data-dependent branching", 7),
    ],
)
def test_wordings_of_other_versions(text: str, reason: str, line: int) -> None:
    (found,) = graph_breaks([artifact(BREAK_RECORD, text)], ())
    assert (found.reason, found.source.line) == (reason, line)
    assert (found,) == graph_breaks((), [message("graph_breaks", text)])


def test_a_break_that_dynamo_cannot_resume_from() -> None:
    (found,) = graph_breaks((), [message("graph_breaks", SKIPPED)])
    assert found.skipped
    assert found.hint == "Move the break out of it.\nRemove it."
    assert found.explanation.endswith("active context manager that does not support it.")


def test_the_recompilation_of_the_recorded_run() -> None:
    records, texts = records_of("recompiles", "0/1"), texts_of("recompiles", "0/1")
    wanted = (GuardFailure("0/0", SIZE, "x", "64", "32", "size at index 0"),)
    assert guard_failures(records, ()) == guard_failures((), texts) == wanted
    assert guard_failures(records, texts) == wanted
    assert guard_failures(records_of("recompiles", "0/0"), texts_of("recompiles", "0/0")) == ()


@pytest.mark.parametrize(
    ("text", "subject", "what", "expected", "actual"),
    [
        ("tensor 'x' stride mismatch at index 0. expected 32, actual 1",
         "x", "stride at index 0", "32", "1"),
        ("tensor 'L['x']' strides mismatch at index 0. expected 16, actual 8",
         "L['x']", "stride at index 0", "16", "8"),
        ("tensor 'x' rank mismatch. expected 2, actual 3", "x", "rank", "2", "3"),
        ("tensor 'x' dtype mismatch. expected Float, actual Half", "x", "dtype", "Float", "Half"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=1",
         "x", "requires_grad", "requires_grad=1", ""),
        ("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, X), actual Y",
         "x", "dispatch key set", "DispatchKeySet(CPU, X)", "Y"),
        ("n == 3  # if n == 4:  # train.py:5 in f", "n", "value", "3", ""),
        ("___check_obj_id(fn, 140439264606080)", "fn", "object", "", ""),
        ("___check_type_id(L['x'], 94)", "L['x']", "type", "", ""),
        ("2 <= s77 and s77 == 4", "", "", "", ""),
        ("GLOBAL_STATE changed: grad_mode", "", "", "", ""),
    ],
)  # fmt: skip
def test_words_of_a_guard(text: str, subject: str, what: str, expected: str, actual: str) -> None:
    (found,) = guard_failures([artifact(RECOMPILE_RECORD, f"0/0: {text}")], ())
    assert found == GuardFailure("0/0", text, subject, expected, actual, what)


def test_several_versions_and_their_stacks() -> None:
    listed = f'["0/1: {SIZE}", "0/0: n == 3\\nUser stack trace:\\n  File"]'
    found = guard_failures([artifact(RECOMPILE_RECORD, listed)], ())
    written = (
        "Recompiling function f in t.py:3\n    triggered by the following guard failure(s):\n"
        f"    - 0/1: {SIZE}\n    - 0/0: n == 3\n    - User stack trace:\n    -   File"
    )
    assert guard_failures((), [message("recompiles", written)]) == found
    assert [each.version for each in found] == ["0/1", "0/0"]


def test_the_limit_of_recompilations() -> None:
    text = "torch._dynamo hit config.recompile_limit (8)\n   function: 'f' (/a/train.py:3)"
    assert limit_reached([message("", text)]) == "recompile_limit (8)"
    assert limit_reached([message("", "something else")]) == ""


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


def test_a_skip_found_at_run_time_belongs_to_the_graph_with_its_line() -> None:
    line = SourceLine("/a/train.py", 12)
    graph = FxGraph("dynamo", (GraphNode("add_", "add_", source=line),))
    both = [Compilation("0/0"), Compilation("1/0", graphs=(graph,))]
    text = 'skipping cudagraphs due to mutated inputs. Found from : \n  File "/a/train.py", line 12, in f'
    found = TextRecord("cudagraphs", "", text, 1, None)
    assert [each.cudagraph_skips for each in with_skips(both, [found])] == [
        (), ("mutated inputs (/a/train.py:12)",)
    ]  # fmt: skip
    assert with_skips(both, [replace(found, text="skipping cudagraphs due to x")]) == tuple(both)


def timed(stats: str, name: str = "mm_template_autotuning") -> LogRecord:
    """The end of a tuning, as torch 2.11 writes it."""
    args = {"autotune_shape": "8x4, 4x2", "autotune_choices_stats": stats}
    return record("chromium_event", {}, json.dumps({"name": name, "args": args, "ph": "E"}))


def test_what_tuning_timed() -> None:
    lost = {"num_choices": 3, "num_triton_choices": 2, "best_kernel": "mm", "best_time": 0.05885}
    won = {**lost, "best_kernel": "triton_mm_1", "best_triton_time": 0.05885}
    records = [
        timed(json.dumps({**lost, "best_triton_time": 0.069})),
        timed(json.dumps(won), "addmm_template_autotuning"),
        timed(json.dumps(lost)),
        timed("{"),
        timed('{"best_kernel": "mm", "best_time": -1}'),
        record("chromium_event", {}, '{"args": "autotune_choices_stats"}'),
    ]
    found = tuned(records)
    assert found == (
        TunedMatmul("mm", "8x4, 4x2", 3, "mm", 58_850, 2, 69_000),
        TunedMatmul("addmm", "8x4, 4x2", 3, "triton_mm_1", 58_850, 2, 58_850),
        TunedMatmul("mm", "8x4, 4x2", 3, "mm", 58_850, 2, None),
    )
    assert [tuned_text(each).partition(": ")[2] for each in found] == [
        "mm 58.9 us, the best of 2 Triton templates 69.0 us",
        "triton_mm_1 58.9 us, a Triton template, faster than 1 other candidate",
        "mm 58.9 us, the best of 3 candidates",
    ]
