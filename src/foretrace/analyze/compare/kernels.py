"""The GPU work of a comparison, each operation of a typical repeat once: same, changed, removed,
added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

from msgspec import Struct

from foretrace.analyze.compare.align import Alignment, Pair, align, pair_by_place
from foretrace.analyze.compare.fusion import Fusion, fusion_of, spent, summed
from foretrace.analyze.compare.launched import Kernel
from foretrace.analyze.compare.measure import Change, Sample, measured
from foretrace.analyze.compare.replaced import Replacement, by_group, replacements, unlike_groups
from foretrace.names import families
from foretrace.schema.documents.compare import LaunchConfig


class KernelPair(Struct, frozen=True):
    """One kernel of A and its partner in B; `why` names what differs, or the fusion it is in.

    `spent_a` and `spent_b` are the times of all its launches in the typical repeats, and `pairs`
    those launches where both sides have it.
    """

    count: int
    a: Kernel | None
    b: Kernel | None
    why: tuple[str, ...] = ()
    spent_a: int | None = 0
    spent_b: int | None = 0
    pairs: tuple[tuple[Kernel, Kernel], ...] = ()

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
        return max(self.spent_a or 0, self.spent_b or 0)

    @property
    def saved_ns(self) -> float:
        """What this row takes less in B, per unit; a removed or added kernel counts in full."""
        return (self.spent_a or 0) - (self.spent_b or 0)


class WorkPart(Struct, frozen=True):
    """Work of A, and the work of B that stands in its place. `fusion` is that of B, `undone` one
    that only A has.
    """

    a: tuple[Kernel, ...]
    b: tuple[Kernel, ...]
    fusion: Fusion | None
    undone: Fusion | None


class KernelTable(Struct, frozen=True):
    """Rows in launch order, memcpys and memsets included; `parts` divides all that is not the same.

    `fusions` are those of B; `undone` are fusions that only A has.
    """

    same: tuple[KernelPair, ...]
    changed: tuple[KernelPair, ...]
    removed: tuple[KernelPair, ...]
    added: tuple[KernelPair, ...]
    fusions: tuple[Fusion, ...]
    undone: tuple[Fusion, ...]
    parts: tuple[WorkPart, ...]


def compare_kernels(a: Sequence[Kernel], b: Sequence[Kernel]) -> KernelTable:
    """Align the GPU work of two typical repeats."""
    found = align(a, b)
    unlike = unlike_groups(found)
    replaced = [part for each in replacements(found) for part in _divided(found, each, unlike)]
    parts = tuple(_part(found, each) for each in replaced)
    why_gone, why_new = dict[int, str](), dict[int, str]()
    for part, at in zip(parts, replaced, strict=True):
        if part.fusion is not None:
            why_gone |= dict.fromkeys(at.a, f"fused into {part.fusion.short}")
            why_new |= dict.fromkeys(at.b, "fuses several kernels")
        if part.undone is not None:
            why_gone |= dict.fromkeys(at.a, "fused several kernels")
            why_new |= dict.fromkeys(at.b, f"was fused in {part.undone.short}")
    loose_a = [i for i in found.left_a if i not in why_gone]
    loose_b = [j for j in found.left_b if j not in why_new]
    plain = Alignment(a, b, found.same, found.changed, loose_a, loose_b)
    pair_by_place(plain)
    gone = sorted({*found.left_a} - {i for i, _ in plain.changed})
    new = sorted({*found.left_b} - {j for _, j in plain.changed})
    return KernelTable(
        _pairs(plain, plain.same),
        _pairs(plain, plain.changed),
        tuple(
            KernelPair(len(at), at[0], None, why, spent_a=spent(at))
            for at, why in _single(a, gone, why_gone)
        ),
        tuple(
            KernelPair(len(at), None, at[0], why, spent_b=spent(at))
            for at, why in _single(b, new, why_new)
        ),
        summed([part.fusion for part in parts if part.fusion is not None]),
        summed([part.undone for part in parts if part.undone is not None]),
        parts,
    )


def _divided(found: Alignment, at: Replacement, unlike: Container[str]) -> list[Replacement]:
    """By group, unless one side fused the other's work: a fused kernel has one group for all."""
    part = _part(found, at)
    divisible = at.sign == "place" and part.fusion is None and part.undone is None
    return by_group(at, found, unlike) if divisible else [at]


def _part(found: Alignment, at: Replacement) -> WorkPart:
    a, b = tuple(found.a[i] for i in at.a), tuple(found.b[j] for j in at.b)
    return WorkPart(a, b, fusion_of(a, b, at.sign), fusion_of(b, a, at.sign))


def _pairs(found: Alignment, pairs: list[Pair]) -> tuple[KernelPair, ...]:
    """One row for each pair of kinds and what they work for."""
    groups: defaultdict[object, list[tuple[Kernel, Kernel]]] = defaultdict(list)
    for i, j in sorted(pairs):
        a, b = found.a[i], found.b[j]
        groups[a.kind, b.kind, a.group, b.group].append((a, b))
    return tuple(
        KernelPair(
            len(members),
            *members[0],
            tuple(differences(*members[0])),
            spent([a for a, _ in members]),
            spent([b for _, b in members]),
            tuple(members),
        )
        for members in groups.values()
    )


def differences(a: Kernel, b: Kernel) -> list[str]:
    """What differs, in words; empty for the same kernel."""
    found = ["another kernel"] if a.name != b.name else []
    if a.name != b.name and a.short == b.short:
        found += _fields(a.name, b.name)
    for part in LaunchConfig.__struct_fields__:
        old, new = getattr(a.config, part), getattr(b.config, part)
        if old != new:
            found.append(f"{part.replace('_', ' ')} {_known(old)} to {_known(new)}")
    if a.shapes is not None and b.shapes is not None and a.shapes != b.shapes:
        found.append("other shapes" if a.is_kernel else "other size")
    if found and a.op != b.op:
        found.append(f"op {_known(a.op)} to {_known(b.op)}")
    return found


def _fields(a: str, b: str) -> list[str]:
    """What differs between two names that have one short form."""
    found = families.changed(families.decode(a), families.decode(b))
    return [f"{each.field} {_stated(each.before)} to {_stated(each.after)}" for each in found]


def _stated(value: object) -> str:
    return families.value_text(value) or "not stated"


def _known(value: object) -> str:
    return "not recorded" if value is None else str(value)


def _single(
    kernels: Sequence[Kernel], left: Sequence[int], why: Mapping[int, str]
) -> list[tuple[list[Kernel], tuple[str, ...]]]:
    """Kernels without a partner by kind and reason, and the reason."""
    groups: defaultdict[tuple[object, tuple[str, ...]], list[Kernel]] = defaultdict(list)
    for at in left:
        groups[kernels[at].kind, (why[at],) if at in why else ()].append(kernels[at])
    return [(members, reason) for (_, reason), members in groups.items()]
