"""What every rule says of the recorded traces, and that no rule fails on the public ones."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foretrace as ft
from foretrace.analyze import rules as analyses
from foretrace.read import recordings
from foretrace.schema.finding import Finding

PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")
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


@cache
def findings(name: str) -> dict[str, Finding]:
    return {
        finding.rule: finding
        for finding in analyses.run_all(ft.open(recordings.traces()[name], cache=False))
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded(name: str) -> None:
    found = findings(name)
    eager = set() if name.endswith("compiled") else {"compile_triage"}
    assert {rule for rule, finding in found.items() if finding.state == "found"} == set(
        GOLDEN[name]
    ) | eager
    skipped = {rule for rule, finding in found.items() if finding.state == "skipped"}
    assert skipped == ({"compiled_apart"} if name.endswith("compiled") else set())
    assert {finding.state for finding in found.values()} <= {"found", "clear", "skipped"}
    for rule, evidence in GOLDEN[name].items():
        assert {key: found[rule].evidence[key] for key in evidence} == evidence, rule


def test_the_intermediate_of_the_mlp_is_named() -> None:
    finding = findings("mlp_eager")["fusable_pointwise"]
    assert finding.title == "gelu and mul could be one kernel"
    assert "The 50.3 MB intermediate that gelu makes ([64, 128, 3072] bf16)" in finding.detail
    assert "at most 100.7 MB of memory traffic" in finding.detail
    # What compiling saved in this very trace's twin, 33.0 + 36.9 - 37.5 us, is within the bound.
    assert finding.at_most_ns is not None
    assert 32_000 < finding.at_most_ns < 40_000


def test_gate_and_up_share_a_kernel_and_down_has_another() -> None:
    (group,) = findings("mlp_eager")["gemm_choice"].evidence["groups"]
    assert group["flops"] == 38_654_705_664
    assert [(row["name"], row["shapes"], row["count"]) for row in group["kernels"]] == [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "[8192, 768] x [768, 3072]", 2),
        ("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT", "[8192, 3072] x [3072, 768]", 1),
    ]


def test_what_inductor_fused_is_told_op_by_op() -> None:
    (kernel,) = findings("mlp_compiled")["inductor_fusions"].evidence["kernels"]
    assert (kernel["kind"], kernel["ops"], kernel["views"]) == (
        "pointwise",
        ["gelu", "mul"],
        ["_unsafe_view"],
    )


def test_an_occupancy_of_zero_is_worked_out_from_the_footprint() -> None:
    first = findings("mlp_eager")["low_occupancy"].evidence["kernels"][0]
    assert (first["source"], first["registers"], first["threads"]) == ("footprint", 168, 384)
    assert first["occupancy"] == 0.1875  # one block of 12 warps, of 64


@pytest.mark.parametrize("name", GOLDEN)
def test_no_saving_exceeds_the_time_there_is(name: str) -> None:
    trace = ft.open(recordings.traces()[name], cache=False)
    step = np.median([np.ptp(trace.spans.window(span)) for span in trace.spans.steps])
    for finding in findings(name).values():
        assert finding.at_most_ns is None or 0 <= finding.at_most_ns <= step, finding.rule


def public() -> list[Any]:
    paths = sorted(Path(PUBLIC).glob("*.json.gz")) if PUBLIC else []
    return [pytest.param(path, id=path.name) for path in paths]


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
@pytest.mark.parametrize("path", public())
def test_no_rule_fails_on_a_public_trace(path: Path) -> None:
    found = analyses.run_all(ft.open(path, cache=False))
    assert [finding for finding in found if finding.state == "crashed"] == []
    assert {finding.rule for finding in found} == {rule.name for rule in analyses.rules()}


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_the_vocabulary_of_bert_is_misaligned() -> None:
    found = analyses.run_all(ft.open(Path(PUBLIC) / "h100_bert_small.json.gz", cache=False))
    finding = next(finding for finding in found if finding.rule == "misaligned_matmuls")
    assert finding.evidence["dimensions"] == [30522]
    assert finding.title.startswith("30522 is not a multiple of 8")
