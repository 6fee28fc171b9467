"""What a page knows of one trace beside its events: decoded names, operands, kernels by case, where
compiled kernels come from, and the tables of where its time goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.base.tables import WORDS, Column, Table
from foretrace.base.terminal import plain
from foretrace.base.units import bytes_text, count_text, flops_text
from foretrace.look import summarize
from foretrace.look.document import op_rows
from foretrace.look.documents import GroupRow, Look, OpRow, RoofsEntry
from foretrace.look.groups import group_rows
from foretrace.look.lines import headline
from foretrace.look.steering import Steering
from foretrace.pages.insights import Answers, Insight, answers, findings_tables, insights
from foretrace.pages.page import code_text
from foretrace.pages.page_tables import TableData, shown
from foretrace.pages.timeline import Outline, call_groups
from foretrace.pages.view_data import Flame, IdleTime, MemoryPage, flame, idle_time, memory
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.read.tables import KINDS
from foretrace.trace.arguments import Signature, json_text
from foretrace.trace.flame import line_of
from foretrace.trace.host import LAUNCHES
from foretrace.trace.metadata import device_of
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs.limits import Roofline, RoofShare, roof_shares
from foretrace.work.kernel_row import KernelRow
from foretrace.work.kernel_row import facts as kernel_facts

MOST_STEPS = 100  # a recording has a handful; more would make the page large


class PageKernel(KernelRow, frozen=True, kw_only=True):
    """A kernel with what only a page shows: the place of its `shape` in the operands, the share of
    every roof, its launches and their time in each step, in order (empty for many steps), and what
    is said `about` it.
    """

    shape: int | None
    roofs: list[RoofShare]
    steps: list[tuple[int, int]]
    about: list[tuple[str, str]]


def page_kernels(trace: Trace, known_roofs: RoofsEntry | None = None) -> list[PageKernel]:
    """One for each kernel; an event's `case` is a place in this list."""
    device, rows = device_of(trace.about), list[PageKernel]()
    shapes = trace.kernel_cases["signature"].to_list()
    columns = zip(trace.kernel_rows, shapes, _case_steps(trace), strict=True)
    for row, shape, steps in columns:
        roofs = roof_shares(device, row.precision or None, Roofline(row.tflops, row.gbps))
        known: dict[str, Any] = asdict(row)
        place = shape if shape >= 0 else None
        about = _about(row, roofs, known_roofs)
        rows.append(PageKernel(**known, shape=place, roofs=roofs, steps=steps, about=about))
    return rows


def _about(row: KernelRow, roofs: list[RoofShare], of: RoofsEntry | None) -> list[tuple[str, str]]:
    """What limits a kernel, its work and traffic, how sure that is, and whose roofs these are."""
    sure, note = row.cost_certainty.replace("_", " "), row.cost_note or ""
    cost = note if note.startswith(sure) else ": ".join(filter(None, (sure, note)))
    printed = f"; {row.precision} by its datasheet" if of and row.precision in of.datasheet else ""
    source = "as measured" + printed if of and of.measured else "by its datasheet"
    work = [flops_text(row.flops), f"{row.tflops:,.1f} TFLOP/s"] if row.tflops is not None else []
    moved = [bytes_text(row.bytes)] if row.bytes is not None else []
    moved += [f"{bytes_text(row.gbps * 1e9)}/s"] if moved and row.gbps is not None else []
    unknown = "" if roofs else row.cost_note or "unknown: its work is not in the trace"
    said = [
        ("limited by", row.limited_by or "unknown"),
        ("work", ", ".join(work)),
        ("traffic", ", ".join(moved)),
        ("cost", cost if roofs else unknown),
        ("roofs", f"of {of.device}, {source}" if roofs and of else ""),
    ]
    return [(term, text) for term, text in said if text]


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


class NameParts(Struct, frozen=True):
    """What a kernel's name says; `parts` are text, field, meaning and certainty."""

    name: int
    short: str
    family: str
    role: str
    parts: list[tuple[str, str, str, str]]


_TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64"}
_TYPES |= {"long": "int64", "long int": "int64", "int": "int32", "unsigned char": "uint8"}


def operands(form: Signature) -> list[tuple[str, str]]:
    """Each operand by its number: `8192x768 bf16, strides 768, 1`, or the value of a number."""
    rows = []
    columns = zip_longest(form.types, form.dims, form.strides, form.concrete)
    for number, (kind, dims, strides, value) in enumerate(columns, 1):
        sizes, plain_type = _sizes(dims), str(kind or "").replace("c10::", "")
        typed = f"{sizes} {_TYPES.get(kind, plain_type)}".strip() if sizes else ""
        steps = f"strides {', '.join(map(str, strides))}" if sizes and strides else ""
        if said := ", ".join(filter(None, (typed, steps, plain(str(value or ""))))):
            rows.append((str(number), said))
    return rows


def _sizes(held: Any) -> str:
    """`8192x768`; of a list of tensors the sizes of each."""
    if not isinstance(held, list) or not held:
        return ""
    if all(isinstance(each, int) for each in held):
        return "x".join(map(str, held))
    return ", ".join(filter(None, map(_sizes, held)))


class TimeTables(Struct, frozen=True):
    """Groups, kernels and ops: per step where there are steps, and of the recording."""

    step: list[TableData]
    recording: list[TableData]


def time_tables(trace: Trace, look: Look, rows: list[PageKernel], made: Origins) -> TimeTables:
    """Where GPU time goes, kernels by name and sizes, and ops by their own host time."""
    steps = len(trace.spans.steps)

    def of(per: str, count: int, groups: Sequence[GroupRow]) -> list[TableData]:
        inside = trace.spans.step_of_events() >= 0 if count else None
        basis = look.composition.per if count and look.composition else per
        tables = [
            _groups_table(groups, basis),
            _kernels_table(trace, rows, per, made, count),
            _ops_table(op_rows(trace, inside), count or 1, per, look),
        ]
        return [each for each in tables if each.cells]

    recorded = of("in the recording", 0, group_rows(trace))
    per = f"per step (mean of {count_text(steps)})"
    return TimeTables(of(per, steps, look.groups) if steps else recorded, recorded)


def _groups_table(groups: Sequence[GroupRow], per: str) -> TableData:
    columns = (
        Column("share", "share"),
        Column("time", "time_ns"),
        Column("count", "count"),
        Column("where GPU time goes", "name", WORDS),
        Column("limited by", "limited_by", WORDS),
    )
    return shown(Table(f"Where GPU time goes, {per}", columns, groups))


def _kernels_table(
    trace: Trace, rows: list[PageKernel], per: str, made: Origins, steps: int
) -> TableData:
    def total(row: PageKernel) -> float | None:
        in_steps_ns = None if row.in_steps_ns is None else row.in_steps_ns / (steps or 1)
        return in_steps_ns if steps else row.total_ns

    def share(row: PageKernel) -> float | None:
        ns = total(row)
        return None if ns is None or not whole else ns / whole

    def sizes(row: PageKernel) -> str:
        return "" if row.shape is None else json_text(forms[row.shape].dims)

    def sources(row: PageKernel) -> str:
        at = made.of.get(row.first)
        return "" if at is None else ", ".join(place for place, _ in made.every[at].lines)

    forms = trace.origins.arguments.signatures
    whole = sum(total(row) or 0 for row in rows)
    modules = Column("modules", lambda row: folded_names(row.modules), WORDS, first=False)
    known = kernel_facts().items()  # columns that the row itself declares
    places = sorted(range(len(rows)), key=lambda at: -(total(rows[at]) or 0))
    columns = (
        Column("share", share, "share"),
        Column("total", total, "ns"),
        Column("count", lambda row: row.per_step if steps else row.count),
        Column("median", "median_ns"),
        Column("kernel", "short", WORDS),
        Column("op", lambda row: ", ".join(row.ops), WORDS),
        Column("limited by", lambda row: row.limited_by or row.bound, WORDS),
        *([modules] if any(row.modules for row in rows) else []),
        Column("sizes", sizes, WORDS, first=False),
        Column("TFLOP/s", lambda row: row.tflops and round(row.tflops, 1), "number", first=False),
        Column("GB/s", "gbps", first=False),
        Column("work", "flops", "flops", first=False),
        Column("traffic", "bytes", first=False),
        Column("role", "role", WORDS, first=False),
        *(Column(fact.head, name, fact.unit, first=False) for name, fact in known if fact.head),
        *([Column("source", sources, WORDS, first=False)] if made.every else []),
    )
    table = Table(f"Kernels by name and sizes, {per}", columns, [rows[at] for at in places])
    return shown(table, to=[f"kernel {at}" for at in places])


def _ops_table(ops: list[OpRow], steps: int, per: str, look: Look) -> TableData:
    whole = sum(row.self_cpu_ns for row in ops) or 1

    def mean(name: str) -> Callable[[OpRow], float | None]:
        def value(row: OpRow) -> float | None:
            held = getattr(row, name)
            return None if held is None else held / steps

        return value

    columns = (
        Column("share", lambda row: row.self_cpu_ns / whole, "share"),
        Column("self", mean("self_cpu_ns"), "ns"),
        Column("total", mean("total_cpu_ns"), "ns"),
        Column("count", mean("count")),
        Column("op", "name", WORDS),
        Column("kernels", mean("kernels"), first=False),
        Column("GPU time", mean("gpu_ns"), "ns", first=False),
    )
    ordered = sorted(ops, key=lambda row: -row.self_cpu_ns)
    overhead = " (includes profiler overhead)" if look.host_times_profiled else ""
    table = Table(f"Ops by their own host time, {per}{overhead}", columns, ordered)
    return shown(table, to=[f"search {plain(row.name)}" for row in ordered])


_NUMBERED = regex(r"(.*\D)_\d+$")


def folded_names(names: Sequence[str]) -> str:
    """`LlamaMLP_0, LlamaMLP_1, lm_head` is `LlamaMLP × 2, lm_head`."""
    found: dict[str, list[str]] = {}
    for name in names:
        head = _NUMBERED.match(name)
        found.setdefault(head[1] if head else name, []).append(name)
    return ", ".join(f"{head} × {len(own)}" if own[1:] else own[0] for head, own in found.items())


GRAVE = ("data_loss", "error")  # what every page made from a damaged trace must show


class TraceFacts(Struct):
    """Everything that a page knows of one trace.

    `launch_names` are the names of calls that launch kernels or graphs, `call_groups` what calls do
    by their name, `code_lines` the lines of names that are frames of the user's Python. `lost` says
    what is damaged; `clocks_agree` whether times of host and GPU can be compared.
    """

    title: str
    headline: str
    timeline: Outline
    names: list[str]
    kinds: tuple[str, ...]
    kernels: list[PageKernel]
    decoded: list[NameParts]
    shapes: list[list[tuple[str, str]]]
    origins: Origins
    flame: Flame
    idle: IdleTime
    launch_names: list[int]
    code_lines: dict[int, str]
    call_groups: dict[int, str]
    memory: list[MemoryPage]
    roofs: RoofsEntry | None
    answers: Answers
    insights: list[Insight]
    findings: list[TableData]
    times: TimeTables
    ledger: list[TableData]
    lost: list[str]
    clocks_agree: bool


def facts(
    trace: Trace, title: str, timeline: Outline, steering: Steering | None = None
) -> TraceFacts:
    """Everything that a page knows of one trace."""
    overview = summarize(trace, steering)
    look = overview.look
    names, host = trace.host.names, trace.host
    frames = distinct(host.name[host.is_kind("python_function")]).tolist()
    lines = ((number, line_of(names[number])) for number in frames)
    decoded, shapes = [], [*map(operands, trace.origins.arguments.signatures)]
    for number in distinct(trace.host.name[trace.gpu.id]).tolist():
        kernel = families.decode(trace.host.names[number])
        parts = [(part.text, part.field, part.meaning, part.certainty) for part in kernel.parts]
        decoded.append(NameParts(number, kernel.short, kernel.family, kernel.role, parts))
    kernels, made, notes = page_kernels(trace, look.roofs), origins(trace), look.ledger.notes
    found = insights(trace, overview, timeline)
    tables = findings_tables(overview, found)
    read = [each for each in tables if each.title in ("Trust", "Read")]
    return TraceFacts(
        *(title, headline(look), timeline, names, KINDS, kernels, decoded, shapes, made),
        flame=flame(trace),
        idle=idle_time(trace, timeline.origin_ns),
        launch_names=[at for at, name in enumerate(names) if LAUNCHES.fullmatch(name)],
        code_lines={number: plain(line) for number, line in lines if line},
        call_groups=call_groups(trace.host),
        memory=memory(trace, timeline.origin_ns),
        roofs=look.roofs,
        answers=answers(trace, overview),
        insights=found,
        findings=[each for each in tables if each not in read],
        times=time_tables(trace, look, kernels, made),
        ledger=read,
        lost=[f"{title}: {plain(note.shown)}" for note in notes if note.severity in GRAVE],
        clocks_agree=all(note.code != "clock_mismatch" for note in notes),
    )
