"""What findings say that a fix saves against what it saved, in pairs of recordings."""

from __future__ import annotations

import pytest

from foretrace.look.documents import Finding
from foretrace.look.fixes import predicted
from foretrace.trace.trace import Trace
from opened_traces import findings, opened, recording

MLP, ATTENTION, BLOCK = "64x128x768x3072", "8x16x1024x64", "8x1024x768x12x3072"
MODEL = "4x512x4x768x12x3072x32000"
# Rule, the recording in which it sees something, and one in which that was fixed.
FIXED = (
    ("attention_math", f"attention_naive_{ATTENTION}", f"attention_cudnn_{ATTENTION}"),
    ("attention_math", f"attention_inplace_{ATTENTION}", f"attention_cudnn_{ATTENTION}"),
    ("attention_math", f"attention_math_{ATTENTION}", f"attention_cudnn_{ATTENTION}"),
    ("fusable_pointwise", f"attention_inplace_{ATTENTION}", f"attention_compiled_{ATTENTION}"),
    ("fusable_pointwise", f"block_eager_{BLOCK}", f"block_compiled_{BLOCK}"),
    ("fusable_pointwise", f"mlp_eager_{MLP}", f"mlp_compiled_{MLP}"),
    ("fusable_pointwise", f"model_llama_{MODEL}", f"model_compiled_{MODEL}"),
    ("fusable_pointwise", f"train_step_foreach_{MODEL}", f"train_step_compiled_{MODEL}"),
    ("fusable_pointwise", "hf_llama_causal_eager", "hf_llama_causal_compiled"),
    ("fusable_pointwise", "llama_causal_eager", "llama_causal_compiled"),
    ("fusable_pointwise", "triage_dispatch_eager", "triage_dispatch_compiled"),
    ("fusable_pointwise", "triage_pointwise_eager", "triage_pointwise_compiled"),
    ("unfused_optimizer", f"train_step_foreach_{MODEL}", f"train_step_fused_{MODEL}"),
    ("unfused_optimizer", f"train_step_forloop_{MODEL}", f"train_step_fused_{MODEL}"),
    ("launch_bound", "triage_dispatch_eager", "triage_dispatch_graph"),
    ("launch_bound", "llama_decode_eager_2layers", "llama_decode_cuda_graph_2layers"),
)
# Eager programs that compiling made no faster.
KEPT = (
    ("triage_large_kernel_eager", "triage_large_kernel_compiled"),
    ("matmul_add_eager_4096", "matmul_add_compiled_4096"),
    (f"mlp_eager_{MLP}_backward", f"mlp_compiled_{MLP}_backward"),
)
NEAR = 0.25  # of the step: what a prediction may be off by


# What the kernels that a pair has in common differ by from one recording to the next.
NOISE = 0.005
# Slow trace, its twin, the rule that promises the twin.
TWINS = (
    ("attention_causal_gqa_flash", "attention_causal_gqa_cudnn", "flash2_on_hopper"),
    ("attention_train_flash", "attention_train_cudnn", "flash2_on_hopper"),
    ("linear_relu_eager", "linear_relu_epilogue", "activation_epilogue"),
    ("linear_gelu_tanh_eager", "linear_gelu_tanh_epilogue", "activation_epilogue"),
    ("train_grads_kept", "train_grads_none", "kept_gradients"),
    (f"attention_naive_{ATTENTION}", f"attention_inplace_{ATTENTION}", "masked_fill"),
)


def trace_of(name: str) -> Trace:
    return opened(recording(name))


def said(name: str, rule: str) -> Finding:
    return findings(recording(name))[rule][0]


def busy_ns(name: str) -> float:
    spans = trace_of(name).spans
    return spans.median_busy(spans.steps) or 0.0


def wall_ns(name: str) -> float:
    wall = trace_of(name).run.timing.wall_ns_per_call
    assert wall is not None
    return wall


@pytest.mark.parametrize(("rule", "before", "after"), FIXED)
def test_a_finding_saves_what_its_fix_saved(rule: str, before: str, after: str) -> None:
    found, wall = said(before, rule), wall_ns(before)
    assert found.fix
    assert found.saves_ns is not None
    assert found.saves_ns <= (found.at_most_ns or 0)
    assert abs(wall - wall_ns(after) - found.saves_ns) <= NEAR * wall


@pytest.mark.parametrize(("eager", "compiled"), KEPT)
def test_no_saving_is_told_where_compiling_gains_nothing(eager: str, compiled: str) -> None:
    assert wall_ns(compiled) > 0.99 * wall_ns(eager)
    assert said(eager, "fusable_pointwise").saves_ns is None


def test_a_fix_that_something_else_blocks_is_not_advised() -> None:
    """A CUDA graph of a step that reads a number of the GPU."""
    name = f"model_llama_{MODEL}"
    future = predicted(trace_of(name))
    assert future is not None
    (graph,) = [each.proposal for each in future.every if each.fix == "cuda_graph"]
    assert graph.first
    found = said(name, "launch_bound")
    assert (found.state, found.fix, found.saves_ns) == ("found", "", None)


@pytest.mark.parametrize(("slow", "fast", "rule"), TWINS)
def test_the_realised_saving_is_within_the_bound(slow: str, fast: str, rule: str) -> None:
    finding = said(slow, rule)
    assert finding.at_most_ns is not None
    assert finding.fix
    realised = busy_ns(slow) - busy_ns(fast)
    assert 0 < realised <= finding.at_most_ns + NOISE * busy_ns(slow)


def test_a_step_shorter_than_a_compiled_call_gains_nothing() -> None:
    finding = said("matmul_add_eager_64", "compile_triage")
    assert (
        finding.title
        == "Compiling can hardly help: a step takes 49.1 us; a compiled call costs 66 us"
    )
    assert (finding.at_most_ns, finding.fix) == (None, "")
    assert wall_ns("matmul_add_compiled_64") > wall_ns("matmul_add_eager_64")


def test_compiling_keeps_is_causal_where_the_model_passes_it() -> None:
    """Our model passes is_causal and enable_gqa; transformers' writes a mask while tracing."""
    assert said("llama_causal_compiled", "dense_mask").state == "clear"
    finding = said("hf_llama_causal_compiled", "dense_mask")
    assert finding.at_most_ns is not None
    # the same attention, causal and with four key heads, of the other trace
    cases = trace_of("llama_causal_compiled").kernel_rows
    attention = sum(case.ns for case in cases if case.role == "attention") / 3
    realised = finding.evidence["attention_ns"] - attention
    assert 100_000 < realised < finding.at_most_ns
