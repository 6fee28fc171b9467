"""The pages of `look`: the first screen, what its options show, and a region of several traces."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

from foretrace.base.errors import first_line
from foretrace.base.tables import (
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    filled,
    fitted,
    listed,
    paragraphs,
)
from foretrace.base.terminal import WIDTH, shorten, stem
from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    percent_text,
    plural,
    range_text,
    ratio_text,
    time_text,
)
from foretrace.look import fixes
from foretrace.look.document import PASSES, ModuleNode, folded_tree, kinds
from foretrace.look.documents import (
    WHOLE,
    CpuOpRow,
    Finding,
    FixEntry,
    GroupRow,
    IgnoredEntry,
    LaunchRow,
    LaunchSequence,
    Look,
    LookVerdict,
    Overview,
    PredictedFixes,
    ServingRow,
    StepRow,
    StepTime,
    TraceMemory,
)
from foretrace.look.fixes import Predicted
from foretrace.look.fixes.whole_step import COMPILED
from foretrace.look.groups import of_region
from foretrace.look.measured_step import (
    FIRST_USE,
    HARDLY,
    TRIAGE,
    WORTH,
    MeasuredStep,
    captured,
    cpu_groups,
    cpu_lines,
    cpu_tree,
    measured,
    saving_text,
    title_of,
    whole_ns,
)
from foretrace.look.savings import SURELY, next_fix
from foretrace.look.steering import FIX, IGNORED, RULE
from foretrace.look.trust import MILD, trust_lines
from foretrace.read.recordings import SHORT
from foretrace.trace.bounds import PARTLY_IDLE
from foretrace.trace.metadata import TraceEntry
from foretrace.trace.trace import Trace
from foretrace.work.kernel_row import KernelRow, facts

MODULES = 60  # `--json` has every module
OWN = "its own ops"
NO_MODULES = (
    "The trace has no nn.Modules: record it with foretrace record --stacks SCRIPT, or with "
    "with_stack=True in the profiler."
)
NO_TIME = "No GPU work with a time was recorded."


class ModuleLine(NamedTuple):
    """A line of the tree: equal modules, or what is left of their time outside of those inside."""

    label: str
    node: ModuleNode
    is_own: bool = False

    def value(self, name: str) -> int:
        """The sum of a column of the modules; 0 for a pass of work that no module owns."""
        if name in PASSES and not self.node.row.kind:
            return 0
        return self.node.own(name) if self.is_own else self.node.sum(name)

    @property
    def lengths(self) -> str:
        """How far equal modules differ."""
        times = [row.total_ns for row in self.node.rows]
        return range_text(min(times), max(times)) if len(times) > 1 and not self.is_own else ""


def module_tables(look: Look) -> list[Table]:
    """The tree, then the kinds of modules."""
    if not look.modules:
        return [paragraphs("Modules", NO_MODULES)]
    nodes, totals = folded_tree(look.modules), look.totals
    whole = sum(node.sum("total_ns") for node in nodes)
    if not whole:
        return [paragraphs("Modules", NO_TIME)]
    on_cpu = not (totals.kernels or totals.memcpys or totals.memsets)  # then times are the host's
    passes = [
        name for name in PASSES if any(getattr(row, name) for row in look.modules if row.kind)
    ]
    time = "CPU time" if on_cpu else "GPU time"

    def times(value: Callable[[Any, str], int]) -> list[Column]:
        def passed(row: Any, name: str) -> int | str:
            return value(row, name) or ""

        return [
            Column(time, lambda row: value(row, "total_ns"), "ns"),
            Column("share", lambda row: value(row, "total_ns") / whole, "share"),
            *(
                Column(name.removesuffix("_ns"), partial(passed, name=name), "ns")
                for name in passes
            ),
        ]

    columns = [Column("module", "label", WORDS), *times(ModuleLine.value)]
    if not on_cpu:
        columns += [
            Column("FLOP", lambda row: row.value("flops") or "", "flops"),
            Column("MFU", lambda row: "" if row.is_own else _known(row.node.mfu), "share"),
        ]
    if any(row.memory_bytes is not None for row in look.modules):
        columns.append(
            Column(
                "keeps", lambda row: (not row.is_own and row.value("memory_bytes")) or "", "bytes"
            )
        )
    columns.append(Column("each", lambda row: row.lengths, TEXT))
    steps = f", {plural(len(look.steps), 'step')}" if look.steps else ""
    overhead = " (includes profiler overhead)" if on_cpu else ""
    title = f"Modules: {time} of the recording{steps}{overhead}"
    rows = [row for each in nodes for row in _module_lines(each)]
    of_kinds = [
        Column("kind", lambda pair: pair[0], WORDS),
        Column("modules", lambda pair: pair[1]["modules"]),
        *times(lambda pair, name: pair[1][name]),
    ]
    after = "The time of a kind is that of its own ops, without the modules that it calls."
    return [
        listed(title, columns, rows, MODULES, ALL),
        Table("Kinds of modules", of_kinds, kinds(nodes), after, top=MODULES),
    ]


def _known(value: float | None) -> float | str:
    return "" if value is None else value


def _module_lines(node: ModuleNode, indent: str = "") -> Iterator[ModuleLine]:
    equal, row = len(node.rows), node.row
    yield ModuleLine(f"{indent}{f'{row.kind} x{equal}' if equal > 1 else row.name}", node)
    for child in node.children:
        if child.sum("total_ns"):
            yield from _module_lines(child, f"{indent}  ")
    if node.children and node.own("total_ns"):
        yield ModuleLine(f"{indent}  {OWN}", node, is_own=True)


# Rows of steps and regions that a page has room for; `--json` has all.
ROWS = 24
TREE = 40  # rows of an op tree
NAME = 40  # of a region or a file, in a heading that is to fit one line
HEADLINE = 120  # cut only where a file names its GPU at length
UNTOLD = ", cause not in the trace"  # a share of a roof that stands alone says as much
ALL = "--json has all"
_SHORT = {full: short for short, full in SHORT.items()}  # as `foretrace look --list` lists them


SMALL = 0.01  # of GPU time: a group below has no row of its own
# Six rows, and up to ten while the others take more than a tenth of the time together: the first
# screen has 25 lines.
FEW, MOST, REST = 6, 10, 0.1
OTHER = "other"


def folded(rows: Sequence[GroupRow], most: int = MOST) -> list[GroupRow]:
    """The rows that matter, the most time first; the rest is one row, `other`."""
    large = [row for row in rows if row.share >= SMALL]
    count = min(FEW, most)
    while count < most and sum(row.share for row in rows[count:]) > REST:
        count += 1
    shown, rest = large[:count], [*rows[len(large[:count]) :]]
    if len(rest) < 2 and len(rows) <= most:
        return list(rows)
    time, many = sum(row.time_ns for row in rest), sum(row.count for row in rest)
    return [*shown, GroupRow(OTHER, time, sum(row.share for row in rest), many, "")]


def first_screen(overview: Overview, width: int = WIDTH) -> list[Table]:
    """The verdict, what to do, where the time goes, and how to see more: at most 25 lines."""
    look = overview.look
    head = _head(overview)
    title, groups = f"GPU {overview.per.partition(' of ')[0]}", look.groups
    if look.cpu:
        title, groups = f"CPU, one {'step' if look.steps else 'call'}", cpu_groups(look.cpu)
        title = "CPU, whole recording" if look.cpu[0].name == WHOLE else title
    columns = (
        Column(title, "name", WORDS),
        Column("time", "time_ns"),
        Column("share", lambda row: 100 * row.share, "percent"),
        Column("n", lambda row: row.count or ""),
        Column("" if look.cpu else "limited by", lambda row: row.limited_by, WORDS),
    )
    options = (
        " --kernels" if look.kernels else "",
        " --ops",
        " --modules" if look.modules else "",
        " --steps" if look.steps or look.regions else "",
        " --findings",
        " --region NAME" if look.regions else "",
    )

    def page(most: int) -> list[Table]:
        rows = folded(groups, most)
        table = replace(head, columns=columns, rows=rows, more=overview.notes)
        return [table, paragraphs("", f"more:{''.join(options)} --all")]

    return fitted(page, MOST, width)


def sections(overview: Overview, wanted: Collection[str], top: int) -> list[Table]:
    """The parts of the page that the options name, below the verdict."""
    look, trust = overview.look, []
    for each in look.trust:  # with what it does to the figures and who met it before
        texts = (each.effect, each.do, each.reference and f"see {each.reference}")
        said = ". ".join(f"{text[0].upper()}{text[1:]}" for text in texts if text)
        cause = f"{each.cause} ({count_text(each.count)}): {each.text}"
        trust.append(Line(BULLET, cause, said))
    launched = (Column("kernels", "kernels"), Column("gpu time", "gpu_ns"))
    ops = (
        Column("op", "name", WORDS),
        Column("calls", "count"),
        Column("self", "self_cpu_ns"),
        Column("total", "total_cpu_ns"),
        *(() if look.cpu else launched),  # no op launches anything
        Column("", lambda row: "metadata only" if row.metadata_only else "", TEXT),
    )
    parts: dict[str, list[Table]] = {
        "regions": [_sequence(entry, top) for entry in overview.sequences],
        "steps": [_totals(look), _steps(look), _regions(look)],
        "kernels": [_kernels(look, top), *_roofs(look, top), _collectives(look)],
        "ops": [_op_tree(look.cpu), listed("Host ops", ops, look.ops, top)],
        "modules": module_tables(look),
        "findings": [*_findings(overview), Table("Trust", lines=trust), _ledger(look)],
    }
    chosen = [part for name, part in parts.items() if name in wanted]
    return filled([_head(overview), *(part for each in chosen for part in each)])


def region_page(trace: Trace, name: str, top: int) -> list[Table]:
    """One region: its verdict, and what a call launches, or computes on a CPU."""
    launched, step = of_region(trace, name), measured(trace, name)
    found, tree = verdict_of(step), cpu_tree(trace, name) if step is None else []
    line = next(cpu_lines(tree), Line(label(found.bound, step), found.text))
    parts = [_op_tree(tree), *([] if tree else [_sequence(entry, top) for entry in launched])]
    return [Table(name, lines=[line]), *filled(parts)]


def _head(overview: Overview) -> Table:
    """Every page begins with the trace and its verdict."""
    look = overview.look
    full = stem(look.trace.path)
    name = _SHORT.get(full) or shorten(full, NAME) or look.trace.path
    title = f"{name} · {shorten(headline(look), HEADLINE)}"
    return Table(title, lines=overview.lines)


def _sequence(entry: LaunchSequence, top: int) -> Table:
    """One call of a region, operation by operation; a long one is folded by kind."""
    columns = (
        Column("kernel", kernel_times, WORDS),
        Column("op", lambda row: op_path(row.chain), WORDS),
        Column("host", "host_ns"),
        Column("delay", "delay_ns"),
        Column("time", "ns", "ns"),
        Column("TFLOP/s", lambda row: _bounded(_tflops(row.tflops), row.certainty), TEXT),
        Column("TB/s", lambda row: _bounded(_tbps(row.gbps), row.certainty), TEXT),
        Column("bound", lambda row: row.bound, TEXT),
    )
    left_out = max(len(entry.rows) - top, 0) + entry.left_out
    after = f"… and {left_out} more kinds (--top {len(entry.rows)})" if left_out else ""
    same, every = entry.same, entry.calls
    calls = plural(every, "call") if same == every else f"{same} of {every} calls"
    how = "by kind, in order of first launch" if entry.folded else "in launch order"
    what = f"{shorten(entry.region, NAME)}: {plural(entry.operations, 'GPU operation')}"
    title = f"{what} {how}, {'' if same == 1 else 'medians of '}{calls}"
    return Table(title, columns, entry.rows, after, top=top)


def kernel_times(row: LaunchRow) -> str:
    """`3x gelu` for three launches of a kernel."""
    return f"{row.times}x {row.kernel}" if row.times > 1 else row.kernel


def op_path(chain: list[str]) -> str:
    """`linear > matmul > mm`: the ops above a GPU operation; without any, the launching call."""
    ops = [
        op.removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
        for op in chain[:-1]
    ]
    return " > ".join(ops) or (chain[-1] if chain else DASH)


def _totals(look: Look) -> Table:
    totals = look.totals
    if look.cpu:
        return paragraphs("Totals", plural(totals.cpu_ops, "host op"))
    launched = [(totals.kernels, "kernel"), (totals.memcpys, "memcpy"), (totals.memsets, "memset")]
    counts = [plural(count, name) for count, name in launched]
    counts.append(plural(totals.launches, "launch", "launches"))
    counts += [plural(totals.syncs, "sync"), plural(totals.cpu_ops, "host op")]
    share = ""
    if totals.busy_share is not None:
        window = f"{time_text(totals.gpu_span_ns)} from the first to the last GPU operation"
        share = f", {percent_text(totals.busy_share)} of the {window}"
    return paragraphs(
        "Totals", f"{', '.join(counts)}; GPU busy {time_text(totals.gpu_busy_ns)}{share}"
    )


def _steps(look: Look) -> Table:
    def idle(row: StepRow) -> int | None:
        """What GPU work leaves of the recorded step."""
        if row.recorded_ns is None or row.gpu_busy_ns is None:
            return None
        return max(row.recorded_ns - row.gpu_busy_ns, 0)

    on_gpu = (
        Column("kernels", "kernels"),
        Column("memcpys", "memcpys"),
        Column("memsets", "memsets"),
        Column("recorded", "recorded_ns"),
        Column("gpu busy", "gpu_busy_ns"),
        Column("gpu idle", idle, "ns"),
        Column("bound", "bound", TEXT),
    )
    on_cpu = (Column("ops", "ops"), Column("inside ops", "ops_ns"))
    names = (Column("step", "name", WORDS), Column("host", "cpu_ns"))
    return listed("Steps", (*names, *(on_cpu if look.cpu else on_gpu)), look.steps, ROWS, ALL)


def _regions(look: Look) -> Table:
    columns = [
        Column("region", "name", WORDS),
        Column("calls", "count"),
        Column("host/call", lambda row: row.cpu_ns / row.count, "ns"),
    ]
    if look.cpu:
        title, whole = "Regions (per call: means)", sum(row.cpu_ns for row in look.steps)
        if whole:
            columns.append(Column("of the steps", lambda row: row.cpu_ns / whole, "share"))
        return listed(title, columns, look.regions, ROWS, ALL)
    title = "Regions (per call: GPU time is the median, the rest are means)"
    columns += [
        Column("kernels/call", "kernels_per_call"),
        Column("roles/call", lambda row: roles_text(row.roles_per_call, 3) or None, WORDS),
        Column("gpu/call", "gpu_ns_per_call", "ns"),
        Column("bound", "bound", TEXT),
    ]
    return listed(title, columns, look.regions, ROWS, ALL)


def _kernels(look: Look, top: int) -> Table:
    def caller(row: KernelRow) -> str:
        """The op that launched it; for a generated one, which is its own op, its first line."""
        if row.sources and row.family.startswith("inductor"):
            return PurePath(row.sources[0]).name
        return row.ops[0].removeprefix("aten::") if row.ops else DASH

    def rate(row: KernelRow) -> str:
        """The rate under the roof that the kernel is nearest to."""
        flops, moved = _tflops(row.tflops), _tbps(row.gbps)
        text = f"{moved} TB/s" if moved else ""
        if flops and (row.bound == "compute" or not moved):
            text = f"{flops} TFLOP/s"
        return _bounded(text, row.cost_certainty)

    columns = (
        Column("kernel", lambda row: row.short or row.name, WORDS),
        Column("op", caller, WORDS),
        Column("n", "count"),
        Column("total", "total_ns"),
        Column("median", "median_ns"),
        Column("rate", rate, TEXT),
        *(Column(fact.head, name, fact.unit) for name, fact in facts().items() if fact.head),
        Column("limited by", lambda row: row.limited_by.removesuffix(UNTOLD) or row.bound, WORDS),
    )
    return listed("Kernels", columns, look.kernels, top)


def _roofs(look: Look, top: int) -> list[Table]:
    """What kernels are held against, the roofline, and why some are faster than HBM."""
    if look.roofs is None:
        return []
    from foretrace.look.roofs_lines import cached_lines, roofline, roofs_text

    plot, letters = roofline(look.kernels, look.roofs)
    whole = sum(row.total_ns or 0 for row in look.kernels) or 1
    columns = (
        Column("", lambda pair: pair[0], WORDS),
        Column("kernel", lambda pair: pair[1].short or pair[1].name, WORDS),
        Column("time", lambda pair: (pair[1].total_ns or 0) / whole, "share"),
        Column("limited by", lambda pair: pair[1].limited_by, WORDS),
    )
    return [
        paragraphs("Roofs", f"{look.roofs.device}: {roofs_text(look.roofs)}", code=plot),
        Table("", columns, letters),
        Table("Faster than HBM", lines=cached_lines(look)[:top]),
    ]


def _collectives(look: Look) -> Table:
    columns = (
        Column("collective", "collective", WORDS),
        Column("message", "message_bytes"),
        Column("ranks", "group_size"),
        Column("group", "group_name", WORDS),
        Column("n", "count"),
        Column("total", "total_ns"),
        Column("median", "median_ns"),
        Column("bus", "bus_gbps", "GB/s"),
        Column("best", "best_bus_gbps", "GB/s"),
    )
    rows = sorted(look.collectives, key=lambda row: -row.total_ns)
    return listed("Collectives", columns, rows, ROWS, ALL)


def _op_tree(tree: Sequence[CpuOpRow]) -> Table:
    """The ops of one call on a CPU, below the op that called them."""

    def name(row: CpuOpRow) -> str:
        return f"{'  ' * row.depth}{f'{row.count}x ' if row.count > 1 else ''}{row.name}"

    columns = (
        Column("op", name, WORDS),
        Column("total", "total_ns"),
        Column("self", "self_ns"),
        Column("", lambda row: row.note or row.does, WORDS),
    )
    title = f"Op tree of {tree[0].name}" if tree else ""
    title += ", the call of median length" if tree and tree[0].name != WHOLE else ""
    return listed(title, columns, tree, TREE, ALL)


def _findings(overview: Overview) -> list[Table]:
    """What was found, by largest possible saving, then the rules that found nothing, and why."""
    look, worth, lines = overview.look, overview.worth_ns, list[Line]()
    rows = defaultdict[str, list[Finding]](list)
    for row in look.findings:
        rows[row.state].append(row)
    small = [row for row in rows["found"] if row.at_most_ns is not None and row.at_most_ns < worth]
    for row in rows["found"]:
        saving = f"{text}: " if (text := saving_text(row)) else ""
        if row not in small:
            lines.append(Line(BULLET, f"{saving}{row.title} [{row.rule}]", row.detail))
    if small:
        words = [f"{row.rule} ({saving_text(row)})" for row in small]
        lines.append(Line(BULLET, f"below 1% of the time: {', '.join(words)}"))
    clear = ", ".join(row.rule for row in rows["clear"])
    crashed = ", ".join(f"{row.rule} ({row.detail})" for row in rows["crashed"])
    lacks = defaultdict[str, list[str]](list)  # rules that lack the same data are named together
    for row in rows["skipped"]:
        lacks[row.detail].append(row.rule)
    skipped = " ".join(f"Skipped: {', '.join(names)} ({what})." for what, names in lacks.items())
    if look.cpu and lacks:
        count = plural(len(rows["skipped"]), "rule")
        skipped = f"{count} about GPU work had nothing to check."
    rest = [
        f"Checked and not found: {clear}." if clear else "",
        skipped,
        f"Failed: {crashed}." if crashed else "",
    ]
    per = "per step" if look.steps else "in the whole recording"
    return [
        Table(f"Findings, by largest possible saving {per}", lines=lines),
        paragraphs("", *filter(None, rest)),
    ]


def _ledger(look: Look) -> Table:
    ledger = look.ledger
    counts = {"kept": ledger.kept, "repaired": ledger.repaired, "skipped": ledger.skipped}
    parts = " + ".join(f"{count_text(count)} {what}" for what, count in counts.items())
    said = {each.cause for each in look.trust}
    notes = [note for note in ledger.notes if note.code not in said]
    counted = Line("", f"{plural(ledger.seen, 'record')} = {parts}")
    shown = [Line(BULLET, f"{note.severity}: {note.shown}") for note in notes]
    return Table("Read", lines=[counted, *shown])


def _bounded(rate: str, certainty: str) -> str:
    """A rate from an upper bound of the work is one itself."""
    return f"<= {rate}" if rate and certainty == "at_most" else rate


def _tflops(value: float | None) -> str:
    return "" if not value or value < 0.05 else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _tbps(gbps: float | None) -> str:
    return "" if not gbps or gbps < 5 else f"{gbps / 1000:.2f}"


LETTERS = "ABCDEFGH"  # of the traces, as `compare` names them


def beside_page(
    region: str, found: Sequence[tuple[str, LaunchSequence]], layers: Sequence[str] = ()
) -> list[Table]:
    """One table: the places of the first trace, and at each of them what every trace launches.

    `layers` names the matmuls of the first trace in launch order.
    """
    titles, sequences = zip(*found, strict=True)
    rows = sequences[0].rows
    matmuls = [place for place, row in enumerate(rows) if row.role == "gemm"]
    names = dict(zip(matmuls, layers, strict=True)) if len(matmuls) == len(layers) else {}
    labels = [f"{place + 1} {names.get(place, '')}".strip() for place in range(len(rows))]
    lines = [
        line
        for label, place in zip(labels, _places(sequences), strict=True)
        for line in _lines_of(label, place)
    ]
    columns = (
        Column("place", lambda line: line[0], WORDS),
        Column("", lambda line: line[1], WORDS),
        Column("kernel", lambda line: kernel_times(line[2]) if line[2] else "-", WORDS),
        Column("op", lambda line: op_path(line[2].chain) if line[2] else "", WORDS),
        Column(
            "launch", lambda line: line[2].chain[-1] if line[2] and line[2].chain else "", WORDS
        ),
        Column("time", lambda line: line[2].ns if line[2] else "", "ns"),
    )
    title = f"{region}: what a call launches, in launch order, medians"
    named = [Line(*pair) for pair in zip(LETTERS, titles, strict=False)]
    return [Table("", lines=named), Table(title, columns, lines)]


def _places(sequences: Sequence[LaunchSequence]) -> list[list[list[LaunchRow]]]:
    """The rows of every trace at each place of the first; a kernel that it lacks joins the place
    of what it replaces, else the one before it.
    """
    from difflib import SequenceMatcher

    first = sequences[0].rows
    places: list[list[list[LaunchRow]]] = [[[] for _ in sequences] for _ in first]
    for number, entry in enumerate(sequences):
        names = [[row.name for row in rows] for rows in (first, entry.rows)]
        match = SequenceMatcher(None, names[0], names[1], autojunk=False)
        for _, start, end, left, right in match.get_opcodes():
            last = max(end - 1, start - 1, 0)
            for offset, row in enumerate(entry.rows[left:right]):
                places[min(start + offset, last)][number].append(row)
    return places


def _lines_of(
    label: str, traces: list[list[LaunchRow]]
) -> Iterator[tuple[str, str, LaunchRow | None]]:
    """One line for each row of each trace; place and letter stand on the first of theirs."""
    for letter, rows in zip(LETTERS, traces, strict=False):
        for row in (*rows, *([] if rows else [None])):
            yield label, letter, row
            label = letter = ""


def page_of_fixes(found: PredictedFixes) -> list[Table]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Table("", lines=[Line("UNKNOWN", found.reason)])]
    now = f"{stem(found.path)}: {_now(found.step, found.per)}"
    head = Table("", lines=[Line("NOW", now)])
    left = [*ignored_lines(found.ignored)]
    ignored = [Table("", lines=left)] if left else []
    if not found.fixes:
        return [head, paragraphs("", no_fix([found.reason], other=bool(left))), *ignored]
    table = Table("", (Column("fix", "name", WORDS), *_after(found.step, "step")), found.fixes)
    # a cell of a table is cut where space is short: what to do stands below it
    said = [Line(each.name, f"{each.order}: {_reason(each)}") for each in found.fixes]
    together = []
    if found.together_ns is not None:
        faster = f"{found.step.ns / found.together_ns:.2f}x"
        text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
        together = [Table("", lines=[Line("TOGETHER", textwrap.shorten(text, 400))])]
    return [head, table, Table("", lines=said), *together, *ignored]


def fixes_table(step: StepTime, look: Look, per: str) -> Table:
    """The fixes of a report: the step before and after each, and why."""
    none = no_fix([row.detail for row in look.findings])
    columns = (
        Column("fix", "order", WORDS),
        Column("before", lambda _: step.ns, "ns"),
        *_after(step, "after"),
        Column("why", _reason, WORDS),
    )
    now = [Line("", f"The step takes {_now(step, per)}.")]
    now += [] if look.fixes else [Line("", f"{none[:1].upper()}{none[1:]}.")]
    return Table("Fixes: the step before and after", columns, look.fixes, lines=now)


def _after(step: StepTime, name: str) -> tuple[Column, ...]:
    return (
        Column(name, "ns", "ns"),
        Column("interval", interval, TEXT),
        Column("faster", lambda fix: step.ns / fix.ns, "ratio"),
    )


def _now(step: StepTime, per: str) -> str:
    recorded = f"recorded {time_text(step.recorded_ns)}, replayed {time_text(step.replayed_ns)}"
    return f"about {time_text(step.ns)} {per} without the profiler ({interval(step)}); {recorded}"


def interval(of: StepTime | FixEntry) -> str:
    """`1.0 to 1.9 ms`: where the step lies nine times of ten."""
    return f"{time_text(of.low_ns)} to {time_text(of.high_ns)}"


def _reason(fix: FixEntry) -> str:
    before = f"; first remove {fix.first}" if fix.first else ""
    return fix.why + before + (f"; check: {fix.risk}" if fix.risk else "")


ROLES = 4  # that one phrase can name
NAMED = 4  # rules or fixes that the line of ignored ones names
REASON = 80  # characters of the user's reason that it shows
CAPTURES = ("capture_mismatch", "capture_left_out")
FLOORS = {
    "memory": "weights and KV cache read once",
    "weights": "weights read once; the KV cache is not known",
    "compute": "its FLOP at the peak",
}
SHOWN = 3  # kinds of batches on the first screen; `--json` has all
PARTS = 3  # of the peak of memory that fit one line
LEAST = 0.005  # of the peak: less is not worth a word
SLOW = ("record_shapes", "with_stack", "profile_memory")  # what slows the host most


def lines(look: Look, step: MeasuredStep | None) -> list[Line]:
    """The lines of the first screen above and below its table."""
    said, trust = look.verdict, [*trust_lines(look.trust)]
    mild = {each.cause for each in look.trust} <= MILD
    recorded = "recorded " if step and step.recorded_ns else ""
    return [
        *([] if mild else trust),
        Line(label(said.bound, step, on_cpu=bool(look.cpu)), said.text),
        *cpu_lines(look.cpu),
        *(Line(row.kind.upper(), _served(row, recorded)) for row in look.serving[:SHOWN]),
        *([Line("DO FIRST", said.first)] if said.first else _nothing(look, step)),
        *([Line("THEN", said.then)] if said.then else []),
        *([Line("COMPILE", answer)] if (answer := _compiling(look)) else []),
        *_memory_lines(look.memory),
        *(trust if mild else []),
        *ignored_lines(look.ignored),
    ]


def _served(row: ServingRow, recorded: str) -> str:
    """One kind of batch."""
    mean = "" if row.context is None else count_text(round(row.context / row.requests))
    each = f", mean context {mean}" if mean else ""
    speed = f"{plural(row.tokens, 'token')} in {recorded}{time_text(row.time_ns)}"
    rate = "" if row.tokens_per_s is None else f", {count_text(round(row.tokens_per_s))} tokens/s"
    more = f" besides {time_text(row.unrecorded_ns)} not recorded" if row.unrecorded_ns else ""
    limits = "".join(_limits(row))
    return f"{plural(row.requests, 'request')}{each}: {speed}{more}{rate}{limits}"


def _limits(row: ServingRow) -> Iterator[str]:
    if row.floor_ns:
        what = FLOORS[row.floor_by]
        times = row.time_ns / row.floor_ns
        far = ratio_text(times) if times < 10 else f"{times:,.0f}x"
        yield f"; {far} its floor of {time_text(row.floor_ns)} ({what})"
    shares = [("MBU", row.mbu), ("MFU", row.mfu)]
    words = [f"{name} {percent_text(share)}" for name, share in shares if share is not None]
    if words:
        yield f"; {', '.join(words)}"


def ignored_lines(rows: Sequence[IgnoredEntry]) -> Iterator[Line]:
    """What the user wants not to hear of, counted, so that nothing is hidden without a word."""
    for word, is_ignored in (("IGNORED", True), ("NOT SELECTED", False)):
        if mine := [row for row in rows if (row.how == IGNORED) is is_ignored]:
            yield Line(word, _counted(mine))


def _counted(rows: Sequence[IgnoredEntry]) -> str:
    """`2 findings: sync_stalls (an eval loop), gemm_choice; 1 fix: cuda_graph`."""
    parts = []
    for kind, what in ((RULE, ("finding", "findings")), (FIX, ("fix", "fixes"))):
        mine = [row for row in rows if row.kind == kind]
        count = sum(row.findings for row in mine) if kind == RULE else len(mine)
        why = [f" ({first_line(row.reason, REASON)})" if row.reason else "" for row in mine]
        told = [row.name + each for row, each in zip(mine[:NAMED], why, strict=False)]
        told += ["…"] * (len(mine) > NAMED)
        parts += [f"{plural(count, *what)}: {', '.join(told)}"] if mine else []
    return "; ".join(parts)


def _memory_lines(found: TraceMemory | None) -> list[Line]:
    """`MEMORY  peak 7.02 GB: activations 4.40 GB, …`."""
    if found is None:
        return []
    said = f"peak {bytes_text(found.peak_bytes)}"
    if found.reserved_bytes is not None:
        said += f", reserved {bytes_text(found.reserved_bytes)}"
    large = [item for item in found.parts.items() if item[1] >= LEAST * found.peak_bytes]
    if large:
        said += f": {', '.join(f'{name} {bytes_text(size)}' for name, size in large[:PARTS])}"
    elif found.before_bytes:
        said += f"; {bytes_text(found.before_bytes)} were in use when the recording began"
    more = f" (foretrace memory {found.source})" if found.source else ""
    return [Line("MEMORY", said + more)]


def _compiling(look: Look) -> str:
    """Whether compiling helps: the predicted steps, or what a rule says of a step that is not
    replayed.
    """
    answer, step = title_of(look.findings, TRIAGE).removeprefix("Compiling "), look.step
    if title_of(look.findings, FIRST_USE):
        return ""
    if step is None or not answer or answer.startswith(HARDLY):
        return answer
    # The step in both modes of torch.compile; the one with CUDA graphs fuses kernels as well.
    named = [each for name in _WAYS for each in look.fixes if each.name == name]
    firsts = [f" without {each.first}" if each.first else "" for each in named]
    told = [f"about {time_text(e.compiled_ns or e.ns)} with {_WAYS[e.name]}" for e in named]
    if len(set(firsts)) == 1:
        ways = ", ".join(told) + (f";{firsts[0]}" if firsts[0] else "")
    else:
        ways = ", ".join(map("".join, zip(told, firsts, strict=True)))
    if not ways and any(row.name in _WAYS for row in look.ignored):
        return ""  # what compiling brings is known, and not wanted
    if not ways and "record_shapes" not in look.options:
        return answer
    if not ways:
        return "predicted to gain less than 3%"
    return f"{time_text(step.ns)} to {ways}"


_WAYS = {"compile": "torch.compile", "cuda_graph": 'mode="reduce-overhead"'}


def notes(look: Look, step: MeasuredStep | None) -> str:
    """One line of facts below the table: `MFU 0.3% of wall · 3 findings below 1% of the step`."""
    found = sum(row.state == "found" for row in look.findings)
    count = [plural(found, "finding")] if found else []
    return " · ".join([*_rates(look, step), *count, *_captures(look), *_unknown(look, step)])


def headline(look: Look) -> str:
    """`NVIDIA H200, rank 0 · 3 steps · profiled, record_shapes on: host times inflated`."""
    trace = look.trace
    rank = f", rank {trace.rank}" if trace.rank is not None else ""
    parts = [f"{'CPU' if look.cpu else device_text(trace)}{rank}"]
    parts += [plural(trace.steps, "step")] if trace.steps else []
    totals = look.totals
    if not (totals.cpu_ops or totals.launches or totals.kernels + totals.memcpys + totals.memsets):
        return " · ".join([*(parts if trace.device else parts[1:]), "no torch op was recorded"])
    if not look.host_times_profiled:
        return " · ".join([*parts, "wall times from the run record"])
    # how far host times can be trusted; the options named are those that slow the host
    said = {"with_stack"} if any(each.cause == "stacks" for each in look.trust) else set()
    slow = [option for option in SLOW if option in look.options and option not in said]
    options = f", {', '.join(slow)} on" if slow else ""
    return " · ".join([*parts, f"profiled{options}: host times inflated"])


def device_text(trace: TraceEntry) -> str:
    """`NVIDIA H200 (sm90)`."""
    arch = f" ({trace.arch})" if trace.arch else ""
    return f"{trace.device or 'GPU not named'}{arch}"


def roles_text(roles: Mapping[str, float], most: int = ROLES) -> str:
    """`3 GEMMs, 2 pointwise`, the commonest first; many roles are cut short."""
    ordered = sorted(roles.items(), key=lambda item: (-item[1], item[0]))
    named = {"gemm": ("GEMM", "GEMMs"), "gemv": ("GEMV", "GEMVs"), "copy": ("copy", "copies")}
    words = [
        plural(count, *named[role]) if role in named else f"{count_text(count)} {role}"
        for role, count in ordered[:most]
    ]
    rest = sum(count for _, count in ordered[most:])
    return ", ".join([*words, f"{plural(rest, 'other')}"] if rest else words)


def _nothing(look: Look, step: MeasuredStep | None) -> Iterator[Line]:
    """No fix: said only where the rules could look."""
    if step is None:
        return
    if captured(step):
        yield Line("DO FIRST", "record the replays: a capture runs nothing on the GPU")
        return
    skipped = [row.detail for row in look.findings if row.state == "skipped"]
    lacking = f"; {plural(len(skipped), 'rule')} lacked data (--findings)" if skipped else ""
    none = no_fix(skipped, other=any(row.kind == FIX for row in look.ignored))
    if look.step is None:
        none = "no step can be replayed, so no fix is predicted (foretrace look --fixes)"
    yield Line("DO FIRST", none + lacking)


def _rates(look: Look, step: MeasuredStep | None) -> Iterator[str]:
    whole = "recorded wall" if step and step.recorded_ns else "wall"  # the verdict has another
    for name, wall, gpu in (("MFU", look.mfu, look.mfu_gpu), ("MBU", look.mbu, look.mbu_gpu)):
        shares = ((wall, whole), (gpu, "GPU time"))
        words = [f"{percent_text(share)} of {of}" for share, of in shares if share is not None]
        if words:
            yield f"{name} {', '.join(words)}"


def _captures(look: Look) -> Iterator[str]:
    """That captures were of no use; `--findings` has each file."""
    said = {note.code: note.text for note in look.ledger.notes if note.code in CAPTURES}
    text = said.get(CAPTURES[0]) or said.get(CAPTURES[1])
    if text:
        yield f"captures: {text} (--findings)"


def _unknown(look: Look, step: MeasuredStep | None) -> Iterator[str]:
    """What the trace lacks: data of rules, launches, costs that the verdict does not name."""
    details = [row.detail for row in look.findings if row.state == "skipped" and not look.cpu]
    words = sorted({re.split("[:,]", detail.removeprefix("needs "))[0] for detail in details})
    found = [row.evidence for row in look.findings if row.rule == "unlinked_work"]
    unlinked = sum(evidence.get("count", 0) for evidence in found)
    if unlinked:
        words.append(f"the launch of {plural(unlinked, 'GPU operation')}")
    is_idle, by_bound = step and step.bound in ("host", "sync"), step.by_bound if step else {}
    share = by_bound.get("unknown", 0) / max(sum(by_bound.values()), 1) if is_idle else 0.0
    if share >= 0.1:  # of GPU time in kernels without a known cost that is worth a word
        words.append(f"the cost of kernels with {percent_text(share)} of GPU time")
    if words:
        yield f"not in the trace: {', '.join(words)}"


LABELS = {
    "host": "HOST-BOUND",
    "sync": "SYNC-BOUND",
    "copy": "COPY-BOUND",
    "comms": "COMMS-BOUND",
    "compute": "GPU-BOUND",
    "memory": "GPU-BOUND",
    "mixed": "MIXED",
    "unknown": "UNKNOWN",
}
KINDS = {
    "compute": "compute-bound kernels",
    "memory": "memory-bound kernels",
    "latency": "kernels too small for the GPU",
    "copy": "memcpys and memsets",
    "comms": "collectives",
    "unknown": "kernels of unknown cost",
}
KIND_SHARE, KINDS_NAMED = 0.05, 3
ROOFS = ("compute", "memory")


def verdict_of(step: MeasuredStep | None, findings: Sequence[Finding] = ()) -> LookVerdict:
    """The verdict on a step, a call or a recording; None launched nothing."""
    if step is None:
        return LookVerdict("unknown", "it launched nothing")
    first = _largest(step, findings)
    return LookVerdict(step.bound, "".join(_evidence(step)), first)


def verdict(
    step: MeasuredStep | None,
    look: Look,
    on_cpu: Predicted | None = None,
    bare_ns: float | None = None,
) -> LookVerdict:
    """The verdict on one trace: what to do is ranked by the predicted time of a step.

    What a CPU gains depends on the machine more than a trace can tell: the order is said there,
    without a time. `bare_ns` is a step without the profiler, as the run record has it.
    """
    if step is None:
        found = [each.proposal for each in (on_cpu.fixes if on_cpu else ())]
        orders = [f"{each.order}: {each.why}" for each in found]
        return LookVerdict("unknown", _without_gpu(look, bare_ns), *orders[:2])
    if look.step is None:
        return verdict_of(step, look.findings)
    # the first of them that can be done now leads the list
    if setup := title_of(look.findings, FIRST_USE):
        first = f"run the step once before the recording: {_inside(setup)}"
        return LookVerdict(step.bound, "".join(_evidence(step)), first)
    # a rule may bound what no replay predicts, such as collectives that overlap with nothing
    bounded = _largest(step, look.findings, fixes.WORTH)
    first = first_text(look.step, look.fixes[0]) if look.fixes else bounded
    after = next_fix(look.fixes)
    then = then_text(after) if after else ""
    return LookVerdict(step.bound, "".join(_evidence(step)), first, then)


def _largest(step: MeasuredStep, findings: Sequence[Finding], worth: float = WORTH) -> str:
    """Where no fix is predicted: the one that may save most, with its bound."""
    if captured(step):
        return ""
    least = max(worth * whole_ns(step), 1)
    rows = [row for row in findings if row.fix and (row.at_most_ns or 0) >= least]
    if not rows:
        return ""
    row = max(rows, key=lambda row: row.at_most_ns or 0)
    return f"{row.fix}: {_inside(row.title)}; saves at most {time_text(row.at_most_ns)}"


def label(bound: str, step: MeasuredStep | None, *, on_cpu: bool = False) -> str:
    """The word in front: `HOST-BOUND`. A busy GPU bounds a step, whatever its kernels do."""
    busy = step is not None and step.busy_share >= 1 - PARTLY_IDLE
    if step is None:
        return "CPU TIME" if on_cpu else "NO GPU TIME"
    return "GPU-BOUND" if busy and bound in ("mixed", "unknown") else LABELS[bound]


def _inside(title: str) -> str:
    """A title within a sentence: its first word small, unless it is a name such as ReLU or CUDA."""
    word = title.partition(" ")[0]
    return title[:1].lower() + title[1:] if word[1:].islower() or len(word) == 1 else title


def _evidence(step: MeasuredStep) -> Iterator[str]:
    """How busy the GPU is, then what the bound rests on."""
    gpus = "" if step.devices == 1 else f"{step.devices} GPUs together: "
    yield f"{gpus}GPU busy {_part(step.busy_ns, step.wall_ns)} {step.per}"
    recorded = f", recorded {time_text(step.recorded_ns)}" if step.recorded_ns else ""
    yield f" ({percent_text(step.busy_share)}{recorded})"
    if step.bound == "host":
        words = plural(step.launches, "launch", "launches")
        if step.graph_launches:
            words += f" ({count_text(step.graph_launches)} of a CUDA graph)"
        # a median distance says nothing of a time that is mostly a few long pauses
        if step.apart_ns is not None and 2 * step.apart_ns * step.launches >= step.wall_ns:
            words += f", one every {time_text(step.apart_ns)}"
        yield f": {words}; median kernel {time_text(step.kernel_ns)}"
    elif step.bound == "sync":
        yield ", idle mostly after the host waited for it"
    elif captured(step):
        yield f": the host captured CUDA graphs for {time_text(step.idle_by_cause['capture'])}"
    else:
        yield f": {_kinds(step)}"
    if step.queued_ns > WORTH * step.wall_ns:
        yield f"; launched work waited {time_text(step.queued_ns)} in the queue"


def _part(part: float, whole: float) -> str:
    """`1.07 of 30.4 ms`; both units where they differ."""
    (number, _, suffix), total = time_text(part).partition(" "), time_text(whole)
    return f"{number if total.endswith(f' {suffix}') else time_text(part)} of {total}"


def _kinds(step: MeasuredStep) -> str:
    """`71.3% of GPU time in compute-bound kernels (40.2% of it at the roof), 20.1% in …`."""
    total = max(sum(step.by_bound.values()), 1)
    ordered = sorted(step.by_bound.items(), key=lambda item: (-item[1], item[0]))
    words = []
    for kind, ns in ordered[:KINDS_NAMED]:
        at_roof = step.at_roof.get(kind, 0)
        part = f"{percent_text(at_roof / ns)} of it" if at_roof else "none"
        roof = f" ({'all' if at_roof == ns else part} at the roof)" if kind in ROOFS else ""
        if ns >= KIND_SHARE * total:
            words.append(f"{percent_text(ns / total)} in {KINDS[kind]}{roof}")
    return ", ".join(words).replace(" in ", " of GPU time in ", 1)


def _without_gpu(look: Look, bare_ns: float | None) -> str:
    """Where the host's time goes: in a region with more time than all ops, else in an op."""
    totals, rows = look.totals, look.ops
    ops, total = plural(totals.cpu_ops, "host op"), sum(row.self_cpu_ns for row in rows)
    region = max(look.regions, key=lambda row: row.cpu_ns, default=None)
    if region and region.cpu_ns > total:
        ops += f" ({time_text(total)})" if total else ""
        calls, each = plural(region.count, "call"), time_text(region.cpu_ns / region.count)
        ops += f", most host time in {region.name} ({calls}, {each} each)"
    elif total:
        ops += f", most self time in {rows[0].name} ({percent_text(rows[0].self_cpu_ns / total)})"
    if totals.kernels or totals.memcpys or totals.memsets:
        return f"no GPU event has a usable time; {ops}"
    if totals.launches:
        launches = plural(totals.launches, "launch", "launches")
        return f"the trace has {launches} and no GPU events: they were not recorded, or nothing ran"
    if not look.cpu:
        return f"the trace has no GPU events; {ops}"
    profiled, where = time_text(look.cpu[0].total_ns), "per step"
    if not look.steps:
        where = f"in {look.cpu[0].name}"
    elif bare_ns is not None:
        bare = f"{time_text(bare_ns)} per step without the profiler"
        return f"{bare}, {profiled} with it; {ops}"
    return f"{profiled} {where} with the profiler; {ops}"


def first_text(step: StepTime, fix: FixEntry) -> str:
    """`write the mask with torch.where: 32 waits per step; 4.3 to about 1.3 ms (1.0 to 1.9)`."""
    order = f"{fix.order}, without {fix.first}" if fix.first else fix.order
    now = time_text(step.ns)
    if step.ns > SURELY * step.recorded_ns and now != time_text(step.recorded_ns):
        now += " without the profiler"  # the verdict above gives the recorded time
    return f"{order}: {fix.why}; {now} to about {time_text(fix.ns)} ({interval(fix)})"


def no_fix(details: Sequence[str], *, other: bool = False) -> str:
    """That there is none, or what to record where most could not look: `details` say what rules
    lack. `other` than those that the user ignores.
    """
    for what in ("host ops", "shapes"):
        for detail in details:
            if detail.startswith(f"needs {what}: "):
                return f"{detail.partition(': ')[2]}: most fixes need {what}"
    return f"no {'other ' if other else ''}fix is predicted to shorten this by 3%"


def then_text(fix: FixEntry) -> str:
    """What the second fix brings after the first."""
    without = f", without {fix.first}," if fix.first else ""
    is_mode = fix.after_ns is not None and fix.after_ns == fix.compiled_ns  # after torch.compile
    order = COMPILED if is_mode else fix.order
    return f"{order}: {fix.why}; after that{without} about {time_text(fix.after_ns)}"
