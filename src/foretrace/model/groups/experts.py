"""Mixture of experts: the routing of tokens to experts and back, without the products."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, GpuWork, WorkGroup, named, word_test

_ROUTING = word_test(r"moe|routing|router|unpermute|topk_(softmax|gating)|expert")


def _test(work: GpuWork) -> object:
    if work.role in PRODUCTS:
        return False
    return _ROUTING(work.words) or any("moe" in op for op in work.ops)


GROUP = WorkGroup("MoE routing", 61, named("MoE routing", _test))
