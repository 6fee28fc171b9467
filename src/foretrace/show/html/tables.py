"""What a page knows beside the events: decoded names, shapes, kernels by case, the roofs."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from foretrace.model import calls
from foretrace.model.about import device_of
from foretrace.model.arguments import json_text
from foretrace.model.code_lines import line_of
from foretrace.model.costs.roofline import with_measured
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.schema.device import Device
from foretrace.schema.documents.look import Look
from foretrace.schema.tables import KINDS
from foretrace.show.html.cases import CaseRow, case_rows
from foretrace.show.html.flame import Flame, flame
from foretrace.show.html.idle import IdleTime, idle_time
from foretrace.show.html.memory import MemoryPage, memory
from foretrace.show.html.origins import Origins, origins
from foretrace.show.html.places import Place, places
from foretrace.show.html.timeline import Outline
from foretrace.show.overview import summarize
from foretrace.show.overview.page import Line
from foretrace.show.overview.sentences import headline
from foretrace.show.render.safe import plain


class NameParts(Struct, frozen=True):
    """What a kernel's name says; `parts` are text, field, meaning and certainty."""

    name: int
    short: str
    family: str
    role: str
    parts: list[tuple[str, str, str, str]]


class OperandRow(Struct, frozen=True):
    """The operands of an op, as text; `number` is what an event's `shape` says."""

    number: int
    dims: str | None
    types: str | None
    strides: str | None
    concrete: str | None


class Roofs(Struct, frozen=True):
    """What the GPU can do: as measured, else as its datasheet says."""

    name: str
    bytes_per_s: float
    peaks: Mapping[str, float]
    source: str
    l2_bytes_per_s: float | None = None
    measured: bool = False


class TraceFacts(Struct):
    """Everything that a page knows of one trace.

    `story` is the first screen of `look`, line by line, and `notes` what stands below it. `places`
    are those of the findings, in their order; one that saves less than `worth_ns` is small.
    `launch_names` are the names of calls that launch kernels or graphs, `code_lines` the lines of
    names that are frames of the user's Python.
    """

    title: str
    headline: str
    story: list[Line]
    timeline: Outline
    look: Look
    names: list[str]
    kinds: tuple[str, ...]
    kernels: list[CaseRow]
    decoded: list[NameParts]
    shapes: list[OperandRow]
    roofs: Roofs | None
    origins: Origins
    flame: Flame
    idle: IdleTime
    launch_names: list[int]
    code_lines: dict[int, str]
    memory: list[MemoryPage]
    places: list[Place]
    worth_ns: float
    notes: str


def facts(trace: Trace, title: str, timeline: Outline) -> TraceFacts:
    """Everything that a page knows of one trace."""
    overview = summarize(trace)
    document = overview.look
    # a report travels: the folder it was made in stays behind
    document.trace.path = plain(os.path.basename(trace.path))
    document.kernels = []  # the rows of cases say the same, and more
    names, gpu = trace.host.names, device_of(trace.about)
    return TraceFacts(
        *(title, headline(document), overview.lines, timeline, document, names, KINDS),
        kernels=case_rows(trace),
        decoded=_decoded(trace),
        shapes=_shapes(trace),
        roofs=_roofs(gpu) if gpu else None,
        origins=origins(trace),
        flame=flame(trace),
        idle=idle_time(trace, timeline.origin_ns),
        launch_names=[at for at, name in enumerate(names) if calls.launches(name)],
        code_lines=_code_lines(trace),
        memory=memory(trace, timeline.origin_ns),
        places=places(trace, document.findings, timeline),
        worth_ns=overview.worth_ns,
        notes=overview.notes,
    )


def _roofs(gpu: Device) -> Roofs:
    best, measured = with_measured(gpu), gpu.measured
    return Roofs(
        gpu.name,
        best.bytes_per_s,
        {name: best.peak_flops[name] for name in gpu.peak_flops},
        measured.source if measured else gpu.source,
        measured.l2_bytes_per_s if measured else None,
        measured=measured is not None,
    )


def _decoded(trace: Trace) -> list[NameParts]:
    """What the name of each distinct kernel says, part by part."""
    found = []
    for number in np.unique(trace.host.name[trace.gpu.id]).tolist():
        kernel = families.decode(trace.host.names[number])
        parts = [(part.text, part.field, part.meaning, part.certainty) for part in kernel.parts]
        found.append(NameParts(number, kernel.short, kernel.family, kernel.role, parts))
    return found


def _code_lines(trace: Trace) -> dict[int, str]:
    host = trace.host
    frames = np.unique(host.name[host.is_kind("python_function")]).tolist()
    lines = ((number, line_of(host.names[number])) for number in frames)
    return {number: plain(line) for number, line in lines if line}


def _shapes(trace: Trace) -> list[OperandRow]:
    """One row per distinct form."""
    rows = []
    for number, form in enumerate(trace.origins.arguments.signatures):
        parts = (form.dims, form.types, form.strides, form.concrete)
        rows.append(OperandRow(number, *(json_text(part) if part else None for part in parts)))
    return rows
