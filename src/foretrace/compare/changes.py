"""The GPU work of a comparison, each operation once: same, changed, fused, removed or added.

Rows of kernels, and one row for each change: `RMSNorm x 25: 8 kernels to 1, 545 to 162 us`. Rows
divide the work of both typical repeats, so counts and times add up to the whole of each side.

A replacement is a fusion when fewer kernels of B do the work of several kernels of A, and the trace
shows one of the five signs of `docs/compare.md` ("Fusions").

Times and counts are those of the whole replacement: every kernel, memcpy and memset of both sides.
The time of a row is the sum of the medians of its operations, so it leaves out that some may
overlap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.units import change_text, count_text, plural, sum_of_all, time_text
from foretrace.compare.documents import ChangeEntry, FusionEntry, LaunchConfig, WorkRow
from foretrace.compare.matching import (
    COMPILED,
    TRITON,
    WHOLE_OPS,
    Alignment,
    Pair,
    Replacement,
    align,
    bare,
    by_group,
    can_hold,
    origin_ops,
    pair_by_place,
    replacements,
    unlike_groups,
)
from foretrace.compare.measure import Sample, measured
from foretrace.compare.sides import Kernel
from foretrace.work import LIBRARIES, families

# A place counts only where little else is new: at most CROWD kernels, or one for every MANY removed
# ones. (A flash attention's backward is three kernels, a fused optimizer six for forty or for 248.
# Foreach kernels are 40 for 248, and two serving engines that share a single kernel have hundreds
# of new ones in one place: those are no fusions.)
CROWD, MANY = 6, 16

# Of A's kernels this part must have run an op that the names list. In the recorded models all but
# the mask's and a copy or two have; in two unrelated programs only common ops (`mul`) do.
NAMED = 0.5

_BACKENDS = {
    **dict.fromkeys(COMPILED, "inductor"),
    "liger_triton": "liger",
    "user_triton": "triton",
}
SUMS = ("count", "kernels", "bytes_saved", "ns_saved")

COPY = "memcpy/memset"
OTHER = ("another kernel", "other kernels")
FUSED = {"epilogue": "in the epilogue of the GEMM", "merged": "in one GEMM"}
MINOR = 0.05  # of the time of a change: groups below it are not part of its name
SHOWN = 0.01  # of a time: three digits are shown, so less is not missed


class Fusion(FusionEntry, frozen=True):
    """`kernel` is the longest of the `count` kernels of B that replace `kernels` of A, per unit.

    `largest_bytes` is the most that a kernel of A moves.
    """

    short: str = ""
    kernels: int = 0
    largest_bytes: int = 0


def fusion_of(old: Sequence[Kernel], new: Sequence[Kernel], sign: str) -> Fusion | None:
    """The fusion that shows where `new` work replaces `old` work; `sign` is what joined them."""
    before = [each for each in old if each.is_kernel]
    after = [each for each in new if each.is_kernel]
    if not after or len(before) <= len(after):
        return None
    sign = _sign(before, after, sign)
    if not sign:
        return None
    # the innermost ops that the fused kernels name; without names, the kernels' own
    replaced = [kernel.op or kernel.short for kernel in before]
    named = frozenset().union(*map(origin_ops, after))
    if sign in ("name", "mapping") and named:
        paths = ([op for op in reversed(kernel.path) if bare(op) in named] for kernel in before)
        replaced = [path[0] for path in paths if path]
    longest = max(after, key=lambda kernel: (_whole(kernel), kernel.length_ns or 0, kernel.name))
    ns_before, ns_after = spent(old), spent(new)
    return Fusion(
        longest.name,
        backend(longest),
        replaces=tuple(dict.fromkeys(replaced)),
        bytes_saved=_bytes_saved(old, new),
        ns_saved=None if ns_before is None or ns_after is None else ns_before - ns_after,
        count=len(after),
        sign=sign,
        sources=tuple(dict.fromkeys(line for each in after for line in each.sources)),
        short=longest.short,
        kernels=len(before),
        largest_bytes=max(each.bytes or 0 for each in before),
    )


def summed(found: Sequence[Fusion]) -> tuple[Fusion, ...]:
    """One fusion for several of the same kernel and ops."""
    groups: defaultdict[tuple[str, ...], list[Fusion]] = defaultdict(list)
    for fusion in found:
        groups[fusion.kernel, *fusion.replaces].append(fusion)
    return tuple(
        replace(
            group[0],
            **{name: sum_of_all(getattr(each, name) for each in group) for name in SUMS},
            largest_bytes=max(each.largest_bytes for each in group),
        )
        for group in groups.values()
    )


def backend(kernel: Kernel) -> str:
    """Who made a kernel: inductor, liger, triton, cublas, ..."""
    lib = families.decode(kernel.name).get("lib")
    return _BACKENDS.get(kernel.family) or (str(lib) if lib else kernel.family.split("_")[0])


def spent(work: Sequence[Kernel]) -> int | None:
    """The sum of their times; None when one of them is unknown."""
    return sum_of_all(each.length_ns for each in work)


def _sign(before: Sequence[Kernel], after: Sequence[Kernel], sign: str) -> str:
    """What shows a fusion, or nothing."""
    if sign in ("epilogue", "merged"):
        return sign
    if names := [ops for ops in map(origin_ops, after) if ops]:
        # compiled kernels can hold all others, and name the ops of most of them
        every = frozenset().union(*names)
        named = sum(any(bare(op) in every for op in kernel.path) for kernel in before)
        sure = len(names) == len(after) and named >= NAMED * len(before)
        if not sure or not _all_held(after, before):
            return ""
        mapped = all(each.origins or each.family not in COMPILED for each in after)
        return "mapping" if mapped else "name"
    times = group_times(before)
    work = max(times, key=lambda group: (times[group], group))  # what takes most of the time
    holders = [
        each for each in after if each.family in TRITON or (_whole(each) and each.group == work)
    ]
    crowded = len(after) > max(CROWD, len(before) // MANY)
    known = all(each.op is not None and each.family not in COMPILED for each in before)
    return "place" if _all_held(holders, before) and known and not crowded else ""


def group_times(work: Sequence[Kernel]) -> Counter[str]:
    """The time of some work by its groups."""
    times: Counter[str] = Counter()
    for each in work:
        times[each.group] += each.length_ns or 0
    return times


def _whole(kernel: Kernel) -> bool:
    """Whether a kernel may be the fusion of several, of any author."""
    return kernel.family in TRITON or kernel.role in WHOLE_OPS


def _all_held(holders: Sequence[Kernel], work: Sequence[Kernel]) -> bool:
    return all(any(can_hold(each, kernel) for each in holders) for kernel in work)


def _bytes_saved(before: Sequence[Kernel], after: Sequence[Kernel]) -> int | None:
    old, new = (sum_of_all(each.bytes for each in side) for side in (before, after))
    if old is None or new is None:
        return None
    if not any(kernel.estimated for kernel in after):
        return old - new
    written = sum_of_all(kernel.written for kernel in before[:-1])
    if written is None:
        return None
    # An estimate above A's traffic counts arguments of which little is used, such as an embedding's
    # table: the saving is not known.
    return min(old - new, 2 * written) if new < old else None


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
    def ns(self) -> ChangeEntry:
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
    """Work of A, and the work of B that replaces it. `fusion` is that of B, `undone` one
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
    replaced: list[Replacement] = []
    for each in replacements(found):
        part = _part(found, each)
        # by group, unless one side fused the other's work: a fused kernel has one group for all
        divisible = each.sign == "place" and part.fusion is None and part.undone is None
        replaced += by_group(each, found, unlike) if divisible else [each]
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
        _single(a, gone, why_gone, of_a=True),
        _single(b, new, why_new, of_a=False),
        summed([part.fusion for part in parts if part.fusion is not None]),
        summed([part.undone for part in parts if part.undone is not None]),
        parts,
    )


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
        fields = families.changed(families.decode(a.name), families.decode(b.name))
        found += [
            f"{each.field} {_stated(each.before)} to {_stated(each.after)}" for each in fields
        ]
    for part in LaunchConfig.__struct_fields__:
        old, new = getattr(a.config, part), getattr(b.config, part)
        if old != new:
            found.append(f"{part.replace('_', ' ')} {_known(old)} to {_known(new)}")
    if a.shapes is not None and b.shapes is not None and a.shapes != b.shapes:
        found.append("other shapes" if a.is_kernel else "other size")
    if found and a.op != b.op:
        found.append(f"op {_known(a.op)} to {_known(b.op)}")
    return found


def _stated(value: object) -> str:
    return families.value_text(value) or "not stated"


def _known(value: object) -> str:
    return "not recorded" if value is None else str(value)


def _single(
    kernels: Sequence[Kernel], left: Sequence[int], why: Mapping[int, str], *, of_a: bool
) -> tuple[KernelPair, ...]:
    """Kernels without a partner by kind and reason."""
    groups: defaultdict[tuple[object, tuple[str, ...]], list[Kernel]] = defaultdict(list)
    for at in left:
        groups[kernels[at].kind, (why[at],) if at in why else ()].append(kernels[at])
    return tuple(
        KernelPair(len(mine), mine[0], None, reason, spent_a=spent(mine))
        if of_a
        else KernelPair(len(mine), None, mine[0], reason, spent_b=spent(mine))
        for (_, reason), mine in groups.items()
    )


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
