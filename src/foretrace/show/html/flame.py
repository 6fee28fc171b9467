"""The flame graphs of a trace: what the page draws them from.

A graph is a tree of boxes. A box has its own time by pass, and the page adds up what is inside it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.flame_views import RAN, FlameViews, Stacked
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.show.html.packing import Packed, pack
from foretrace.show.render.safe import plain

MOST = 5_000  # stacks; a page cannot show more, and the least are left out
KINDS = ("module", "range", "pass", "op", "call", "kernel")
TREES = (("gpu", "module"), ("gpu", "op"), ("host", "module"), ("host", "op"))


class FlameTree(Struct, frozen=True):
    """Boxes in columns: `above` (-1 for the outermost), `name`, `kind`, and own ns by pass.

    `left_out_ns` is the time of stacks that have no room.
    """

    time: str
    by: str
    boxes: Packed
    left_out_ns: int


class Flame(Struct, frozen=True):
    """All flame graphs. `work` has each GPU operation: its box by module and by op, and its kernel
    by case, or -1.
    """

    names: list[str]
    trees: list[FlameTree]
    work: Packed
    has_modules: bool
    kinds: tuple[str, ...] = KINDS
    passes: tuple[str, ...] = RAN


def flame(trace: Trace) -> Flame:
    """The flame graphs of a trace."""
    views = FlameViews(trace)
    names: dict[str, int] = {}
    case = np.full(len(trace.gpu), -1, np.int64)
    case[trace.order.row] = trace.order.case
    trees, of_work = [], {"event": trace.gpu.id, "case": case}
    for time, by in TREES:
        tree = _Tree(views.of(time, by), names)
        trees.append(FlameTree(time, by, tree.packed(), tree.left_out_ns))
        if time == "gpu":
            of_work[by] = tree.box
    work = pack(of_work, frozenset({"event"}))
    return Flame(list(names), trees, work, views.stacks.has_modules)


class _Tree:
    """The boxes of the longest stacks; `box` is the innermost one of each row, or -1."""

    def __init__(self, stacked: Stacked, names: dict[str, int]) -> None:
        self.names = names
        self._numbers: dict[tuple[int, int, int], int] = {}
        number, first, where = np.unique(stacked.number, return_index=True, return_inverse=True)
        ns = np.zeros((len(number), len(RAN)), np.int64)
        np.add.at(ns, (where, stacked.ran), stacked.ns)
        total = ns.sum(axis=1)
        longest = np.argsort(-total, kind="stable")[:MOST]
        kept = longest[total[longest] > 0]
        kept = kept[np.argsort(first[kept])]  # in order of first launch
        inner = np.full(len(number), -1, np.int64)
        for at in kept.tolist():
            inner[at] = self._boxes(stacked.frames(int(first[at])))
        self.box: Ints = inner[where]
        self.own = np.zeros((len(self._numbers), len(RAN)), np.int64)
        np.add.at(self.own, inner[kept], ns[kept])
        self.left_out_ns = int(total.sum() - ns[kept].sum())

    def _boxes(self, frames: tuple[tuple[str, str], ...]) -> int:
        """The innermost box of a stack."""
        box = -1
        for kind, name in frames:
            named = self.names.setdefault(plain(name), len(self.names))
            key = box, KINDS.index(kind), named
            box = self._numbers.setdefault(key, len(self._numbers))
        return box

    def packed(self) -> Packed:
        """Columns of the boxes; one that is inside another comes after it."""
        above, kind, name = np.array([*self._numbers], np.int64).reshape(-1, 3).T
        columns = {"above": above, "kind": kind, "name": name}
        return pack({**columns, **{ran: self.own[:, at] for at, ran in enumerate(RAN)}})
