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

from typing import Any

from foretrace.base.units import plural
from foretrace.look.rules._seen import LISTED, Found, Seen, amount_text, cast_of, rule
from foretrace.trace.kernels import Case

FIRST = "which tensors need the wider type"


@rule(
    "Kernels that only change the data type",
    "gpu",
    realised=0.25,
    first=FIRST,
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    pairs: dict[str, list[Case]] = {}
    for case in seen.cases:
        if case.count and (types := cast_of(case)):
            pairs.setdefault(types, []).append(case)
    whole = seen.together([case for cases in pairs.values() for case in cases])
    if whole is None:
        return

    def entry(types: str, cases: list[Case]) -> dict[str, Any]:
        moved = [case.bytes * case.count for case in cases if case.bytes is not None]
        size = seen.step(sum(moved)) if len(moved) == len(cases) else None
        count, ns = seen.each(sum(case.count for case in cases)), sum(case.ns for case in cases)
        return {"cast": types, "count": count, "ns": seen.step(ns), "bytes": size}

    kinds = [entry(*pair) for pair in pairs.items()]
    kinds.sort(key=lambda kind: (-kind["ns"], kind["cast"]))
    words = [
        f"{kind['cast']} ({plural(kind['count'], 'cast')}, {amount_text(kind)})" for kind in kinds
    ]
    title = f"{plural(whole.count, 'kernel')} {seen.per} for casts alone"
    advice = "A kernel before or after could read or write the other type."
    detail = f"{', '.join(words[:3])}. {advice}"
    evidence = {"count": whole.count, "ns": whole.ns, "casts": kinds[:LISTED]}
    fix = "keep one data type, or fuse the casts with a neighbour"
    yield seen.found(title, detail, evidence, whole.events, whole.ns, fix)
