"""Matmuls of equal size on different kernels.

What it shows: matmuls that need the same number of FLOP: which of them share a kernel, which run
another one, and how fast each is.

Why it matters: the library chooses a kernel by shape, layout and alignment, not by the amount of
work. In a gated MLP the gate and up projections have the same shape and share one kernel. The down
projection has as many FLOP the other way round, runs another kernel and may be faster or slower. A
kernel's name alone does not identify a layer.

How it is computed: matmuls by FLOP and data type, where at least two kernels share the
work.

When it is wrong: the names are certain. Differences of speed below a few percent are noise unless
the trace has many launches.
"""

from __future__ import annotations

from typing import Any

from foretrace.base.units import flops_text, plural, time_text
from foretrace.look.rules._seen import LISTED, Found, Seen, rule, shapes_text
from foretrace.trace.kernels import Case

# A smaller matmul takes a few microseconds and its kernel says little: 2 GFLOP is 3 us on an H200.
SMALL_FLOPS = 1_000_000_000


@rule("Matmuls of equal size on different kernels", "gpu shapes", example="mlp_eager")
def _check(seen: Seen) -> Found:
    sizes: dict[tuple[Any, Any], list[Case]] = {}
    for case in seen.cases:
        if case.count and case.role == "gemm" and (case.flops or 0) >= SMALL_FLOPS:
            sizes.setdefault((case.flops, case.id.get("dtype_in")), []).append(case)
    # Names that differ in nothing a reader sees are one kernel to them.
    groups = [cases for cases in sizes.values() if len({case.id.short for case in cases}) > 1]
    whole = seen.together([case for cases in groups for case in cases])
    if whole is None:
        return
    for cases in groups:
        cases.sort(key=lambda case: (-case.count, case.name))
    groups.sort(key=lambda cases: (-sum(case.ns for case in cases), cases[0].name))
    first, steps, when = groups[0], max(seen.order.steps, 1), seen.per
    if any(case.count % steps for case in first):
        # where steps differ in shapes, no count holds for each of them
        steps, when = 1, "in all steps together"

    def words(case: Case) -> str:
        count = case.count // steps
        use, every = ("uses", "") if count == 1 else ("use", " each")
        return (
            f"{plural(count, 'matmul')} {shapes_text(case.call)} {use} {case.id.short} "
            f"({time_text(case.median_ns)}{every})"
        )

    def facts(cases: list[Case]) -> list[dict[str, Any]]:
        told = seen.facts(cases, "kernel name shapes count median_ns tflops")
        known = (each["tflops"] for each in told)
        rates = [None if each is None else round(each, 1) for each in known]
        return [each | {"tflops": rate} for each, rate in zip(told, rates, strict=True)]

    count = plural(sum(case.count for case in first) // steps, "matmul")
    kinds = plural(len({case.id.short for case in first}), "different kernel")
    title = f"{count} of {flops_text(first[0].flops)} {when} on {kinds}"
    listed = "; ".join(map(words, first[:4]))
    detail = f"{listed}. The work is equal; the library chooses by shape and layout."
    shown = [{"flops": cases[0].flops, "kernels": facts(cases)} for cases in groups[:LISTED]]
    yield seen.found(title, detail, {"groups": shown}, whole.events)
