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

from collections.abc import Iterator
from typing import Any

from foretrace.analyze.rules._common import LISTED, each, per, shapes_text, together
from foretrace.base.units import flops_text, plural, time_text
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# A smaller matmul takes a few microseconds and its kernel says little: 2 GFLOP is 3 us on an H200.
SMALL_FLOPS = 1_000_000_000


def _check(trace: Trace) -> Iterator[Finding]:
    sizes: dict[tuple[Any, Any], list[Case]] = {}
    for case in trace.order.cases:
        if case.count and case.role == "gemm" and (case.flops or 0) >= SMALL_FLOPS:
            sizes.setdefault((case.flops, case.id.get("dtype_in")), []).append(case)
    # Names that differ in nothing a reader sees are one kernel to them.
    groups = [cases for cases in sizes.values() if len({case.id.short for case in cases}) > 1]
    whole = together(trace, [case for cases in groups for case in cases])
    if whole is None:
        return
    for cases in groups:
        cases.sort(key=lambda case: (-case.count, case.name))
    groups.sort(key=lambda cases: (-sum(case.ns for case in cases), cases[0].name))
    first = groups[0]
    # where steps differ in shapes, no count holds for each of them
    equal = not any(case.count % max(trace.order.steps, 1) for case in first)
    steps, when = (max(trace.order.steps, 1), per(trace)) if equal else (1, "in all steps together")
    count = plural(sum(case.count for case in first) // steps, "matmul")
    kinds = plural(len({case.id.short for case in first}), "different kernel")
    title = f"{count} of {flops_text(first[0].flops)} {when} on {kinds}"
    listed = "; ".join(_words(case, case.count // steps) for case in first[:4])
    detail = f"{listed}. The work is equal; the library chooses by shape and layout."
    shown = [
        {"flops": cases[0].flops, "kernels": [_entry(trace, case) for case in cases[:LISTED]]}
        for cases in groups[:LISTED]
    ]
    evidence = {"groups": shown}
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events)


def _words(case: Case, count: int) -> str:
    use, every = ("uses", "") if count == 1 else ("use", " each")
    return (
        f"{plural(count, 'matmul')} {shapes_text(case.call)} {use} {case.id.short} "
        f"({time_text(case.median_ns)}{every})"
    )


def _entry(trace: Trace, case: Case) -> dict[str, Any]:
    return {
        "kernel": case.id.short,
        "name": case.name,
        "shapes": shapes_text(case.call),
        "count": each(trace, case.count),
        "median_ns": case.median_ns,
        "tflops": None if case.tflops is None else round(case.tflops, 1),
    }


RULE = Rule("gemm_choice", "Matmuls of equal size on different kernels", _check, ("gpu", "shapes"))
