"""The nn.Modules of a trace for `look --modules`: the tree with equal layers as one, and kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.overview.modules import TIMES, KindTime, ModuleNode, folded_tree, kinds
from foretrace.render.section import Section
from foretrace.schema.documents.look import Look
from foretrace.units import DASH, count_text, flops_text, percent_text, plural, time_text

ROWS = 60  # `--json` has every module
OWN = "its own ops"
NONE = "The trace has no nn.Modules: the profiler records them with with_stack=True."


def module_sections(look: Look) -> list[Section]:
    """The tree, then the kinds of modules."""
    if not look.modules:
        return [Section("Modules", [NONE])]
    nodes, again = folded_tree(look.modules), any(row.recomputed_ns for row in look.modules)
    whole = sum(node.sum("total_ns") for node in nodes)
    return [_tree(look, nodes, whole, again), _kinds(kinds(nodes), whole, again)]


def _tree(look: Look, nodes: Sequence[ModuleNode], whole: int, again: bool) -> Section:
    head = ["module", "GPU time", "share", *_passes(again), "FLOP", "MFU", "each"]
    rows = [row for node in nodes for row in _rows(node, 0, whole, again)]
    steps = f", {plural(len(look.steps), 'step')}" if look.steps else ""
    left_out = len(rows) - ROWS
    after = f"… and {count_text(left_out)} more (--json has all)" if left_out > 0 else ""
    return Section(
        f"Modules: GPU time of the recording{steps}", head=head, rows=rows[:ROWS], after=after
    )


def _passes(again: bool) -> list[str]:
    return ["forward", "backward", *(["recomputed"] if again else [])]


def _rows(node: ModuleNode, depth: int, whole: int, again: bool) -> Iterator[list[str]]:
    equal, name = len(node.rows), node.row.name
    indent = "  " * depth
    shown = f"{node.row.kind} x{equal}" if equal > 1 else name
    times = [node.sum(each) for each in TIMES]
    mfu = "" if node.mfu is None else percent_text(node.mfu)
    cells = _cells(times, whole, again) if node.row.kind else _whole(times, whole, again)
    yield [f"{indent}{shown}", *cells, _flops(node.sum("flops")), mfu, _each(node)]
    for child in node.children:
        yield from _rows(child, depth + 1, whole, again)
    if node.children and node.own("total_ns"):
        own = _cells([node.own(each) for each in TIMES], whole, again)
        yield [f"{indent}  {OWN}", *own, _flops(node.own("flops")), "", ""]


def _flops(count: int) -> str:
    return flops_text(count) if count else ""


def _cells(times: Sequence[int], whole: int, again: bool) -> list[str]:
    total, *passes = times
    parts = passes if again else passes[:2]
    return [time_text(total), _share(total, whole), *(time_text(ns) if ns else "" for ns in parts)]


def _whole(times: Sequence[int], whole: int, again: bool) -> list[str]:
    """What no module owns has no passes to tell apart."""
    return [*_cells(times, whole, again)[:2], *([""] * len(_passes(again)))]


def _share(ns: int, whole: int) -> str:
    return percent_text(ns / whole) if whole else DASH


def _each(node: ModuleNode) -> str:
    """How far equal modules differ."""
    if len(node.rows) < 2:
        return ""
    times = [row.total_ns for row in node.rows]
    low, high = time_text(min(times)), time_text(max(times))
    return low if low == high else f"{low} to {high}"


def _kinds(found: Sequence[KindTime], whole: int, again: bool) -> Section:
    head = ["kind", "modules", "GPU time", "share", *_passes(again)]
    rows = [
        [
            row.kind,
            count_text(row.modules),
            *_cells([getattr(row, each) for each in TIMES], whole, again),
        ]
        for row in found[:ROWS]
    ]
    after = "The time of a kind is that of its own ops, without the modules that it calls."
    return Section("Kinds of modules", head=head, rows=rows, after=after)
