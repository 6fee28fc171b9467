"""The nn.Modules of a trace as rows, as a tree in which equal layers are one, and by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.modules import ModuleWork
from foretrace.model.trace import Trace
from foretrace.schema.documents.look import ModuleRow

PASSES = ("forward_ns", "backward_ns", "recomputed_ns")
TIMES = ("total_ns", *PASSES)


class ModuleNode(Struct):
    """Equal modules of one parent, and the modules that each of them calls, equal ones as one."""

    rows: list[ModuleRow]
    children: list[ModuleNode] = []

    @property
    def row(self) -> ModuleRow:
        """The first of them."""
        return self.rows[0]

    def sum(self, name: str) -> int:
        """The sum of a column over the equal modules."""
        return sum(getattr(row, name) or 0 for row in self.rows)

    def own(self, name: str) -> int:
        """The same without the modules that they call."""
        return self.sum(name) - sum(child.sum(name) for child in self.children)

    @property
    def mfu(self) -> float | None:
        """The share of the peak over the time of all."""
        known = [row.mfu * row.total_ns for row in self.rows if row.mfu is not None]
        total = self.sum("total_ns")
        return sum(known) / total if known and total else None

    @property
    def shape(self) -> tuple[object, ...]:
        """What equal modules have in common: the class, the calls, the FLOP, and all inside."""
        row, inside = self.row, tuple(child.shape for child in self.children)
        return row.kind or row.name, row.calls, row.flops, inside


class KindTime(Struct, frozen=True):
    """The modules of one class: the times of what they launch outside of the modules they call."""

    kind: str
    modules: int
    total_ns: int
    forward_ns: int
    backward_ns: int
    recomputed_ns: int


def module_rows(trace: Trace) -> list[ModuleRow]:
    """Every nn.Module in order of its first call, then what no module owns."""
    found = trace.modules.rows
    whole = sum(work.total_ns for work in found if not work.path)
    rows = [_row(work, whole) for work in found]
    roots = _tree(rows)
    equals: dict[tuple[str, ...], int] = {}
    for siblings in [roots, *(node.children for node in _every(roots))]:
        count = Counter(node.shape for node in siblings)
        equals |= {(*node.row.path, node.row.name): count[node.shape] for node in siblings}
    return [replace(row, folded=equals.get((*row.path, row.name), 1)) for row in rows]


def _row(work: ModuleWork, whole: int) -> ModuleRow:
    total = work.total_ns
    mfu = work.flop_ns / total if work.flop_ns is not None and total else None
    share = round(total / whole, 6) if whole else 0.0
    return ModuleRow(
        *(work.name, work.calls, work.kernels, work.gpu_ns, work.kind, list(work.path)),
        *(total, share, work.forward_ns, work.backward_ns, work.recomputed_ns),
        flops=work.flops,
        mfu=None if mfu is None else round(min(mfu, 1.0), 6),
        memory_bytes=work.memory_bytes,
    )


def folded_tree(rows: Iterable[ModuleRow]) -> list[ModuleNode]:
    """The outermost modules with all inside, and the rows of work that no module owns."""
    return _folded(_tree(rows))


def _tree(rows: Iterable[ModuleRow]) -> list[ModuleNode]:
    """The same with a node for every row: a module comes after those around it."""
    found: dict[tuple[str, ...], ModuleNode] = {}
    roots: list[ModuleNode] = []
    for row in rows:
        node = found[(*row.path, row.name)] = ModuleNode([row], [])
        around = found.get(tuple(row.path))
        if around is not None:
            around.children.append(node)
        elif not row.path:
            roots.append(node)
    return roots


def _folded(nodes: Sequence[ModuleNode]) -> list[ModuleNode]:
    """Equal siblings as one node, in order of the first of each."""
    alike: dict[tuple[object, ...], list[ModuleNode]] = {}
    for node in nodes:
        alike.setdefault(node.shape, []).append(node)
    return [
        ModuleNode([row for node in equals for row in node.rows], _folded(_joined(equals)))
        for equals in alike.values()
    ]


def _joined(same: Sequence[ModuleNode]) -> list[ModuleNode]:
    places = zip(*(node.children for node in same), strict=True)
    return [
        ModuleNode([row for node in each for row in node.rows], _joined(each)) for each in places
    ]


def _every(nodes: Sequence[ModuleNode]) -> Iterable[ModuleNode]:
    for node in nodes:
        yield node
        yield from _every(node.children)


def kinds(nodes: Sequence[ModuleNode]) -> list[KindTime]:
    """By class, the most time first; they add up to the time of all modules."""
    count: Counter[str] = Counter()
    times: dict[str, list[int]] = {}
    for node in _every(nodes):
        kind = node.row.kind
        if not kind:
            continue
        count[kind] += len(node.rows)
        own = [node.own(name) for name in TIMES]
        times[kind] = [sum(pair) for pair in zip(times.get(kind, [0] * 4), own, strict=True)]
    found = [KindTime(kind, count[kind], *own) for kind, own in times.items() if own[0]]
    return sorted(found, key=lambda row: (-row.total_ns, row.kind))
