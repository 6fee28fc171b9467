"""The pages of `look`: the first screen, what its options show, and a region of several traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath

from foretrace.base.terminal import (
    WIDTH,
    Column,
    Section,
    filled,
    fitted,
    listing,
    more_text,
    shorten,
    stem,
)
from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    flops_text,
    percent_text,
    plural,
    range_text,
    time_text,
)
from foretrace.look.document import PASSES, ModuleNode, folded_tree, kinds
from foretrace.look.documents import CpuOpRow, FindingEntry, KernelRow, Look
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

MODULES = 60  # `--json` has every module
OWN = "its own ops"
NO_MODULES = (
    "The trace has no nn.Modules: record it with foretrace record --stacks SCRIPT, or with "
    "with_stack=True in the profiler."
)
NO_TIME = "No GPU work with a time was recorded."


def module_sections(look: Look) -> list[Section]:
    """The tree, then the kinds of modules."""
    if not look.modules:
        return [Section("Modules", [NO_MODULES])]
    nodes, totals = folded_tree(look.modules), look.totals
    whole = sum(node.sum("total_ns") for node in nodes)
    if not whole:
        return [Section("Modules", [NO_TIME])]
    on_cpu = not (totals.kernels or totals.memcpys or totals.memsets)  # then times are the host's
    has_memory = any(row.memory_bytes is not None for row in look.modules)
    passes = [
        name for name in PASSES if any(getattr(row, name) for row in look.modules if row.kind)
    ]

    def cells(total: int, of_pass: Callable[[str], int]) -> list[str]:
        times = [of_pass(name) for name in passes]
        spent = [time_text(ns) if ns else "" for ns in times]
        return [time_text(total), percent_text(total / whole), *spent]

    time = "CPU time" if on_cpu else "GPU time"
    head = [time, "share", *(name.removesuffix("_ns") for name in passes)]
    more = [*([] if on_cpu else ["FLOP", "MFU"]), *(["keeps"] if has_memory else []), "each"]
    steps = f", {plural(len(look.steps), 'step')}" if look.steps else ""
    overhead = " (includes profiler overhead)" if on_cpu else ""
    title = f"Modules: {time} of the recording{steps}{overhead}"
    every = [row for each in nodes for row in _module_rows(each, cells, on_cpu, has_memory)]
    left = more_text(len(every), MODULES, ALL)
    of_kinds = [
        [row.kind, count_text(row.modules), *cells(row.total_ns, partial(getattr, row))]
        for row in kinds(nodes)[:MODULES]
    ]
    after = "The time of a kind is that of its own ops, without the modules that it calls."
    return [
        Section(title, head=["module", *head, *more], rows=every[:MODULES], after=left),
        Section("Kinds of modules", head=["kind", "modules", *head], rows=of_kinds, after=after),
    ]


def _module_rows(
    node: ModuleNode,
    cells: Callable[[int, Callable[[str], int]], list[str]],  # times of a total, and by pass
    on_cpu: bool,
    has_memory: bool,
    indent: str = "",
) -> Iterator[list[str]]:
    equal, row, kept = len(node.rows), node.row, node.sum("memory_bytes")
    shown = f"{row.kind} x{equal}" if equal > 1 else row.name
    times = cells(node.sum("total_ns"), node.sum if row.kind else lambda _: 0)
    mfu = "" if node.mfu is None else percent_text(node.mfu)
    more = [] if on_cpu else [_flops(node.sum("flops")), mfu]
    more += [bytes_text(kept) if kept else ""] if has_memory else []
    lengths = [row.total_ns for row in node.rows]
    each = range_text(min(lengths), max(lengths)) if equal > 1 else ""  # how far they differ
    yield [f"{indent}{shown}", *times, *more, each]
    for child in node.children:
        if child.sum("total_ns"):
            yield from _module_rows(child, cells, on_cpu, has_memory, f"{indent}  ")
    if node.children and node.own("total_ns"):
        flops = [] if on_cpu else [_flops(node.own("flops")), ""]
        own = cells(node.own("total_ns"), node.own)
        yield [f"{indent}  {OWN}", *own, *flops, *[""] * (1 + has_memory)]


def _flops(count: int) -> str:
    return flops_text(count) if count else ""


# Rows of steps and regions that a page has room for; `--json` has all.
ROWS = 24
TREE = 40  # rows of an op tree
NAME = 40  # of a region or a file, in a heading that is to fit one line
HEADLINE = 120  # cut only where a file names its GPU at length
UNTOLD = ", cause not in the trace"  # a share of a roof that stands alone says as much
ALL = "--json has all"
_SHORT = {full: short for short, full in SHORT.items()}  # as `foretrace look --list` lists them


def first_screen(overview: Overview, width: int = WIDTH) -> list[Section]:
    """The verdict, what to do, where the time goes, and how to see more: at most 25 lines."""
    look = overview.look
    head = _head(overview)
    titles = [f"GPU {overview.per.partition(' of ')[0]}", "time", "share", "n", "limited by"]
    groups = look.groups
    if look.cpu:
        one = f"CPU, one {'step' if look.steps else 'call'}"
        one = "CPU, whole recording" if look.cpu[0].name == WHOLE else one
        titles, groups = [one, "time", "share", "n", ""], cpu_groups(look.cpu)

    options = (
        " --kernels" if look.kernels else "",
        " --ops",
        " --modules" if look.modules else "",
        " --steps" if look.steps or look.regions else "",
        " --findings",
        " --region NAME" if look.regions else "",
    )

    def page(most: int) -> list[Section]:
        rows = []
        for row in folded(groups, most):
            share = f"{row.share:.0%}" if row.share >= 0.01 else "<1%"
            count = count_text(row.count) if row.count else ""
            rows.append([row.name, time_text(row.time_ns), share, count, row.limited_by])
        table = replace(head, head=titles, rows=rows, left=(0, 4), after=overview.notes)
        return [table, Section("", [f"more:{''.join(options)} --all"])]

    return fitted(page, MOST, width)


def sections(overview: Overview, wanted: Collection[str], top: int) -> list[Section]:
    """The parts of the page that the options name, below the verdict."""
    look, trust = overview.look, []
    for each in look.trust:  # with what it does to the figures and who met it before
        texts = (each.effect, each.do, each.reference and f"see {each.reference}")
        said = ". ".join(f"{text[0].upper()}{text[1:]}" for text in texts if text)
        trust.append((f"{each.cause} ({count_text(each.count)}): {each.text}", said))
    launched: dict[str, Column] = {"kernels": "kernels", "gpu time": "gpu_ns"}
    columns: dict[str, Column] = {
        "op": "name", "calls": "count", "self": "self_cpu_ns", "total": "total_cpu_ns",
        **({} if look.cpu else launched),  # no op launches anything
        "": lambda row: "metadata only" if row.metadata_only else "",
    }  # fmt: skip
    parts: dict[str, list[Section]] = {
        "regions": [_sequence(entry, top) for entry in overview.sequences],
        "steps": [_totals(look), _steps(look), _regions(look)],
        "kernels": [_kernels(look, top), *_roofs(look, top), _collectives(look)],
        "ops": [_op_tree(look.cpu), listing("Host ops", look.ops, columns, top=top)],
        "modules": module_sections(look),
        "findings": [*_findings(overview), Section("Trust", bullets=trust), _ledger(look)],
    }
    chosen = [part for name, part in parts.items() if name in wanted]
    return filled([_head(overview), *(part for each in chosen for part in each)])


def region_page(overview: RegionOverview, top: int) -> list[Section]:
    """One region: its verdict, and what a call launches."""
    line = overview.line
    head = Section(overview.name, labelled=[(line.label, line.text)])
    parts = [_op_tree(overview.cpu), *(_sequence(entry, top) for entry in overview.sequences)]
    return [head, *filled(parts)]


def _head(overview: Overview) -> Section:
    """Every page begins with the trace and its verdict."""
    look = overview.look
    full = stem(look.trace.path)
    name = _SHORT.get(full) or shorten(full, NAME) or look.trace.path
    title = f"{name} · {shorten(headline(look), HEADLINE)}"
    labelled = [(line.label, line.text) for line in overview.lines]
    return Section(title, labelled=labelled)


def _sequence(entry: LaunchSequence, top: int) -> Section:
    """One call of a region, operation by operation; a long one is folded by kind."""
    columns: dict[str, Column] = {
        "kernel": kernel_times,
        "op": lambda row: op_path(row.chain),
        "host": "host_ns",
        "delay": "delay_ns",
        "time": lambda row: time_text(row.ns),
        "TFLOP/s": lambda row: _bounded(_tflops(row.tflops), row.certainty),
        "TB/s": lambda row: _bounded(_tbps(row.gbps), row.certainty),
        "bound": lambda row: row.bound,
    }
    left_out = max(len(entry.rows) - top, 0) + entry.left_out
    after = f"… and {left_out} more kinds (--top {len(entry.rows)})" if left_out else ""
    same, every = entry.same, entry.calls
    calls = plural(every, "call") if same == every else f"{same} of {every} calls"
    how = "by kind, in order of first launch" if entry.folded else "in launch order"
    what = f"{shorten(entry.region, NAME)}: {plural(entry.operations, 'GPU operation')}"
    title = f"{what} {how}, {'' if same == 1 else 'medians of '}{calls}"
    return listing(title, entry.rows[:top], columns, left=(0, 1), after=after)


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


def _totals(look: Look) -> Section:
    totals, busy, span = look.totals, look.totals.gpu_busy_ns, look.totals.gpu_span_ns
    if look.cpu:
        return Section("Totals", [plural(totals.cpu_ops, "host op")])
    launched = [(totals.kernels, "kernel"), (totals.memcpys, "memcpy"), (totals.memsets, "memset")]
    counts = [plural(count, name) for count, name in launched]
    counts.append(plural(totals.launches, "launch", "launches"))
    counts += [plural(totals.syncs, "sync"), plural(totals.cpu_ops, "host op")]
    share = ""
    if busy is not None and span:
        window = f"{time_text(span)} from the first to the last GPU operation"
        share = f", {percent_text(busy / span)} of the {window}"
    return Section("Totals", [f"{', '.join(counts)}; GPU busy {time_text(busy)}{share}"])


def _steps(look: Look) -> Section:
    columns: dict[str, Column] = {
        "step": "name", "host": "cpu_ns", "kernels": "kernels", "memcpys": "memcpys",
        "memsets": "memsets", "recorded": "recorded_ns", "gpu busy": "gpu_busy_ns",
        "gpu idle": lambda row: time_text(  # what GPU work leaves of the recorded step
            None if None in (row.recorded_ns, row.gpu_busy_ns)
            else max(row.recorded_ns - row.gpu_busy_ns, 0)
        ), "bound": "bound",
    }  # fmt: skip
    if look.cpu:
        columns = {"step": "name", "host": "cpu_ns", "ops": "ops", "inside ops": "ops_ns"}
    return listing("Steps", look.steps, columns, top=ROWS, how=ALL)


def _regions(look: Look) -> Section:
    columns: dict[str, Column] = {
        "region": "name",
        "calls": "count",
        "host/call": lambda row: time_text(row.cpu_ns / row.count),
        "kernels/call": "kernels_per_call",
        "roles/call": lambda row: roles_text(row.roles_per_call, 3) or DASH,
        "gpu/call": lambda row: time_text(row.gpu_ns_per_call),
        "bound": "bound",
    }
    title, left = "Regions (per call: GPU time is the median, the rest are means)", [0, 4]
    if look.cpu:
        title, whole = "Regions (per call: means)", sum(row.cpu_ns for row in look.steps)
        columns, left = {name: columns[name] for name in ("region", "calls", "host/call")}, [0]
        if whole:
            columns["of the steps"] = lambda row: percent_text(row.cpu_ns / whole)
    return listing(title, look.regions, columns, top=ROWS, how=ALL, left=left)


def _kernels(look: Look, top: int) -> Section:
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

    columns: dict[str, Column] = {
        "kernel": lambda row: row.short or row.name, "op": caller, "n": "count",
        "total": "total_ns", "median": "median_ns", "rate": rate,
        "limited by": lambda row: row.limited_by.removesuffix(UNTOLD) or row.bound,
    }  # fmt: skip
    return listing("Kernels", look.kernels, columns, top=top, left=(0, 1, 6))


def _roofs(look: Look, top: int) -> list[Section]:
    """What kernels are held against, the roofline, and why some are faster than HBM."""
    if look.roofs is None:
        return []
    from foretrace.look.roofs_lines import cached_lines, roofline, roofs_text

    plot, rows = roofline(look.kernels, look.roofs)
    head = ["", "kernel", "time", "limited by"]
    return [
        Section("Roofs", [f"{look.roofs.device}: {roofs_text(look.roofs)}"], code=plot),
        Section("", head=head, rows=rows, left=(0, 1, 3)),
        Section("Faster than HBM", bullets=cached_lines(look)[:top]),
    ]


def _collectives(look: Look) -> Section:
    def bandwidth(gbps: float | None) -> str:
        return DASH if gbps is None else f"{gbps:.3g} GB/s"

    columns: dict[str, Column] = {
        "collective": "collective", "message": "message_bytes", "ranks": "group_size",
        "group": "group_name", "n": "count", "total": "total_ns", "median": "median_ns",
        "bus": lambda row: bandwidth(row.bus_gbps),
        "best": lambda row: bandwidth(row.best_bus_gbps),
    }  # fmt: skip
    rows = sorted(look.collectives, key=lambda row: -row.total_ns)
    return listing("Collectives", rows, columns, top=ROWS, how=ALL, left=(0, 3))


def _op_tree(tree: Sequence[CpuOpRow]) -> Section:
    """The ops of one call on a CPU, below the op that called them."""
    columns: dict[str, Column] = {
        "op": lambda row: (
            f"{'  ' * row.depth}{f'{row.count}x ' if row.count > 1 else ''}{row.name}"
        ),
        "total": "total_ns",
        "self": "self_ns",
        "": lambda row: row.note or row.does,
    }
    title = f"Op tree of {tree[0].name}" if tree else ""
    title += ", the call of median length" if tree and tree[0].name != WHOLE else ""
    return listing(title, tree, columns, top=TREE, how=ALL, left=(0, 3))


def _findings(overview: Overview) -> list[Section]:
    """What was found, by largest possible saving, then the rules that found nothing, and why."""
    look, worth, bullets = overview.look, overview.worth_ns, list[tuple[str, str]]()
    rows = defaultdict[str, list[FindingEntry]](list)
    for row in look.findings:
        rows[row.state].append(row)
    small = [row for row in rows["found"] if row.at_most_ns is not None and row.at_most_ns < worth]
    for row in rows["found"]:
        saving = f"{text}: " if (text := saving_text(row)) else ""
        if row not in small:
            bullets.append((f"{saving}{row.title} [{row.rule}]", row.detail))
    if small:
        words = [f"{row.rule} ({saving_text(row)})" for row in small]
        bullets.append((f"below 1% of the time: {', '.join(words)}", ""))
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
        Section(f"Findings, by largest possible saving {per}", bullets=bullets),
        Section("", [text for text in rest if text]),
    ]


def _ledger(look: Look) -> Section:
    ledger = look.ledger
    counts = {"kept": ledger.kept, "repaired": ledger.repaired, "skipped": ledger.skipped}
    parts = " + ".join(f"{count_text(count)} {what}" for what, count in counts.items())
    said = {each.cause for each in look.trust}
    notes = [note for note in ledger.notes if note.code not in said]
    bullets = [(f"{note.severity}: {note.shown}", "") for note in notes]
    return Section("Read", [f"{plural(ledger.seen, 'record')} = {parts}"], bullets=bullets)


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
) -> list[Section]:
    """One table: the places of the first trace, and at each of them what every trace launches.

    `layers` names the matmuls of the first trace in launch order.
    """
    titles, sequences = zip(*found, strict=True)
    named = list(zip(LETTERS, titles, strict=False))
    rows = sequences[0].rows
    matmuls = [place for place, row in enumerate(rows) if row.role == "gemm"]
    names = dict(zip(matmuls, layers, strict=True)) if len(matmuls) == len(layers) else {}
    labels = [f"{place + 1} {names.get(place, '')}".strip() for place in range(len(rows))]
    places = zip(labels, _places(sequences), strict=True)
    cells = [row for label, place in places for row in _cells(label, place)]
    title = f"{region}: what a call launches, in launch order, medians"
    head = ["place", "", "kernel", "op", "launch", "time"]
    table = Section(title, head=head, rows=cells, left=(0, 1, 2, 3, 4))
    return [Section("", labelled=named), table]


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


def _cells(label: str, traces: list[list[LaunchRow]]) -> Iterator[list[str]]:
    """One line for each row of each trace; place and letter stand on the first of theirs."""
    for letter, rows in zip(LETTERS, traces, strict=False):
        for row in rows:
            launch = row.chain[-1] if row.chain else ""
            shown = [kernel_times(row), op_path(row.chain), launch, time_text(row.ns)]
            yield [label, letter, *shown]
            label = letter = ""
        if not rows:
            yield [label, letter, "-", "", "", ""]
            label = ""
