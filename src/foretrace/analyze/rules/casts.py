"""Kernels that only change the data type.

What it shows: copies from one type to another, by pair of types: how many, how many bytes, how
long.

Why it matters: a cast reads and writes a whole tensor to change its type. Autocast, norms computed
in float32 and float32 optimizers make many. A kernel before or after could read or write the other
type at no cost.

How it is computed: copy kernels whose op recorded two types (`copy_(bf16, f32)`), else those whose
name states source and destination. The saving is at most their whole time.

When it is wrong: some casts are needed for accuracy, and removing them changes results. Without
recorded shapes, a cast is known only where the kernel's name states it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foretrace.analyze.rules._common import LISTED, amount_text, cast_of, each, per, together
from foretrace.base.units import plural
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule


def _check(trace: Trace) -> Iterator[Finding]:
    pairs: dict[str, list[Case]] = {}
    for case in trace.order.cases:
        if case.count and (types := cast_of(case)):
            pairs.setdefault(types, []).append(case)
    whole = together(trace, [case for cases in pairs.values() for case in cases])
    if whole is None:
        return
    kinds = [_kind(trace, types, cases) for types, cases in pairs.items()]
    kinds.sort(key=lambda kind: (-kind["ns"], kind["cast"]))
    words = [
        f"{kind['cast']} ({plural(kind['count'], 'cast')}, {amount_text(kind)})" for kind in kinds
    ]
    title = f"{plural(whole.count, 'kernel')} {per(trace)} for casts alone"
    advice = "A kernel before or after could read or write the other type."
    detail = f"{', '.join(words[:3])}. {advice}"
    evidence = {"count": whole.count, "ns": whole.ns, "casts": kinds[:LISTED]}
    fix = "keep one data type, or fuse the casts with a neighbour"
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events, whole.ns, fix)


def _kind(trace: Trace, types: str, cases: list[Case]) -> dict[str, Any]:
    moved = [case.bytes * case.count for case in cases if case.bytes is not None]
    return {
        "cast": types,
        "count": each(trace, sum(case.count for case in cases)),
        "ns": trace.order.per_step(sum(case.ns for case in cases)),
        "bytes": trace.order.per_step(sum(moved)) if len(moved) == len(cases) else None,
    }


RULE = Rule(
    "casts",
    "Kernels that only change the data type",
    _check,
    ("gpu",),
    realised=0.25,
    first="which tensors need the wider type",
)
