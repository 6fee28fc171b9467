"""The kernels of a comparison as a table: same, changed, removed, added. Every kernel of a typical
repeat is in one row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretrace.comparison.align import Alignment, Pair, align, pair_by_place
from foretrace.comparison.fusion import Fusion, fuse
from foretrace.comparison.launched import Kernel
from foretrace.comparison.measure import Measured, measured
from foretrace.model.arguments import json_text


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel of A and what it is in B, None where it has no partner. `count` is per unit; `why`
    says what differs, or which fusion it is part of.
    """

    count: int
    a: Kernel | None
    b: Kernel | None
    why: tuple[str, ...] = ()

    @property
    def kernel(self) -> Kernel:
        found = self.a or self.b
        assert found is not None
        return found

    @property
    def ns(self) -> Measured:
        """The median time of one launch."""
        if self.a is not None and self.b is not None:
            return measured(self.a.ns, self.b.ns)
        return Measured(
            self.a.ns.median if self.a else None, self.b.ns.median if self.b else None, None
        )

    @property
    def saved_ns(self) -> float:
        """What this row takes less in B, per unit; a kernel that is gone or new counts in full."""
        return ((self.ns.a or 0) - (self.ns.b or 0)) * self.count


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Rows in launch order. `fusions` are those of B; `undone` are fusions of A that B has not."""

    same: tuple[KernelRow, ...]
    changed: tuple[KernelRow, ...]
    removed: tuple[KernelRow, ...]
    added: tuple[KernelRow, ...]
    fusions: tuple[Fusion, ...]
    undone: tuple[Fusion, ...]


def compare_kernels(a: Sequence[Kernel], b: Sequence[Kernel]) -> KernelTable:
    """Align the kernels of two typical repeats."""
    found = align(a, b)
    forward, backward = fuse(found), fuse(found.mirrored())
    gone, new = {*forward.absorbed, *backward.absorbing}, {*backward.absorbed, *forward.absorbing}
    plain = Alignment(
        a,
        b,
        found.same,
        found.changed,
        [i for i in found.left_a if i not in gone],
        [j for j in found.left_b if j not in new],
    )
    renewed = _undisputed({*forward.renewed, *((i, j) for j, i in backward.renewed)})
    plain.take([(i, j) for i, j in renewed if i not in gone and j not in new], plain.changed)
    pair_by_place(plain)
    fused_into = {i: f"fused into {b[j].short}" for i, j in forward.absorbed.items()}
    was_in = {j: f"was fused in {a[i].short}" for j, i in backward.absorbed.items()}
    return KernelTable(
        _rows(plain, plain.same),
        _rows(plain, plain.changed),
        _lone(
            a,
            {*plain.left_a, *gone},
            dict.fromkeys(backward.absorbing, "did the work of several") | fused_into,
            in_a=True,
        ),
        _lone(
            b,
            {*plain.left_b, *new},
            dict.fromkeys(forward.absorbing, "does the work of several") | was_in,
            in_a=False,
        ),
        forward.fusions,
        backward.fusions,
    )


def _undisputed(pairs: set[Pair]) -> list[Pair]:
    """Pairs whose members no other pair claims."""
    a, b = Counter(i for i, _ in pairs), Counter(j for _, j in pairs)
    return sorted((i, j) for i, j in pairs if a[i] == b[j] == 1)


def _rows(found: Alignment, pairs: list[Pair]) -> tuple[KernelRow, ...]:
    groups: defaultdict[object, list[Pair]] = defaultdict(list)
    for i, j in sorted(pairs):
        groups[found.a[i].kind, found.b[j].kind].append((i, j))
    return tuple(
        _row(found.a[members[0][0]], found.b[members[0][1]], len(members))
        for members in groups.values()
    )


def _row(a: Kernel, b: Kernel, count: int) -> KernelRow:
    return KernelRow(count, a, b, tuple(_differences(a, b)))


def _differences(a: Kernel, b: Kernel) -> list[str]:
    """What differs, in words; empty for the same kernel."""
    found = ["another kernel"] if a.name != b.name else []
    for name in ("grid", "block", "registers", "shared_memory"):
        old, new = getattr(a.config, name), getattr(b.config, name)
        if old != new:
            found.append(f"{name.replace('_', ' ')} {_shown(old)} to {_shown(new)}")
    if a.shapes is not None and b.shapes is not None and a.shapes != b.shapes:
        found.append("other shapes")
    if found and a.op != b.op:
        found.append(f"op {_shown(a.op)} to {_shown(b.op)}")
    return found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return json_text(value)
    return "not recorded" if value is None else str(value)


def _lone(
    kernels: Sequence[Kernel], left: set[int], why: Mapping[int, str], *, in_a: bool
) -> tuple[KernelRow, ...]:
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for at in sorted(left):
        groups[kernels[at].kind, why.get(at)].append(at)
    rows = []
    for members in groups.values():
        first, reason = kernels[members[0]], why.get(members[0])
        rows.append(
            KernelRow(
                len(members),
                first if in_a else None,
                None if in_a else first,
                (reason,) if reason else (),
            )
        )
    return tuple(rows)
