"""The kernels of a comparison, each of a typical repeat once: same, changed, removed, added."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from foretrace.comparison.align import Alignment, Pair, align, pair_by_place
from foretrace.comparison.fusion import Fusion, fuse
from foretrace.comparison.launched import Kernel
from foretrace.comparison.measure import Change, Sample, measured
from foretrace.schema.documents.compare import LaunchConfig


class KernelPair(Struct, frozen=True):
    """One kernel of A and its partner in B; `why` names what differs, or the fusion it is in."""

    count: int
    a: Kernel | None
    b: Kernel | None
    why: tuple[str, ...] = ()

    @property
    def kernel(self) -> Kernel:
        """The kernel of A, else of B."""
        found = self.a or self.b
        assert found is not None
        return found

    @property
    def ns(self) -> Change:
        """The median time of one launch."""
        return measured(*(kernel.ns if kernel else Sample() for kernel in (self.a, self.b)))

    @property
    def total_ns(self) -> float:
        """The time of all launches per unit, in A or in B, whichever is larger."""
        return max(self.ns.a or 0, self.ns.b or 0) * self.count

    @property
    def saved_ns(self) -> float:
        """What this row takes less in B, per unit; a removed or added kernel counts in full."""
        return ((self.ns.a or 0) - (self.ns.b or 0)) * self.count


class KernelTable(Struct, frozen=True):
    """Rows in launch order. `fusions` are those of B; `undone` are fusions that only A has."""

    same: tuple[KernelPair, ...]
    changed: tuple[KernelPair, ...]
    removed: tuple[KernelPair, ...]
    added: tuple[KernelPair, ...]
    fusions: tuple[Fusion, ...]
    undone: tuple[Fusion, ...]


def compare_kernels(a: Sequence[Kernel], b: Sequence[Kernel]) -> KernelTable:
    """Align the kernels of two typical repeats."""
    found = align(a, b)
    forward, backward = fuse(found), fuse(found.mirrored())
    gone, new = {*forward.absorbed, *backward.absorbing}, {*backward.absorbed, *forward.absorbing}
    left_a = [i for i in found.left_a if i not in gone]
    left_b = [j for j in found.left_b if j not in new]
    plain = Alignment(a, b, found.same, found.changed, left_a, left_b)
    renewed = sorted({*forward.renewed, *((i, j) for j, i in backward.renewed)})
    in_a, in_b = Counter(i for i, _ in renewed), Counter(j for _, j in renewed)
    undisputed = [(i, j) for i, j in renewed if in_a[i] == in_b[j] == 1]
    plain.take([(i, j) for i, j in undisputed if i not in gone and j not in new], plain.changed)
    pair_by_place(plain)
    why_gone = dict.fromkeys(backward.absorbing, "fused several kernels")
    why_gone |= {i: f"fused into {b[j].short}" for i, j in forward.absorbed.items()}
    why_new = dict.fromkeys(forward.absorbing, "fuses several kernels")
    why_new |= {j: f"was fused in {a[i].short}" for j, i in backward.absorbed.items()}
    return KernelTable(
        _pairs(plain, plain.same),
        _pairs(plain, plain.changed),
        tuple(
            KernelPair(len(at), a[at[0]], None, why)
            for at, why in _single(a, {*plain.left_a, *gone}, why_gone)
        ),
        tuple(
            KernelPair(len(at), None, b[at[0]], why)
            for at, why in _single(b, {*plain.left_b, *new}, why_new)
        ),
        forward.fusions,
        backward.fusions,
    )


def _pairs(found: Alignment, pairs: list[Pair]) -> tuple[KernelPair, ...]:
    """One row for each pair of kinds."""
    groups: defaultdict[object, list[tuple[Kernel, Kernel]]] = defaultdict(list)
    for i, j in sorted(pairs):
        a, b = found.a[i], found.b[j]
        groups[a.kind, b.kind].append((a, b))
    return tuple(
        KernelPair(len(members), *members[0], tuple(_differences(*members[0])))
        for members in groups.values()
    )


def _differences(a: Kernel, b: Kernel) -> list[str]:
    """What differs, in words; empty for the same kernel."""
    found = ["another kernel"] if a.name != b.name else []
    for part in LaunchConfig.__struct_fields__:
        old, new = getattr(a.config, part), getattr(b.config, part)
        if old != new:
            found.append(f"{part.replace('_', ' ')} {_known(old)} to {_known(new)}")
    if a.shapes is not None and b.shapes is not None and a.shapes != b.shapes:
        found.append("other shapes")
    if found and a.op != b.op:
        found.append(f"op {_known(a.op)} to {_known(b.op)}")
    return found


def _known(value: object) -> str:
    return "not recorded" if value is None else str(value)


def _single(
    kernels: Sequence[Kernel], left: set[int], why: Mapping[int, str]
) -> list[tuple[list[int], tuple[str, ...]]]:
    """Places without a partner by kind of kernel and reason, and the reason."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for at in sorted(left):
        groups[kernels[at].kind, why.get(at)].append(at)
    return [(at, (why[at[0]],) if at[0] in why else ()) for at in groups.values()]
