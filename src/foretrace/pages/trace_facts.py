"""What a page knows of one trace beside its events: decoded names, operands, kernels by case, where
compiled kernels come from, where findings are on the timeline, and the roofs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.base.tables import Line
from foretrace.base.terminal import plain
from foretrace.base.units import bytes_text
from foretrace.look import summarize
from foretrace.look.document import op_rows
from foretrace.look.documents import GroupRow, Look
from foretrace.look.finding import Finding
from foretrace.look.groups import group_rows
from foretrace.look.lines import fixes_table, headline
from foretrace.look.rules import rules
from foretrace.look.steering import Steering
from foretrace.pages.page import safe
from foretrace.pages.timeline import Outline, call_groups
from foretrace.pages.view_data import (
    FIX,
    Answers,
    Flame,
    IdleTime,
    MemoryPage,
    answers,
    flame,
    idle_time,
    memory,
)
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.read.tables import KINDS
from foretrace.trace.arguments import json_text
from foretrace.trace.flame import line_of
from foretrace.trace.host import LAUNCHES
from foretrace.trace.metadata import device_of
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs.limits import Roofline, RoofShare, roof_shares
from foretrace.work.kernel_row import KernelRow

MOST_STEPS = 100  # a recording has a handful; more would make the page large


class PageKernel(KernelRow, frozen=True, kw_only=True):
    """A kernel with what only a page shows: the place of its `shape` in the operands, the share of
    every roof, and its launches and their time in each step, in order; empty for many steps.
    """

    shape: int | None
    roofs: list[RoofShare]
    steps: list[tuple[int, int]]


def page_kernels(trace: Trace) -> list[PageKernel]:
    """One for each kernel; an event's `case` is a place in this list."""
    device, rows = device_of(trace.about), list[PageKernel]()
    shapes = trace.kernel_cases["signature"].to_list()
    columns = zip(trace.kernel_rows, shapes, _case_steps(trace), strict=True)
    for row, shape, steps in columns:
        roofs = roof_shares(device, row.precision or None, Roofline(row.tflops, row.gbps))
        known: dict[str, Any] = asdict(row)
        place = shape if shape >= 0 else None
        rows.append(PageKernel(**known, shape=place, roofs=roofs, steps=steps))
    return rows


def _case_steps(trace: Trace) -> list[list[tuple[int, int]]]:
    """For every case, its launches and their time in each step."""
    size, steps, order = trace.kernel_cases.height, len(trace.spans.steps), trace.order
    if steps > MOST_STEPS:
        return [[] for _ in range(size)]
    own = order.step >= 0
    place = order.case[own] * steps + order.step[own]
    count = np.bincount(place, minlength=size * steps).reshape(size, steps)
    time = np.bincount(place, order.length[own], size * steps).reshape(size, steps)
    pairs = zip(count.tolist(), time.astype(np.int64).tolist(), strict=True)
    return [list(zip(*each, strict=True)) for each in pairs]


# A generated kernel has some hundred lines. A page holds one of each, and a log may be hostile.
MOST_CODE = 200_000
_INCLUDE = regex(r'(#include ")[^"\n]*/(?=[^"/\n]*")')
LANGUAGES = {"triton": "Triton", "cpp": "C++"}


class KernelOrigin(Struct, frozen=True):
    """What one call of compiled code is: `lines` of the user's code, `moves` (mode, tensor, bytes),
    `nodes` of the graph, and the generated code with its language; empty for a library's kernel.
    """

    lines: list[tuple[str, str]]
    nodes: list[str]
    moves: list[tuple[str, str, str]]
    language: str = ""
    code: str = ""


class Origins(Struct, frozen=True):
    """Every distinct origin, and the number of that of each event."""

    every: list[KernelOrigin]
    of: dict[int, int]


def origins(trace: Trace) -> Origins:
    """The origins of the compiled kernels of a trace; none without the compiler's records."""
    found: dict[int, int] = {}
    known: dict[tuple[int, int], tuple[int, KernelOrigin]] = {}
    for event, launch in trace.compiled.items():
        key = id(launch.compilation), id(launch.call)
        if key not in known:
            known[key] = len(known), _origin(launch)
        found[event] = known[key][0]
    return Origins([origin for _, origin in known.values()], found)


def _origin(launch: CompiledLaunch) -> KernelOrigin:
    call, moves = launch.call, list[tuple[str, str, str]]()
    for access in call.accesses:
        tensor, sizes = access.tensor, ", ".join(map(str, access.tensor.shape))
        about = "at most " if access.certainty == "at_most" else ""
        moved = f"{about}{bytes_text(access.bytes)}" if access.bytes is not None else "not known"
        moves.append((access.mode, plain(f"{tensor.name} {tensor.dtype}[{sizes}]"), moved))
    # the generated kernel of the call; a library's has none
    named = [each for each in launch.compilation.kernels if each.name == call.kernel]
    same = [each for each in named if each.graph == call.graph]
    kernel = next(iter(same or named), None) if not call.extern else None
    return KernelOrigin(
        [(plain(line.place), plain(line.code)) for line in launch.lines],
        [plain(node) for node in call.nodes],
        moves,
        LANGUAGES.get(kernel.language, kernel.language) if kernel else "",
        code_text(kernel.code) if kernel else "",
    )


def code_text(text: str) -> str:
    """Line by line, so that no control character of a log reaches the page; folders are removed."""
    shown = _INCLUDE.sub(r"\1", text[:MOST_CODE].expandtabs(4).strip("\n"))
    lines = (plain(line) for line in shown.splitlines())
    cut = f"\n… {len(text) - MOST_CODE:,} more characters" if len(text) > MOST_CODE else ""
    return "\n".join(lines) + cut


class Place(Struct, frozen=True):
    """One finding on the timeline; times are ns from the first event.

    `key` names it in an address: its rule, with a number behind it where a rule found more than one
    thing. `shades` are gaps (start, end, GPU), `events` what to frame (event, start, end, and the
    number of its name), `frame` the stretch that shows them: those of one step, where there are
    steps.
    """

    key: str
    frame: tuple[int, int] | None
    shades: list[tuple[int, int, int]]
    events: list[tuple[int, int, int, int]]


def places(trace: Trace, findings: Sequence[Finding], outline: Outline) -> list[Place]:
    """The place of each finding, in their order."""
    seen, found = Counter[str](), []
    for finding in findings:
        seen[finding.rule] += 1
        number = seen[finding.rule]
        key = finding.rule if number == 1 else f"{finding.rule}_{number}"
        found.append(_place(trace, key, finding.events, finding.ranges, outline))
    return found


def _place(
    trace: Trace,
    key: str,
    of: Sequence[int],
    gaps: Sequence[tuple[int, int, int]],
    outline: Outline,
) -> Place:
    origin, host = outline.origin_ns, trace.host
    shades = [(start - origin, end - origin, gpu) for start, end, gpu in gaps]
    rows = np.array([event for event in of if event < host.count], np.int64)
    rows = rows[host.lasting[rows]]
    columns = rows, host.start[rows] - origin, host.end[rows] - origin, host.name[rows]
    events = list(zip(*(column.tolist() for column in columns), strict=True))
    shown = [each[:2] for each in shades] or [each[1:3] for each in events]
    if not shown:
        return Place(key, None, shades, events)
    # those in the step that the page opens at, else in the step of the first one, else all
    steps = [] if outline.step is None else [outline.steps[outline.step]]
    steps += [step for step in outline.steps if step.start <= shown[0][0] < step.last]
    for step in steps:
        inside = [one for one in shown if step.start < one[1] and one[0] < step.last]
        if inside:
            shown = inside
            break
    frame = min(start for start, _ in shown), max(end for _, end in shown)
    return Place(key, frame, shades, events)


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


class StepOp(Struct, frozen=True):
    """All calls of one host op in the steps, per step."""

    name: str
    count: float
    self_cpu_ns: float
    total_cpu_ns: float
    kernels: float | None
    gpu_ns: float | None


def step_ops(trace: Trace) -> list[StepOp]:
    """Host ops per step; none where there are no steps."""
    steps = len(trace.spans.steps)
    if not steps:
        return []
    inside = trace.spans.step_of_events() >= 0
    return [
        StepOp(
            *(row.name, row.count / steps, row.self_cpu_ns / steps, row.total_cpu_ns / steps),
            kernels=None if row.kernels is None else row.kernels / steps,
            gpu_ns=None if row.gpu_ns is None else row.gpu_ns / steps,
        )
        for row in op_rows(trace, inside)
    ]


class TraceFacts(Struct):
    """Everything that a page knows of one trace.

    `story` is the first screen of `look`, line by line, and `notes` what stands below it. `fixes`
    has the step before and after each fix, where a step could be replayed. `places` are those of
    the findings, in their order; one that saves less than `worth_ns` is small. `launch_names`
    are the names of calls that launch kernels or graphs, `call_groups` what calls do by their name,
    `code_lines` the lines of names that are frames of the user's Python. `answers` is what the page
    says first, `fix_places` are the places of its fixes, `groups` the groups of the recording.
    """

    title: str
    headline: str
    story: list[Line]
    timeline: Outline
    look: Look
    names: list[str]
    kinds: tuple[str, ...]
    kernels: list[PageKernel]
    decoded: list[NameParts]
    shapes: list[OperandRow]
    origins: Origins
    flame: Flame
    idle: IdleTime
    launch_names: list[int]
    code_lines: dict[int, str]
    memory: list[MemoryPage]
    places: list[Place]
    worth_ns: float
    notes: str
    fixes: object | None
    answers: Answers
    fix_places: list[Place]
    call_groups: dict[int, str]
    step_ops: list[StepOp]
    groups: list[GroupRow]


def facts(
    trace: Trace, title: str, timeline: Outline, steering: Steering | None = None
) -> TraceFacts:
    """Everything that a page knows of one trace."""
    overview = summarize(trace, steering)
    document = overview.look
    answered = answers(trace, overview)
    # a report is sent to others: it does not name the folder that it was made in
    document.trace.path = plain(os.path.basename(trace.path))
    document.kernels = []  # the rows of cases say the same, and more
    names, host = trace.host.names, trace.host
    frames = distinct(host.name[host.is_kind("python_function")]).tolist()
    lines = ((number, line_of(names[number])) for number in frames)
    found, shapes = [], []
    for number, form in enumerate(trace.origins.arguments.signatures):
        operands = (form.dims, form.types, form.strides, form.concrete)
        shapes.append(OperandRow(number, *(json_text(each) if each else None for each in operands)))
    for number in distinct(trace.host.name[trace.gpu.id]).tolist():
        kernel = families.decode(trace.host.names[number])
        parts = [(part.text, part.field, part.meaning, part.certainty) for part in kernel.parts]
        found.append(NameParts(number, kernel.short, kernel.family, kernel.role, parts))
    return TraceFacts(
        *(title, headline(document), overview.lines, timeline, document, names, KINDS),
        kernels=page_kernels(trace),
        decoded=found,
        shapes=shapes,
        origins=origins(trace),
        flame=flame(trace),
        idle=idle_time(trace, timeline.origin_ns),
        launch_names=[at for at, name in enumerate(names) if LAUNCHES.fullmatch(name)],
        code_lines={number: plain(line) for number, line in lines if line},
        memory=memory(trace, timeline.origin_ns),
        places=places(trace, document.findings, timeline),
        worth_ns=overview.worth_ns,
        notes=overview.notes,
        fixes=document.step and safe(fixes_table(document.step, document, overview.per)),
        answers=answered,
        fix_places=_fix_places(trace, answered, document.findings, timeline),
        call_groups=call_groups(trace.host),
        step_ops=step_ops(trace),
        groups=group_rows(trace),
    )


def _fix_places(
    trace: Trace, answered: Answers, findings: Sequence[Finding], outline: Outline
) -> list[Place]:
    """The places of fixes: the events of each, and the gaps of the findings that it acts on."""
    acts = {each.name: each.fixes for each in rules()}
    found = []
    for card in answered.cards:
        name = card.key.removeprefix(FIX)
        mine = [row for row in findings if row.state == "found" and name in acts.get(row.rule, ())]
        gaps = [gap for row in mine for gap in row.ranges]
        events = list(card.events) or [event for row in mine for event in row.events]
        found.append(_place(trace, card.key, events, gaps, outline))
    return found
