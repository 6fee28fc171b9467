"""Matmuls and attention on kernels of an older generation than the card.

What it shows: kernels written for an earlier generation (`sm80` on an H100), with their share of
the time. Those that a misaligned dimension explains are in `misaligned_matmuls`, float32 matmuls
on the plain cores in `float32_matmuls`.

Why it matters: they run, but without what the newer card brought (on Hopper: wgmma, TMA, clusters).
For small matmuls the library chooses them on purpose, because a large tile would leave most of the
card idle. For large ones, find out why.

How it is computed: the generation in the kernel's name against that of the card. The saving is at
most their time, less the time of the arithmetic at the card's peak, for those whose FLOP are known.

When it is wrong: the number in a name is the oldest card that the code runs on. A kernel without a
number is not judged. FlashAttention 2, written for sm80, carries no number and is not listed.
"""

from __future__ import annotations

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import (
    Found,
    Seen,
    generation,
    listing,
    matmul_ns,
    rule,
    shapes_text,
)
from foretrace.look.rules.float32_matmuls import is_plain
from foretrace.look.rules.misaligned_matmuls import misaligned
from foretrace.trace.kernels import Case

ROLES = frozenset({"gemm", "conv", "attention"})


@rule(
    "Kernels of an older generation than the card", "gpu", example="llama_decode_cuda_graph_2layers"
)
def _check(seen: Seen) -> Found:
    about = seen.trace.about
    card = generation(about.arch) or 0

    def older(case: Case) -> bool:
        # float32 on the plain cores has no newer kernels; `float32_matmuls` tells what to do
        told = misaligned(case) or is_plain(case)
        return case.role in ROLES and not told and (generation(case.id.get("arch")) or card) < card

    whole = seen.where(older)
    if whole is None:
        return
    made = listing(sorted({str(case.id.get("arch")) for case in whole.cases}))
    first = whole.cases[0]
    shape = f" ({shapes_text(first.call)})" if first.call else ""
    count = f"{plural(whole.count, 'kernel')} {seen.per}"
    title = f"{count} written for {made} on an {about.arch} card"
    detail = (
        f"Total: {time_text(whole.ns)} {seen.per}, {percent_text(whole.share)} of kernel "
        f"time. The largest is {first.id.short}{shape}. For small matmuls the library chooses "
        "such kernels on purpose."
    )
    kernels = seen.facts(whole.cases, "kernel name arch shapes count ns tflops")
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    # a matmul of unknown FLOP among the others counts in full: the bound must hold
    pairs = [(case, matmul_ns(seen.device, case)) for case in whole.cases]
    beyond = sum(max(case.ns - (ns or 0.0) * case.count, 0.0) for case, ns in pairs)
    known = any(ns is not None for _, ns in pairs)
    yield seen.found(title, detail, evidence, whole.events, seen.step(beyond) if known else None)
