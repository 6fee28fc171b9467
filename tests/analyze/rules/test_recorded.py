"""What the rules say of the recordings and of the traces that show a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus.places import PUBLIC
from foretrace.read import recordings
from foretrace.schema.finding import Finding
from opened_traces import FAULTS, findings, recording

BIAS = {"bias_epilogue": {"matmuls": 1, "activations": []}}
TINY = {"cold_start": {}, "idle_gaps": {}}
COLD = TINY | {"low_occupancy": {}}
FED = {"launch_bound": {}}
FILLS = {"library_fills": {"count": 2, "bytes": 8, "ops": {"aten::mm": 2}}}

# Trace -> what is found -> part of its evidence. What is not named here is clear; nothing is
# skipped.
GOLDEN: dict[str, dict[str, dict[str, Any]]] = {
    "linear_eager": TINY
    | FED
    | BIAS
    | {"metadata_only": {"calls": {"aten::t": 1, "aten::transpose": 1, "aten::as_strided": 1}}},
    "linear_eager_stack": TINY | FED | BIAS | {"metadata_only": {}},
    "linear_compiled": TINY | FED | BIAS,
    "matmul_add_64_eager": TINY | FED | {"bias_separate": {"additions": 1, "kinds": ["a whole matrix"], "bytes": 16_384}},
    "matmul_add_64_compiled": TINY | FED | {"addmm_copy": {"count": 1, "bytes": 16_384}, "metadata_only": {}},
    "matmul_add_4096_eager": {"cold_start": {}, "low_occupancy": {}}
    | {"bias_separate": {"additions": 1, "bytes": 67_108_864}, "library_fills": {"count": 1, "ops": {"aten::mm": 1}}},
    "matmul_add_4096_compiled": COLD
    | FED
    | {
        "addmm_copy": {"count": 1, "bytes": 67_108_864},
        "metadata_only": {},
        "library_fills": {"count": 1},
        "recompilation": {"recompilations": 1, "versions": {"0": [1]}, "compile_ns": 0},
    },
    "mlp_eager": COLD
    | FILLS
    | {
        "fusable_pointwise": {"kernels": 2, "could_be": 1, "bytes_saved": 100_663_296},
        "gemm_choice": {},
        "metadata_only": {
            "calls": {f"aten::{op}": 3 for op in ("t", "transpose", "as_strided", "reshape", "view", "_unsafe_view")}
        },
    },
    "mlp_compiled": COLD | FED | FILLS | {"gemm_choice": {}, "inductor_fusions": {"launches": 1}},
    "mlp_liger": COLD | FED | FILLS | {"gemm_choice": {}, "metadata_only": {}},
    "mlp_eager_train": FED
    | {
        "idle_gaps": {},
        "low_occupancy": {"unmeasured": 6},
        "metadata_only": {},
        "fusable_pointwise": {"kernels": 6, "could_be": 3},
        "hidden_copies": {"count": 2},
        "bias_separate": {"additions": 1},
        "library_fills": {"count": 4},
        "gemm_choice": {},
    },
    "llama_train_eager": FED
    | {
        "idle_gaps": {"gaps": 1689},
        "metadata_only": {},
        "unfused_optimizer": {"optimizer": "AdamW", "kernels": 80},
        "fusable_pointwise": {},
        "casts": {"count": 106},
        "hidden_copies": {"count": 111},
        "bias_separate": {"additions": 60},
        "library_fills": {"count": 97},
        "float32_matmuls": {"count": 1},
        "gemm_choice": {},
    },
}  # fmt: skip


# The rules that most recordings are clear of, on the faults and the decoding steps.
_EXPERT = """
activation_epilogue cudnn_plans dense_mask drifting_steps flash2_on_hopper kept_gradients
masked_fill serial_streams weights_floor
"""
EXPERT = _EXPERT.split()
SHOWN = sorted(
    [*FAULTS.glob("*.json.gz"), *(recordings.folder("h200") / "decode").glob("*.json.gz")]
)
MASK = {"mask": [4, 1, 1024, 1024], "calls": 2, "key_heads": 4, "query_heads": 16}
FILL = {"calls": 2, "shape": [64, 12, 512, 512], "mask": [512, 512]}
# Trace -> what is found, compile_triage aside -> part of its evidence. What is not named is clear.
OF_FAULTS: dict[str, dict[str, dict[str, Any]]] = {
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


def said(name: str, rule: str) -> Finding:
    return findings(recording(name))[rule][0]


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded(name: str) -> None:
    found = {rule: rows[0] for rule, rows in findings(recording(name)).items()}
    eager = set() if name.endswith("compiled") else {"compile_triage"}
    states = {
        state: {rule for rule, finding in found.items() if finding.state == state}
        for state in ("found", "skipped")
    }
    assert states["found"] == set(GOLDEN[name]) | eager
    assert states["skipped"] == ({"compiled_apart"} if name.endswith("compiled") else set())
    for rule in states["skipped"]:
        assert "foretrace record --why" in found[rule].detail
    for rule, evidence in GOLDEN[name].items():
        assert {key: found[rule].evidence[key] for key in evidence} == evidence, rule


@pytest.mark.sweep(4)
@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_faults(path: Path) -> None:
    wanted = OF_FAULTS.get(path.name.removesuffix(".json.gz"), {})
    found = {rule: findings(path)[rule][0] for rule in EXPERT}
    assert {rule for rule, finding in found.items() if finding.state == "found"} == set(wanted)
    for rule, evidence in wanted.items():
        assert {key: found[rule].evidence[key] for key in evidence} == evidence, rule


def test_the_intermediate_of_the_mlp_is_named() -> None:
    finding = said("mlp_eager", "fusable_pointwise")
    assert finding.title == "gelu and mul could be one kernel"
    assert "The 50.3 MB intermediate that gelu makes ([64, 128, 3072] bf16)" in finding.detail
    assert "at most 100.7 MB of memory traffic" in finding.detail
    assert finding.fix == "torch.compile(model)"


def test_gate_and_up_share_a_kernel_and_down_has_another() -> None:
    (group,) = said("mlp_eager", "gemm_choice").evidence["groups"]
    assert group["flops"] == 38_654_705_664
    assert [(row["name"], row["shapes"], row["count"]) for row in group["kernels"]] == [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "[8192, 768] x [768, 3072]", 2),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT", "[8192, 3072] x [3072, 768]", 1),
    ]


def test_what_inductor_fused_is_told_op_by_op() -> None:
    (kernel,) = said("mlp_compiled", "inductor_fusions").evidence["kernels"]
    assert (kernel["kind"], kernel["ops"], kernel["views"]) == (
        "pointwise",
        ["gelu", "mul"],
        ["_unsafe_view"],
    )


def test_an_occupancy_of_zero_is_worked_out_from_the_footprint() -> None:
    first = said("mlp_eager", "low_occupancy").evidence["kernels"][0]
    assert (first["source"], first["registers"], first["threads"]) == ("footprint", 168, 384)
    assert first["occupancy"] == 0.1875  # one block of 12 warps, of 64


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_the_vocabulary_of_bert_is_misaligned() -> None:
    (finding,) = findings(Path(PUBLIC) / "h100_bert_small.json.gz")["misaligned_matmuls"]
    assert finding.evidence["dimensions"] == [30522]
    assert finding.title.startswith("30522 is not a multiple of 8")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("triage_dispatch_eager", "Compiling can help: dispatch and fusable kernels take 96.0% of the step, mostly dispatch"),
        ("triage_pointwise_eager", "Compiling can help: dispatch and fusable kernels take 83.0% of the step, mostly fusable kernels"),
        ("triage_large_kernel_eager", "Compiling can hardly help: dispatch and fusable kernels take 0.0% of the step"),
    ],
)  # fmt: skip
def test_the_triage_answers(name: str, answer: str) -> None:
    assert said(name, "compile_triage").title == answer


def test_a_compiled_program_is_not_told_to_compile() -> None:
    for name in ("triage_pointwise_compiled", "triage_dispatch_graph", "graph_capture_in_steps"):
        assert said(name, "compile_triage").state == "clear"


def test_a_growing_cache_is_named_with_its_shapes() -> None:
    finding = said("steps_drift_growing_cache", "drifting_steps")
    assert finding.title == "Steps drift: GPU time grows from 142 us to 230 us"
    assert (
        "its shapes [16, 8, 1536, 128] x [16, 8, 256, 128] to [16, 8, 3840, 128]" in finding.detail
    )


def test_streams_that_the_host_keeps_apart_get_no_bound() -> None:
    finding = said("streams_host_bound", "serial_streams")
    assert (finding.at_most_ns, finding.fix) == (None, "")
    assert "Streams gain nothing before the host launches sooner." in finding.detail
