"""Kernels by case, as a page shows them: rates, every roof, modules, and the time in each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.model.about import device_of
from foretrace.model.costs.roofline import Roofline, RoofShare, peak_name, roof_shares
from foretrace.model.roofs import dtype_of
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.show.overview.groups import case_modules

MOST_STEPS = 100  # a recording has a handful; more would make the page large


class CaseRow(Struct, frozen=True):
    """Kernels of one name and shapes; `name` is a number into the names, `first` an event.

    `roofs` has the share of every roof, `precision` the name of the peak that counts ("" where it
    is unknown), `steps` the launches and their time in each step, in order; empty for many steps.
    """

    count: int
    median_ns: float | None
    min_ns: int | None
    max_ns: int | None
    role: str
    flops: int | None
    bytes: int | None
    tflops: float | None
    gbps: float | None
    bound: str
    roof_percent: float | None
    limited_by: str
    cost_certainty: str
    cost_note: str | None
    ops: list[str]
    name: int
    short: str
    per_step: float | None
    total_ns: int | None
    first: int
    chain: list[str]
    shape: int | None
    precision: str
    roofs: list[RoofShare]
    modules: list[str]
    steps: list[tuple[int, int]]


_SAME = CaseRow.__struct_fields__[: CaseRow.__struct_fields__.index("name")]


def case_rows(trace: Trace) -> list[CaseRow]:
    """One row per case; an event's `case` is a place in this list."""
    number = {name: at for at, name in enumerate(trace.host.names)}
    cases = trace.kernel_cases.iter_rows(named=True)
    columns = zip(cases, case_modules(trace), _steps(trace), strict=True)
    return [_row(trace, case, number, modules, steps) for case, modules, steps in columns]


def _row(
    trace: Trace,
    case: dict[str, Any],
    number: dict[str, int],
    modules: list[str],
    steps: list[tuple[int, int]],
) -> CaseRow:
    op, device, kernel = case["op"], device_of(trace.about), families.decode(case["name"])
    count = len(trace.spans.steps)
    precision = peak_name(device, dtype_of(case, kernel), kernel.get("tensor_core"))
    precision = precision if device and precision in device.peak_flops else None
    return CaseRow(
        **{name: case[name] for name in _SAME},
        name=number[case["name"]],
        short=case["short"] or case["name"],
        per_step=case["in_steps"] / count if count else None,
        total_ns=case["total_ns"] if case["timed"] else None,
        first=case["kernels"][0],
        chain=list(trace.origins.host.op_chain(op)) if op is not None else [],
        shape=case["signature"] if case["signature"] >= 0 else None,
        precision=precision or "",
        roofs=roof_shares(device, precision, Roofline(case["tflops"], case["gbps"])),
        modules=modules,
        steps=steps,
    )


def _steps(trace: Trace) -> Iterator[list[tuple[int, int]]]:
    """For every case, its launches and their time in each step."""
    size, steps, order = trace.kernel_cases.height, len(trace.spans.steps), trace.order
    if steps > MOST_STEPS:
        yield from ([] for _ in range(size))
        return
    own = order.step >= 0
    place = order.case[own] * steps + order.step[own]
    count = np.bincount(place, minlength=size * steps).reshape(size, steps)
    time = np.bincount(place, order.length[own], size * steps).reshape(size, steps)
    for counts, times in zip(count.tolist(), time.astype(np.int64).tolist(), strict=True):
        yield list(zip(counts, times, strict=True))
