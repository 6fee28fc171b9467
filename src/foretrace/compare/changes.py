"""What changed on the GPU, one row a change: `RMSNorm x 25: 8 kernels to 1, 545 to 162 us`.

Rows divide the GPU work of both typical repeats: every kernel, memcpy and memset of A and of B is
in one row, so counts and times add up to the whole of each side. A time is the sum of the medians
of its operations, so it leaves out that some may overlap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from foretrace.base.units import change_text, count_text, plural, sum_of_all, time_text
from foretrace.compare.documents import WorkRow
from foretrace.compare.fusion import (
    Fusion,
    KernelPair,
    KernelTable,
    WorkPart,
    differences,
    group_times,
    spent,
)
from foretrace.compare.sides import Kernel
from foretrace.work import LIBRARIES

COPY = "memcpy/memset"
OTHER = ("another kernel", "other kernels")
FUSED = {"epilogue": "in the epilogue of the GEMM", "merged": "in one GEMM"}
MINOR = 0.05  # of the time of a change: groups below it are not part of its name
SHOWN = 0.01  # of a time: three digits are shown, so less is not missed


class WorkChange(WorkRow, frozen=True):
    """A row with the work itself: `places` has a part for each of its `times`."""

    places: tuple[WorkPart, ...] = ()

    @property
    def saved_ns(self) -> int:
        """GPU time of A less that of B; unknown times count as nothing."""
        return (self.ns_a or 0) - (self.ns_b or 0)

    @property
    def text(self) -> str:
        """`RMSNorm x 25: 8 kernels to 1, 545 to 162 us (fused by Inductor)`."""
        name = f"{self.group} x {count_text(self.times)}" if self.times > 1 else self.group
        in_all = "" if self.even else " in all"
        how = f" ({self.how})" if self.how else ""
        same = time_text(self.ns_a) == time_text(self.ns_b)
        times = time_text(self.ns_a) if same else change_text(self.ns_a, self.ns_b)
        return f"{name}: {self.counts}{in_all}, {times}{how}"

    @property
    def kernels(self) -> tuple[int, int]:
        """Kernels in A and in B: of one place where all have as many, else of all."""
        return self._each(self.a - self.copies_a, self.b - self.copies_b)

    @property
    def copies(self) -> tuple[int, int]:
        """The same for memcpys and memsets."""
        return self._each(self.copies_a, self.copies_b)

    def _each(self, a: int, b: int) -> tuple[int, int]:
        return (a // self.times, b // self.times) if self.even else (a, b)

    @property
    def counts(self) -> str:
        """`8 kernels to 1`; memcpys and memsets follow."""
        counted = ((self.kernels, "kernel", "kernels"), (self.copies, COPY, COPY))
        return ", ".join(
            plural(a, *what) + ("" if a == b else f" to {count_text(b)}")
            for (a, b), *what in counted
            if a or b
        )


def work_changes(table: KernelTable, gpu_ns: float) -> tuple[WorkChange, ...]:
    """Every row, the largest change first, what is the same last."""
    by_label: defaultdict[str, list[WorkPart]] = defaultdict(list)
    for part in table.parts:  # one row for all places with one kind of work
        by_label[_label(part)].append(part)
    rows = [_row(label, members) for label, members in by_label.items()]
    # By group; a kernel whose time moved has a row of its own.
    by_group: defaultdict[tuple[str, str], list[KernelPair]] = defaultdict(list)
    for row in table.same:
        moved = row.ns.beyond and abs(row.saved_ns) >= SHOWN * gpu_ns
        # where one side found its input in L2 and the other did not
        sides = [name for name, each in (("A", row.a), ("B", row.b)) if each and each.bound == "l2"]
        cached = f", from L2 in {sides[0]} alone" if len(sides) == 1 else ""
        pace = ("faster" if row.saved_ns > 0 else "slower") + cached if moved else ""
        group = min(each.group for each in (row.a, row.b) if each)  # reads the same from both ends
        by_group[group, f"same kernel, {pace}" if pace else ""].append(row)
    for (group, how), pairs in by_group.items():
        count, fate = sum(row.count for row in pairs), "changed" if how else "same"
        a, b = (sum_of_all(getattr(row, name) for row in pairs) for name in ("spent_a", "spent_b"))
        copies = sum(row.count for row in pairs if not row.kernel.is_kernel)
        parts = tuple(WorkPart((i,), (j,), None, None) for row in pairs for i, j in row.pairs)
        rows.append(
            WorkChange(group, fate, how, 1, True, count, count, copies, copies, a, b, parts)
        )
    return tuple(sorted(rows, key=lambda row: (row.fate == "same", -abs(row.saved_ns), row.group)))


def _row(label: str, parts: Sequence[WorkPart]) -> WorkChange:
    a = tuple(each for part in parts for each in part.a)
    b = tuple(each for part in parts for each in part.b)
    names, fates = _names(a, b), {_fate(part) for part in parts}
    group = ", ".join(names) if names[0] == label else label
    fate = fates.pop() if len(fates) == 1 else "replaced"
    old, new = (sum(not each.is_kernel for each in side) for side in (a, b))
    sizes = {
        tuple((sum(each.is_kernel for each in side), len(side)) for side in (part.a, part.b))
        for part in parts
    }
    even = len(sizes) == 1
    counts = (len(parts), even, len(a), len(b), old, new)
    return WorkChange(group, fate, _how(parts), *counts, spent(a), spent(b), tuple(parts))


def _how(parts: Sequence[WorkPart]) -> str:
    """What differs: in full where all places agree, else the kinds of change."""
    kinds, fates = sorted({_kind(part) for part in parts}), {_fate(part) for part in parts}
    if len(kinds) > 1:
        found = [f"in part {kind}" for kind in kinds if "fused" in kind or kind in FUSED.values()]
        found += ["other kernels"] if any(kind in OTHER for kind in kinds) else []
        return ", ".join(
            [*found, *(f"some {fate}" for fate in ("removed", "added") if fate in fates)]
        )
    details = {_detail(part) for part in parts}
    several = "launched differently" if kinds == ["same kernel"] else ""
    return ", ".join(filter(None, (*kinds, details.pop() if len(details) == 1 else several)))


def _label(part: WorkPart) -> str:
    """What the work is mostly called; both names where other work took a place."""
    old, new = _groups(part.a), _groups(part.b)
    if part.fusion or part.undone or not old or not new or old[0] == new[0]:
        return _names(part.a, part.b)[0]
    return f"{old[0]} to {new[0]}"


def _names(a: Sequence[Kernel], b: Sequence[Kernel]) -> list[str]:
    """By the side with more kernels, or more time: the other holds several names in one kernel."""
    weights = [
        (sum(each.is_kernel for each in work), spent(work) or 0, len(work)) for work in (a, b)
    ]
    return _groups(a if weights[0] >= weights[1] else b)


def _groups(work: Sequence[Kernel]) -> list[str]:
    """The groups of some work, the longest first; small ones are an ellipsis."""
    times = group_times(work)
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    names = [name for name, ns in ranked if ns >= MINOR * times.total()][:3]  # that name one change
    left_out = times.total() - sum(times[name] for name in names)
    return [*names, "…"] if left_out > SHOWN * times.total() else names


def _fate(part: WorkPart) -> str:
    if not part.a or not part.b:
        return "removed" if part.a else "added"
    return "changed" if _one(part.a) and _one(part.b) else "replaced"


def _one(work: Sequence[Kernel]) -> Kernel | None:
    """The kernel, beside memcpys and memsets, or the memcpy or memset alone; None for several."""
    kernels = [each for each in work if each.is_kernel] or work
    return kernels[0] if len(kernels) == 1 else None


def _kind(part: WorkPart) -> str:
    """What the trace shows about the change, in a few words."""
    if part.fusion is not None:
        return _fused(part.fusion)
    if part.undone is not None:
        return f"no longer {_fused(part.undone)}"
    a, b = _one(part.a), _one(part.b)
    if a is None or b is None:
        return "other kernels" if part.a and part.b else ""
    return "" if not a.is_kernel else "same kernel" if a.name == b.name else "another kernel"


def _fused(fusion: Fusion) -> str:
    maker = LIBRARIES.get(fusion.backend, "")
    return FUSED.get(fusion.sign, f"fused by {maker}" if maker else "fused")


def _detail(part: WorkPart) -> str:
    """What differs between two kernels, or where the fused ops are; empty where several changed."""
    fusion = part.fusion or part.undone
    if fusion is not None and fusion.sources:
        return f"{fusion.sources[0]}{' …' if len(fusion.sources) > 1 else ''}"
    a, b = _one(part.a), _one(part.b)
    if a is None or b is None:
        return ""
    if a.short != b.short:
        return f"{a.short} to {b.short}"
    found = differences(a, b)
    return ", ".join(found[1:] if a.name != b.name else found)
