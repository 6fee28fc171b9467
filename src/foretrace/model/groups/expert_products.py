"""Mixture of experts: the products of the experts, in kernels written for tokens by expert."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, GpuWork, WorkGroup, named, word_test

_EXPERTS = word_test(r"fused_moe|moe_gemm|matmul_ogs|expert")


def _test(work: GpuWork) -> object:
    return work.role in PRODUCTS and _EXPERTS(work.words)


GROUP = WorkGroup("MoE experts", 62, named("MoE experts", _test), with_backward=False)
