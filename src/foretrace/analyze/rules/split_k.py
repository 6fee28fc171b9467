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

from collections.abc import Iterator

from foretrace.analyze.rules._common import bare, facts, listing, per, shapes_text, together
from foretrace.base.units import plural, time_text
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

REDUCERS = frozenset({"splitk_reduce", "conv_wgrad_reduce"})


def _check(trace: Trace) -> Iterator[Finding]:
    reducing = [case for case in trace.order.cases if case.count and case.id.get("op") in REDUCERS]
    split = [case for case in trace.order.cases if case.id.get("splitk") is True]
    whole, every = together(trace, reducing or split), together(trace, [*reducing, *split])
    if whole is None or every is None:
        return
    spent = trace.order.per_step(sum(case.ns for case in reducing))
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op})[:4])
    convolves = {"conv" in case.op for case in whole.cases}
    what = "op" if len(convolves) > 1 else "convolution" if True in convolves else "matmul"
    more = " and more" if len(whole.cases) > 1 else ""
    shape = f" ({shapes_text(whole.cases[0].call)}{more})" if whole.cases[0].call else ""
    after = "The names show no separate kernel that adds the slices"
    if reducing:
        after = f"Adding the slices takes {time_text(spent)} {per(trace)}"
    title = f"{plural(whole.count, what)} {per(trace)} split along K"
    why = "A library splits K where M x N alone gives too few tiles to fill the card."
    detail = f"{ops}{shape}. {after}. {why}" if ops else f"{after}. {why}"
    kernels = facts(trace, whole.cases, "kernel op shapes count ns")
    evidence = {"count": whole.count, "reduce_ns": spent, "kernels": kernels}
    yield Finding(RULE.name, "found", title, detail, evidence, every.events, spent or None)


RULE = Rule("split_k", "Matmuls that were split along K", _check, ("gpu",))
