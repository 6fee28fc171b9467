"""The nn.Modules of a trace for `look --modules`: the tree with equal layers as one, and kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    flops_text,
    percent_text,
    plural,
    time_text,
)
from foretrace.schema.documents.look import Look
from foretrace.show.overview.modules import PASSES, KindTime, ModuleNode, folded_tree, kinds
from foretrace.show.render.section import Section

ROWS = 60  # `--json` has every module
OWN = "its own ops"
NONE = "The trace has no nn.Modules: the profiler records them with with_stack=True."
IDLE = "No GPU work with a time was recorded."


def module_sections(look: Look) -> list[Section]:
    """The tree, then the kinds of modules."""
    if not look.modules:
        return [Section("Modules", [NONE])]
    nodes = folded_tree(look.modules)
    if not any(node.sum("total_ns") for node in nodes):
        return [Section("Modules", [IDLE])]
    passes = [
        name for name in PASSES if any(getattr(row, name) for row in look.modules if row.kind)
    ]
    page = _Page(sum(node.sum("total_ns") for node in nodes), passes, look)
    return [page.tree(nodes), page.kinds(kinds(nodes))]


class _Page(Struct, frozen=True):
    """`whole` is all GPU time; `passes` are those with any time, which have a column."""

    whole: int
    passes: list[str]
    look: Look

    @property
    def has_memory(self) -> bool:
        """Whether the profiler recorded memory."""
        return any(row.memory_bytes is not None for row in self.look.modules)

    def tree(self, nodes: Sequence[ModuleNode]) -> Section:
        """The modules, equal ones as one row."""
        memory = ["keeps"] if self.has_memory else []
        head = ["module", *self._head(), "FLOP", "MFU", *memory, "each"]
        rows = [row for node in nodes for row in self._rows(node, "")]
        steps = f", {plural(len(self.look.steps), 'step')}" if self.look.steps else ""
        left_out = len(rows) - ROWS
        after = f"… and {count_text(left_out)} more (--json has all)" if left_out > 0 else ""
        title = f"Modules: GPU time of the recording{steps}"
        return Section(title, head=head, rows=rows[:ROWS], after=after)

    def kinds(self, found: Sequence[KindTime]) -> Section:
        """The classes of modules."""
        rows = [
            [row.kind, count_text(row.modules), *self._cells(row.total_ns, partial(getattr, row))]
            for row in found[:ROWS]
        ]
        after = "The time of a kind is that of its own ops, without the modules that it calls."
        head = ["kind", "modules", *self._head()]
        return Section("Kinds of modules", head=head, rows=rows, after=after)

    def _head(self) -> list[str]:
        return ["GPU time", "share", *(name.removesuffix("_ns") for name in self.passes)]

    def _rows(self, node: ModuleNode, indent: str) -> Iterator[list[str]]:
        equal, row = len(node.rows), node.row
        shown = f"{row.kind} x{equal}" if equal > 1 else row.name
        cells = self._cells(node.sum("total_ns"), node.sum if row.kind else _nothing)
        mfu = "" if node.mfu is None else percent_text(node.mfu)
        cells += [_flops(node.sum("flops")), mfu]
        yield [f"{indent}{shown}", *cells, *self._memory(node), _each(node)]
        for child in node.children:
            if child.sum("total_ns"):
                yield from self._rows(child, f"{indent}  ")
        if node.children and node.own("total_ns"):
            own = self._cells(node.own("total_ns"), node.own)
            rest = [""] * (2 + self.has_memory)
            yield [f"{indent}  {OWN}", *own, _flops(node.own("flops")), *rest]

    def _cells(self, total: int, of_pass: Callable[[str], int]) -> list[str]:
        times = [of_pass(name) for name in self.passes]
        share = percent_text(total / self.whole) if self.whole else DASH
        return [time_text(total), share, *(time_text(ns) if ns else "" for ns in times)]

    def _memory(self, node: ModuleNode) -> list[str]:
        kept = node.sum("memory_bytes")
        return [bytes_text(kept) if kept else ""] if self.has_memory else []


def _nothing(_name: str) -> int:
    """What no module owns has no passes to tell apart."""
    return 0


def _flops(count: int) -> str:
    return flops_text(count) if count else ""


def _each(node: ModuleNode) -> str:
    """How far equal modules differ."""
    if len(node.rows) < 2:
        return ""
    times = [row.total_ns for row in node.rows]
    low, high = time_text(min(times)), time_text(max(times))
    if low.split()[1:] == high.split()[1:]:
        low = low.split()[0] if low != high else low
    return low if low == high else f"{low} to {high}"
