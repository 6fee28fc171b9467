"""What the rules on attention, streams, steps and compiling say of the traces that show them.

Each trace of `tests/recorded` was made for one fault or for its fix. A pair of them holds the
promised saving against the realised one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.analyze import rules as analyses
from foretrace.model.trace import Trace
from foretrace.read import recordings
from foretrace.schema.finding import Finding

RECORDED = Path(__file__).parents[2] / "recorded"
LADDER, DECODE = (recordings.folder("h200") / name for name in ("ladder", "decode"))
RULES = {
    rule.name: rule
    for rule in analyses.rules()
    if rule.name
    in {
        "activation_epilogue",
        "compile_triage",
        "cudnn_plans",
        "dense_mask",
        "drifting_steps",
        "flash2_on_hopper",
        "kept_gradients",
        "masked_fill",
        "serial_streams",
        "weights_floor",
    }
}
TRACES = {
    name: folder / name
    for folder in (RECORDED, DECODE)
    for name in sorted(path.name.removesuffix(".json.gz") for path in folder.glob("*.json.gz"))
}
MASK = {"mask": [4, 1, 1024, 1024], "calls": 2, "key_heads": 4, "query_heads": 16}
FILL = {"calls": 2, "shape": [64, 12, 512, 512], "mask": [512, 512]}
# Trace -> what is found, compile_triage aside -> part of its evidence. What is not named is clear.
GOLDEN: dict[str, dict[str, dict[str, Any]]] = {
    "attention_causal_gqa_flash": {"flash2_on_hopper": {"count": 1}},
    "attention_train_flash": {"flash2_on_hopper": {"count": 4}},
    "gemma_compiled": {"dense_mask": {}},
    "graph_eager": {"weights_floor": {}},
    "hf_llama_causal_compiled": {"dense_mask": MASK},
    "llama_decode_eager": {"weights_floor": {}},
    "linear_gelu_tanh_eager": {"activation_epilogue": {"activations": 1}},
    "linear_relu_compiled": {"activation_epilogue": {"activations": 1}},
    "linear_relu_eager": {"activation_epilogue": {"activations": 1}},
    "masked_fill_and_mul": {"masked_fill": FILL},
    "steps_drift_growing_cache": {"drifting_steps": {}, "cudnn_plans": {"plans": 8}},
    "streams_host_bound": {"serial_streams": {"waited": 0}},
    "streams_never_overlap": {"serial_streams": {"waited": 0}},
    "streams_wait_for_each_other": {"serial_streams": {"streams": [13, 17]}},
    "train_grads_kept": {"kept_gradients": {"adds": 8, "fills": 1}},
}  # fmt: skip
# What the kernels that a pair has in common differ by from one recording to the next.
NOISE = 0.005
# Slow trace, its twin, the rule that promises the twin.
PAIRS = (
    (RECORDED / "attention_causal_gqa_flash", RECORDED / "attention_causal_gqa_cudnn", "flash2_on_hopper"),
    (RECORDED / "attention_train_flash", RECORDED / "attention_train_cudnn", "flash2_on_hopper"),
    (RECORDED / "linear_relu_eager", RECORDED / "linear_relu_epilogue", "activation_epilogue"),
    (RECORDED / "linear_gelu_tanh_eager", RECORDED / "linear_gelu_tanh_epilogue", "activation_epilogue"),
    (RECORDED / "train_grads_kept", RECORDED / "train_grads_none", "kept_gradients"),
    (LADDER / "attention_naive_8x16x1024x64_bf16", LADDER / "attention_inplace_8x16x1024x64_bf16", "masked_fill"),
)  # fmt: skip
SIZES = ("64x128x768x3072", "8x1024x768x12x3072", "4x512x4x768x12x3072x32000")
COMPILED = (
    *(
        (RECORDED / eager, RECORDED / compiled)
        for eager, compiled in (
            ("triage_dispatch_eager", "triage_dispatch_compiled"),
            ("triage_dispatch_eager", "triage_dispatch_graph"),
            ("triage_pointwise_eager", "triage_pointwise_compiled"),
            ("triage_large_kernel_eager", "triage_large_kernel_compiled"),
            ("llama_causal_eager", "llama_causal_compiled"),
            ("hf_llama_causal_eager", "hf_llama_causal_compiled"),
            ("linear_relu_eager", "linear_relu_compiled"),
            ("linear_gelu_tanh_eager", "linear_gelu_tanh_compiled"),
        )
    ),
    (DECODE / "llama_decode_eager_2layers", DECODE / "llama_decode_cuda_graph_2layers"),
    *(
        (LADDER / f"{eager}_bf16", LADDER / f"{compiled}_bf16")
        for eager, compiled in (
            (f"mlp_eager_{SIZES[0]}", f"mlp_compiled_{SIZES[0]}"),
            (f"mlp_eager_{SIZES[0]}_backward", f"mlp_compiled_{SIZES[0]}_backward"),
            (f"block_eager_{SIZES[1]}", f"block_compiled_{SIZES[1]}"),
            (f"block_eager_{SIZES[1]}_backward", f"block_compiled_{SIZES[1]}_backward"),
            (f"model_llama_{SIZES[2]}", f"model_compiled_{SIZES[2]}"),
            (f"train_step_fused_{SIZES[2]}", f"train_step_compiled_{SIZES[2]}"),
            ("matmul_add_eager_4096", "matmul_add_compiled_4096"),
            ("attention_naive_8x16x1024x64", "attention_compiled_8x16x1024x64"),
        )
    ),
)


@cache
def opened(stem: Path) -> Trace:
    return ft.open(stem.with_name(f"{stem.name}.json.gz"), cache=False)


def said(rule: str, stem: Path) -> Finding:
    return analyses.run(RULES[rule], opened(stem))[0]


def busy_ns(stem: Path) -> float:
    trace = opened(stem)
    return trace.spans.median_busy(trace.spans.steps) or 0.0


def wall_ns(stem: Path) -> float:
    wall = opened(stem).run.timing.wall_ns_per_call
    assert wall is not None
    return wall


@pytest.mark.parametrize("name", TRACES)
def test_recorded(name: str) -> None:
    wanted = GOLDEN.get(name, {})
    found = {rule: said(rule, TRACES[name]) for rule in RULES if rule != "compile_triage"}
    assert {rule for rule, finding in found.items() if finding.state == "found"} == set(wanted)
    assert {finding.state for finding in found.values()} <= {"found", "clear", "skipped"}
    for rule, evidence in wanted.items():
        assert {key: found[rule].evidence[key] for key in evidence} == evidence, rule


@pytest.mark.parametrize(
    ("slow", "fast", "rule"), PAIRS, ids=lambda value: getattr(value, "name", value)
)
def test_the_realised_saving_is_within_the_bound(slow: Path, fast: Path, rule: str) -> None:
    finding = said(rule, slow)
    assert finding.at_most_ns is not None
    assert finding.fix
    realised = busy_ns(slow) - busy_ns(fast)
    assert 0 < realised <= finding.at_most_ns + NOISE * busy_ns(slow)


@pytest.mark.parametrize(("eager", "compiled"), COMPILED, ids=lambda path: path.name)
def test_compiling_saved_no_more_than_the_bound(eager: Path, compiled: Path) -> None:
    finding = said("compile_triage", eager)
    assert finding.at_most_ns is not None
    assert wall_ns(eager) - wall_ns(compiled) <= finding.at_most_ns
    kernels = finding.at_most_ns - finding.evidence["dispatch_ns"]
    assert busy_ns(eager) - busy_ns(compiled) <= kernels


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("triage_dispatch_eager", "Compiling can help: at most 96.0% of the step, mostly dispatch"),
        ("triage_pointwise_eager", "Compiling can help: at most 83.0% of the step, mostly by fusing kernels"),
        ("triage_large_kernel_eager", "Compiling can hardly help: at most 0.4% of the step; matmuls and attention are 96.1% of the GPU time"),
    ],
)  # fmt: skip
def test_the_triage_answers(name: str, answer: str) -> None:
    assert said("compile_triage", RECORDED / name).title == answer


def test_a_step_shorter_than_a_compiled_call_gains_nothing() -> None:
    finding = said("compile_triage", LADDER / "matmul_add_eager_64_bf16")
    assert (
        finding.title
        == "Compiling can hardly help: a step takes 49.1 us; a compiled call costs 66 us"
    )
    assert (finding.at_most_ns, finding.fix) == (None, "")
    assert wall_ns(LADDER / "matmul_add_compiled_64_bf16") > wall_ns(
        LADDER / "matmul_add_eager_64_bf16"
    )


def test_a_compiled_program_is_not_told_to_compile() -> None:
    for name in ("triage_pointwise_compiled", "triage_dispatch_graph", "graph_capture_in_steps"):
        assert said("compile_triage", RECORDED / name).state == "clear"


def test_compiling_keeps_is_causal_where_the_model_passes_it() -> None:
    """Our model passes is_causal and enable_gqa; transformers' writes a mask while tracing."""
    own, library = (RECORDED / f"{name}_compiled" for name in ("llama_causal", "hf_llama_causal"))
    assert said("dense_mask", own).state == "clear"
    finding = said("dense_mask", library)
    assert finding.at_most_ns is not None
    # the same attention, causal and with four key heads, of the other trace
    attention = [case for case in opened(own).order.cases if case.role == "attention"]
    realised = finding.evidence["attention_ns"] - sum(case.ns for case in attention) / 3
    assert 100_000 < realised < finding.at_most_ns


def test_a_growing_cache_is_named_with_its_shapes() -> None:
    finding = said("drifting_steps", RECORDED / "steps_drift_growing_cache")
    assert finding.title == "Steps drift: GPU time grows from 142 us to 230 us"
    assert (
        "its shapes [16, 8, 1536, 128] x [16, 8, 256, 128] to [16, 8, 3840, 128]" in finding.detail
    )
    assert finding.fix == "allocate once what torch.cat grows"


def test_streams_that_the_host_keeps_apart_get_no_bound() -> None:
    finding = said("serial_streams", RECORDED / "streams_host_bound")
    assert (finding.at_most_ns, finding.fix) == (None, "")
    assert "Streams gain nothing before the host launches sooner." in finding.detail
