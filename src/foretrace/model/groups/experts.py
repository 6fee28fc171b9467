"""Mixture of experts: the routing of tokens; the experts' products are GEMMs."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, GpuWork, WorkGroup, named, word_test

_ROUTING = word_test(
    r"moe_align|routing|router|moe_sum|(un)?permute_|topk_softmax|topk_gating|expert"
)


def _test(work: GpuWork) -> object:
    return work.role not in PRODUCTS and _ROUTING(work.words)


GROUP = WorkGroup("MoE routing", 59, named("MoE routing", _test))
