"""What a page knows beside the events: decoded names, shapes, kernels by case, the roofs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace import families
from foretrace.model.about import device_of
from foretrace.model.arguments import json_text
from foretrace.model.trace import Trace
from foretrace.overview import look
from foretrace.overview.sentences import headline
from foretrace.render.html.timeline import Outline
from foretrace.render.safe import plain
from foretrace.schema.documents.look import Look
from foretrace.schema.tables import KINDS


class CaseRow(Struct, frozen=True):
    """Kernels of one name and shapes; `name` is a number into the names, `first` an event."""

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
    cost_note: str | None
    ops: list[str]
    name: int
    short: str
    per_step: float | None
    total_ns: int | None
    first: int
    chain: list[str]
    shape: int | None


class NameParts(Struct, frozen=True):
    """What a kernel's name says; `parts` are text, field, meaning and certainty."""

    name: int
    short: str
    family: str
    role: str
    parts: list[tuple[str, str, str, str]]


class Roofs(Struct, frozen=True):
    """The peaks of the GPU."""

    name: str
    bytes_per_s: float
    peaks: Mapping[str, float]
    source: str


class TraceFacts(Struct):
    """Everything that a page knows of one trace; `story` is the summary in sentences."""

    title: str
    headline: str
    story: list[str]
    timeline: Outline
    look: Look
    names: list[str]
    kinds: tuple[str, ...]
    kernels: list[CaseRow]
    decoded: list[NameParts]
    shapes: list[list[object]]
    roofs: Roofs | None


def facts(trace: Trace, title: str, timeline: Outline) -> TraceFacts:
    """Everything that a page knows of one trace."""
    document = look(trace)
    # a report travels: the folder it was made in stays behind
    document.trace.path = plain(os.path.basename(trace.path))
    document.kernels = []  # `kernels` below has the same rows with more in them
    return TraceFacts(
        title=title,
        headline=headline(document.trace),
        story=document.sentences,
        timeline=timeline,
        look=document,
        names=trace.host.names,
        kinds=KINDS,
        kernels=_case_rows(trace),
        decoded=_decoded(trace),
        shapes=_shapes(trace),
        roofs=_roofs(trace),
    )


def _case_rows(trace: Trace) -> list[CaseRow]:
    """One row per case, in the order of `trace.kernel_cases`: an event's `case` is a position in
    this list.
    """
    number = {name: at for at, name in enumerate(trace.host.names)}
    return [_case_row(trace, row, number) for row in trace.kernel_cases.iter_rows(named=True)]


def _case_row(trace: Trace, row: dict[str, Any], number: dict[str, int]) -> CaseRow:
    steps, op = len(trace.spans.steps), row["op"]
    return CaseRow(
        **{name: row[name] for name in CaseRow.__struct_fields__[:12]},
        name=number[row["name"]],
        short=row["short"] or row["name"],
        per_step=row["in_steps"] / steps if steps else None,
        total_ns=row["total_ns"] if row["timed"] else None,
        first=row["kernels"][0],
        chain=list(trace.host.op_chain(op)) if op is not None else [],
        shape=row["signature"] if row["signature"] >= 0 else None,
    )


def _decoded(trace: Trace) -> list[NameParts]:
    """What the name of each distinct kernel says, part by part."""
    found = []
    for number in np.unique(trace.host.name[trace.gpu.id]).tolist():
        kernel = families.decode(trace.host.names[number])
        parts = [(part.text, part.field, part.meaning, part.certainty) for part in kernel.parts]
        found.append(NameParts(number, kernel.short, kernel.family, kernel.role, parts))
    return found


def _shapes(trace: Trace) -> list[list[object]]:
    """`[signature, dims, types, concrete]`, one per distinct form."""
    return [
        [
            number,
            *(json_text(each) if each else None for each in (form.dims, form.types, form.concrete)),
        ]
        for number, form in enumerate(trace.arguments.signatures)
    ]


def _roofs(trace: Trace) -> Roofs | None:
    """The peaks of the GPU, where it is in the table of devices."""
    found = device_of(trace.about)
    if found is None:
        return None
    return Roofs(found.name, found.bytes_per_s, dict(found.peak_flops), found.source)
