"""Mixture of experts: the matmuls of the experts, and the routing of tokens to them and back."""

from __future__ import annotations

from foretrace.model.groups._group import MATMULS, GpuWork, WorkGroup, word_test

_ROUTING = word_test(r"moe|routing|router|unpermute|topk_(softmax|gating)|expert|matmul_ogs")


def _name(work: GpuWork) -> str:
    if not _ROUTING(work.words) and not any("moe" in op for op in work.ops):
        return ""
    return "MoE GEMM" if work.role in MATMULS else "MoE routing"


GROUP = WorkGroup("MoE routing", 61, _name)
