"""Batch, group and instance norm, and normalizations whose kind is not in the trace."""

from __future__ import annotations

from foretrace.model.groups._group import MATMULS, GpuWork, WorkGroup, word_test

_KINDS = {"batch": "BatchNorm", "group": "GroupNorm", "instance": "InstanceNorm"}
_FOUND = word_test(r"(batch|group|instance)_?norm")


def _name(work: GpuWork) -> str:
    texts = (*work.ops, *work.origins, work.words, work.module.lower())
    kinds = {
        kind for kind in _KINDS if any(f"{kind}_norm" in t or f"{kind}norm" in t for t in texts)
    }
    if len(kinds) == 1 and _FOUND(" ".join(texts)) and work.role not in MATMULS:
        return _KINDS[kinds.pop()]
    return "normalization" if work.role == "normalization" else ""


GROUP = WorkGroup("normalization", 47, _name)
