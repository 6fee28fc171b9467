"""Statements about kernel names that were false, one test a row; they hold on every recording."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import foretrace
from foretrace.work import families
from foretrace.work.families._parser import role_of_op
from sweep import looped

RECORDED = sorted(Path(str(files("foretrace") / "read/recordings")).rglob("*.json.gz"))
ELSEWHERE = ("gemm", "gemv", "conv", "attention")


@cache
def kernels(path: Path) -> frozenset[str]:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return frozenset(event["name"] for event in events if event.get("cat") == "kernel")


@looped("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_an_origin_op_is_not_work(path: Path) -> None:
    """Compiled models: "cudnn_attention, bmm in one pointwise kernel"; they ran elsewhere."""
    for name in kernels(path):
        kernel = families.decode(name)
        if kernel.family == "inductor_triton" and kernel.get("category") != "template":
            assert kernel.role not in ELSEWHERE, name
            roles = {role_of_op(f"aten::{op}") for op in families.own_ops(kernel)}
            assert not roles & set(ELSEWHERE), name


@looped("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_two_kernels_of_a_trace_have_two_short_names(path: Path) -> None:
    """`compare`: "changes from X to X"; where a field differs, the short name shows it."""
    found = families.told_apart(map(families.decode, kernels(path)))
    for name, kernel in found.items():
        for other in found.values():
            if other.short == kernel.short and other.name != name:
                assert families.changed(families.decode(name), families.decode(other.name)) == ()


def test_a_half_matmul_with_k_of_one_has_half_inputs() -> None:
    """`gemmk1_kernel<float, …__half const>`: f32 inputs; they are f16, the arithmetic is f32."""
    tensor = "cublasGemvTensorStridedBatched"
    inputs = f"{tensor}<__half const>, {tensor}<__half const>, {tensor}<__half>"
    kernel = families.decode(f"void gemmk1_kernel<float, 256, 5, false, {inputs}, float>(P)")
    assert (kernel.get("dtype_in"), kernel.get("dtype_acc")) == ("f16", "f32")


def test_the_last_step_of_a_norm_gradient_is_a_normalization() -> None:
    """`rmsnorm_bwd_finalize`: scatter_gather; it sums the gradient of the norm's weight."""
    scope = "void transformer_engine::normalization::"
    for name in ("rmsnorm_bwd_finalize_tuned_kernel", "rmsnorm_bwd_finalize_general_kernel"):
        assert families.decode(f"{scope}{name}<P>(P)").role == "normalization"


def test_a_split_k_sum_of_bf16_writes_bf16() -> None:
    """`splitKreduce_kernel` under a bf16 `mm` on an H200: f32, the type of its workspace."""
    shorts = {
        families.decode(name).short
        for path in RECORDED
        for name in kernels(path)
        if "splitKreduce_kernel<32, 16, int, float, __nv_bfloat16" in name
    }
    assert shorts == {"split-K reduce bf16"}


def test_a_short_name_copied_from_the_page_is_found() -> None:
    """`check`: 'count("nvjet … cluster 4x1") > 0' missed with 0; the page writes that name."""
    (path,) = [each for each in RECORDED if each.name.startswith("train_step_compiled_")]
    trace = foretrace.open(path, cache=False)
    shorts = trace.kernel_cases["short"].unique().to_list()
    assert any("#" in short for short in shorts)
    verdicts = foretrace.check(trace, [f'count("{short}") > 0' for short in shorts])
    assert [verdict.text for verdict in verdicts if verdict.verdict != "hit"] == []
