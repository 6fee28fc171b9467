"""Matmuls that were split along K.

What it shows: matmuls whose sum was cut into slices that different blocks compute, and the kernels
that add the slices up.

Why it matters: the library splits when M x N gives too few tiles to fill the card and K is long.
The split itself is a gain. Its price is the extra kernel and the memory traffic of the partial
sums, and one op launches two kernels.

How it is computed: `splitKreduce` kernels, and matmuls whose name states split-K. The saving is at
most the time of the reducing kernels: a larger M x N (a larger batch) would need none.

When it is wrong: older cuBLAS and CUTLASS names do not state the split. There only the reducing
kernel shows it.
"""

from __future__ import annotations

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Found, Seen, bare, listing, rule, shapes_text

REDUCERS = frozenset({"splitk_reduce", "conv_wgrad_reduce"})


@rule(
    "Matmuls that were split along K",
    "gpu",
    example="train_step_compiled_4x512x4x768x12x3072x32000_bf16",
)
def _check(seen: Seen) -> Found:
    reducing = [case for case in seen.cases if case.count and case.id.get("op") in REDUCERS]
    split = [case for case in seen.cases if case.id.get("splitk") is True]
    whole, every = seen.together(reducing or split), seen.together([*reducing, *split])
    if whole is None or every is None:
        return
    spent = seen.step(sum(case.ns for case in reducing))
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op})[:4])
    convolves = {"conv" in case.op or case.role == "conv" for case in whole.cases}
    what = "op" if len(convolves) > 1 else "convolution" if True in convolves else "matmul"
    more = " and more" if len(whole.cases) > 1 else ""
    shape = f" ({shapes_text(whole.cases[0].call)}{more})" if whole.cases[0].call else ""
    after = "The names show no separate kernel that adds the slices"
    if reducing:
        after = f"Adding the slices takes {time_text(spent)} {seen.per}"
    title = f"{plural(whole.count, what)} {seen.per} split along K"
    why = "A library splits K where M x N alone gives too few tiles to fill the card."
    detail = f"{ops}{shape}. {after}. {why}" if ops else f"{after}. {why}"
    kernels = seen.facts(whole.cases, "kernel op shapes count ns")
    evidence = {"count": whole.count, "reduce_ns": spent, "kernels": kernels}
    yield seen.found(title, detail, evidence, every.events, spent or None)
