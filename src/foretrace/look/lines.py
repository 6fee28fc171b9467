"""The pages of `look`: the first screen, what its options show, and a region of several traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

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
    count_text,
    percent_text,
    plural,
    range_text,
    time_text,
)
from foretrace.look.document import PASSES, ModuleNode, folded_tree, kinds
from foretrace.look.documents import CpuOpRow, FindingEntry, Look, StepRow
from foretrace.look.measured_step import saving_text
from foretrace.look.on_cpu import cpu_groups
from foretrace.look.overview import (
    MOST,
    WHOLE,
    LaunchRow,
    LaunchSequence,
    Overview,
    RegionOverview,
    folded,
)
from foretrace.look.sentences import headline, roles_text
from foretrace.read.recordings import SHORT
from foretrace.work.kernel_row import KernelRow

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
    of_kinds = [Column("kind", "kind", WORDS), Column("modules", "modules"), *times(getattr)]
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


def region_page(overview: RegionOverview, top: int) -> list[Table]:
    """One region: its verdict, and what a call launches."""
    head = Table(overview.name, lines=[overview.line])
    parts = [_op_tree(overview.cpu), *(_sequence(entry, top) for entry in overview.sequences)]
    return [head, *filled(parts)]


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
    totals, busy, span = look.totals, look.totals.gpu_busy_ns, look.totals.gpu_span_ns
    if look.cpu:
        return paragraphs("Totals", plural(totals.cpu_ops, "host op"))
    launched = [(totals.kernels, "kernel"), (totals.memcpys, "memcpy"), (totals.memsets, "memset")]
    counts = [plural(count, name) for count, name in launched]
    counts.append(plural(totals.launches, "launch", "launches"))
    counts += [plural(totals.syncs, "sync"), plural(totals.cpu_ops, "host op")]
    share = ""
    if busy is not None and span:
        window = f"{time_text(span)} from the first to the last GPU operation"
        share = f", {percent_text(busy / span)} of the {window}"
    return paragraphs("Totals", f"{', '.join(counts)}; GPU busy {time_text(busy)}{share}")


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
    rows = defaultdict[str, list[FindingEntry]](list)
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
