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
from foretrace.render.html.flame import Flame, flame
from foretrace.render.html.origins import Origins, origins
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
    origins: Origins
    flame: Flame


def facts(trace: Trace, title: str, timeline: Outline) -> TraceFacts:
    """Everything that a page knows of one trace."""
    document = look(trace)
    # a report travels: the folder it was made in stays behind
    document.trace.path = plain(os.path.basename(trace.path))
    document.kernels = []  # the rows of cases say the same, and more
    names, gpu = trace.host.names, device_of(trace.about)
    number = {name: at for at, name in enumerate(names)}
    cases = trace.kernel_cases.iter_rows(named=True)
    return TraceFacts(
        *(title, headline(document), document.sentences, timeline, document, names, KINDS),
        # an event's `case` is a place in this list
        kernels=[_case_row(trace, case, number) for case in cases],
        decoded=_decoded(trace),
        shapes=_shapes(trace),
        roofs=Roofs(gpu.name, gpu.bytes_per_s, dict(gpu.peak_flops), gpu.source) if gpu else None,
        origins=origins(trace),
        flame=flame(trace),
    )


def _case_row(trace: Trace, row: dict[str, Any], number: dict[str, int]) -> CaseRow:
    steps, op = len(trace.spans.steps), row["op"]
    return CaseRow(
        **{name: row[name] for name in CaseRow.__struct_fields__[:12]},
        name=number[row["name"]],
        short=row["short"] or row["name"],
        per_step=row["in_steps"] / steps if steps else None,
        total_ns=row["total_ns"] if row["timed"] else None,
        first=row["kernels"][0],
        chain=list(trace.origins.host.op_chain(op)) if op is not None else [],
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
    rows: list[list[object]] = []
    for number, form in enumerate(trace.origins.arguments.signatures):
        parts = (form.dims, form.types, form.concrete)
        rows.append([number, *(json_text(part) if part else None for part in parts)])
    return rows
