"""Kernels of B that do the work of several kernels of A.

Four signs are taken for a fusion, and each is something the trace shows:

- `name`: an Inductor kernel names the ops it came from; kernels of A that ran one of those ops, and
  run no more, were taken up by the nearest kernel of B that names it.
- `place`: a Triton kernel, an attention, norm, softmax or optimizer kernel stands, with few others,
  where A had more kernels of the kinds that it can hold.
- `epilogue`: a matrix product changed its op or its epilogue (`aten::mm` to `aten::addmm`, `bias`),
  and the pointwise kernel that followed it in A is gone.
- `merged`: a matrix product does as many FLOP as several equal ones of A did, and those are gone.

`bytes_saved` is what A's kernels had to move less what B's must: from shapes, and where B's kernel
has only an estimate (compiled Triton kernels do not record which arguments are results) at most
what the kernels of A wrote for each other, once written and once read. `ns_saved` compares medians.
Copies that B's op makes beside the kernel count against it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from foretrace import families
from foretrace.comparison.align import Alignment, Pair
from foretrace.comparison.launched import Kernel

Number = TypeVar("Number", int, float)

# An absorbed kernel may lie this many kept kernels away from the one that absorbed it. In eager
# GeGLU the product `up` runs between gelu and mul, and both end in the one kernel after it. On the
# recorded ladder three finds what Inductor fused in the MLP, the block, the model and the training
# step; six finds no more.
NEAR = 3

# A place says something only where little else is new: at most CROWD kernels, or one for every MANY
# that are gone. (A flash attention's backward is three kernels, a fused optimizer six for forty or
# for 248. Foreach kernels are 40 for 248, and two serving engines that share a single kernel have
# hundreds of new ones in one place: none is said to stand for others.)
CROWD, MANY = 6, 16

_BACKENDS = {
    "inductor_triton": "inductor",
    "inductor_cpp": "inductor",
    "inductor_backend": "inductor",
    "liger_triton": "liger",
    "user_triton": "triton",
}
_ELEMENTWISE = frozenset({"pointwise", "copy"})
_ROWS = _ELEMENTWISE | {"reduction", "normalization", "softmax", "random", "scatter_gather"}
# What a kernel of each role can hold of others.
HOLDS = {
    "pointwise": _ELEMENTWISE | {"random"},
    "reduction": _ROWS,
    "normalization": _ROWS,
    "softmax": _ROWS,
    "attention": _ROWS | {"gemm", "gemv"},
    "gemm": _ROWS | {"gemm"},
    "optimizer": _ELEMENTWISE | {"optimizer"},
    "other": _ROWS,
}
# Of these roles a kernel that stands for several is a fusion whoever wrote it.
WHOLE_OPS = ("attention", "normalization", "softmax", "optimizer")
TRITON = ("liger_triton", "user_triton")
# Kernels that a compiler has fused already say in their names what they hold: their place says
# nothing more.
COMPILED = ("inductor_triton", "inductor_cpp", "inductor_backend")
PLAIN_PRODUCTS = ("aten::mm", "aten::bmm", "aten::matmul")


@dataclass(frozen=True, slots=True)
class Fusion:
    """One kernel of B and the ops of A it replaces, `kernels` of them. All numbers are per unit,
    over `count` launches.
    """

    kernel: str
    short: str
    backend: str
    replaces: tuple[str, ...]
    sign: str
    count: int
    kernels: int
    bytes_before: int | None
    bytes_saved: int | None
    ns_before: float | None
    ns_after: float | None
    copied_bytes: int

    @property
    def ns_saved(self) -> float | None:
        return (
            None
            if self.ns_before is None or self.ns_after is None
            else self.ns_before - self.ns_after
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """Positions in A whose work the kernels at `into` of B do."""

    into: tuple[int, ...]
    members: tuple[int, ...]
    sign: str


@dataclass(frozen=True, slots=True)
class Fused:
    """The fusions of B; for each position in A that was taken up the one in B that did; the new
    kernels among those; and pairs of one kernel of A and the one kernel of B that names its op now.
    """

    fusions: tuple[Fusion, ...]
    absorbed: Mapping[int, int]
    absorbing: frozenset[int]
    renewed: tuple[Pair, ...]


def fuse(found: Alignment) -> Fused:
    """Every kernel of B that stands for two or more of A."""
    taken = _absorbed(found)
    new = [each for each in taken if len(each.members) > len(each.into)]
    kept = [*_epilogues(found), *_merged(found)]
    groups: defaultdict[tuple[str, ...], list[Fusion]] = defaultdict(list)
    for each in (*new, *kept):
        fusion = _fusion(found, each)
        groups[fusion.kernel, *fusion.replaces].append(fusion)
    partners = dict(found.changed)
    absorbed = {
        i: each.into[0]
        for each in (*new, *kept)
        for i in each.members
        if partners.get(i) != each.into[0]
    }
    return Fused(
        tuple(_summed(members) for members in groups.values()),
        absorbed,
        absorbing=frozenset(j for each in new for j in each.into),
        renewed=tuple(
            (each.members[0], each.into[0])
            for each in taken
            if each.sign == "name" and len(each.members) == 1
        ),
    )


def backend(kernel: Kernel) -> str:
    """Who made a kernel: inductor, liger, triton, cublas, ..."""
    lib = families.decode(kernel.name).get("lib")
    return _BACKENDS.get(kernel.family) or (str(lib) if lib else kernel.family.split("_")[0])


def _absorbed(found: Alignment) -> list[Taken]:
    """New kernels of B and the kernels of A that each took up, one or more."""
    place_a, place_b = found.places()
    named = {j: ops for j in found.left_b if (ops := _ops_in_name(found.b[j]))}
    naming: defaultdict[str, list[int]] = defaultdict(list)
    for j, ops in named.items():
        for op in ops:
            naming[op].append(j)
    standing = _standing(found, [j for j in found.left_b if j not in named], place_a, place_b)
    members: defaultdict[int, list[int]] = defaultdict(list)
    for i in found.left_a:
        kernel = found.a[i]
        fitting = {
            j for op in kernel.path for j in naming.get(_bare(op), ()) if _holds(found.b[j], kernel)
        }
        near = _nearest(found, place_a[i], fitting, place_b)
        if near is None and kernel.op is not None and kernel.family not in COMPILED:
            near = _nearest(
                found, place_a[i], [j for j in standing if _holds(found.b[j], kernel)], place_b
            )
        if near is not None:
            members[near].append(i)
    return [
        Taken((j,) if j in named else standing[j], tuple(each), "name" if j in named else "place")
        for j, each in sorted(members.items())
    ]


def _standing(
    found: Alignment,
    new: list[int],
    place_a: Mapping[int, int],
    place_b: Mapping[int, int],
) -> dict[int, tuple[int, ...]]:
    """Kernels that may stand for others by their place: the first of each name in a place -> all of
    them.
    """
    old, crowd = Counter(place_a.values()), Counter(place_b.values())
    groups: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for j in new:
        place = place_b[j]
        if _may_fuse(found.b[j]) and crowd[place] <= max(CROWD, old[place] // MANY):
            groups[found.b[j].name, place].append(j)
    return {group[0]: tuple(group) for group in groups.values()}


def _nearest(
    found: Alignment, place: int, candidates: Iterable[int], places: Mapping[int, int]
) -> int | None:
    """The nearest candidate. Of two as near the later one, since fusing delays work; in one place
    the longest kernel.
    """
    near = [
        (abs(places[j] - place), places[j] < place, -(found.b[j].ns.median or 0), j)
        for j in candidates
        if abs(places[j] - place) <= NEAR
    ]
    return min(near)[3] if near else None


def _ops_in_name(kernel: Kernel) -> frozenset[str]:
    ops = families.decode(kernel.name).get("ops")
    return (
        frozenset(str(op).strip("_") for op in ops)
        if isinstance(ops, list | tuple)
        else frozenset()
    )


def _bare(op: str) -> str:
    return op.rpartition("::")[2].strip("_")


def _holds(fusing: Kernel, kernel: Kernel) -> bool:
    return kernel.role in HOLDS.get(fusing.role, frozenset())


def _may_fuse(kernel: Kernel) -> bool:
    return kernel.family in TRITON or kernel.role in WHOLE_OPS


def _epilogues(found: Alignment) -> list[Taken]:
    """Products of B that do the pointwise kernel after their counterpart themselves."""
    left = set(found.left_a)
    pairs = [
        (i, j)
        for i, j in sorted(found.changed)
        if found.b[j].role == "gemm" and _adds(found.a[i], found.b[j])
    ]
    return [
        Taken((j,), (i, i + 1), "epilogue")
        for i, j in pairs
        if i + 1 in left and found.a[i + 1].role == "pointwise"
    ]


def _merged(found: Alignment) -> list[Taken]:
    """Products of B as large as several equal ones of A together, such as gate and up in one."""
    left = [i for i in found.left_a if found.a[i].role == "gemm"]
    taken = []
    for i, j in sorted(found.changed):
        before, after = found.a[i], found.b[j]
        times, rest = (
            divmod(after.flops or 0, before.flops)
            if before.flops and after.role == "gemm"
            else (0, 1)
        )
        equal = [k for k in left if found.a[k].flops == before.flops][: times - 1]
        if not rest and times > 1 and len(equal) == times - 1:
            taken.append(Taken((j,), tuple(sorted((i, *equal))), "merged"))
            left = [k for k in left if k not in equal]
    return taken


def _adds(before: Kernel, after: Kernel) -> bool:
    """Whether a product does more than it did."""
    old, new = (
        set(families.decode(kernel.name).get("epilogue") or ()) for kernel in (before, after)
    )
    return bool(new - old) or (before.op in PLAIN_PRODUCTS and after.op not in PLAIN_PRODUCTS)


def _fusion(found: Alignment, taken: Taken) -> Fusion:
    after, before = [found.b[j] for j in taken.into], [found.a[i] for i in taken.members]
    first, ops = after[0], _ops_in_name(after[0])
    replaces = tuple(dict.fromkeys(_replaced(kernel, ops) for kernel in before))
    return Fusion(
        first.name,
        first.short,
        backend(first),
        replaces,
        taken.sign,
        len(after),
        len(before),
        _moved(before),
        _bytes_saved(before, after),
        _spent(before),
        _spent(after),
        sum(kernel.beside_bytes for kernel in after),
    )


def _replaced(kernel: Kernel, ops: frozenset[str]) -> str:
    """The op by which people know the kernel: the innermost that the fused kernel names, else its
    own.
    """
    return next((op for op in reversed(kernel.path) if _bare(op) in ops), kernel.op or kernel.short)


def _moved(kernels: Sequence[Kernel]) -> int | None:
    return _total(
        [None if kernel.bytes is None else kernel.bytes + kernel.beside_bytes for kernel in kernels]
    )


def _spent(kernels: Sequence[Kernel]) -> float | None:
    return _total(
        [
            None if kernel.ns.median is None else kernel.ns.median + kernel.beside_ns
            for kernel in kernels
        ]
    )


def _bytes_saved(before: Sequence[Kernel], after: Sequence[Kernel]) -> int | None:
    old, new = _moved(before), _moved(after)
    if old is None or new is None:
        return None
    if not any(kernel.estimated for kernel in after):
        return old - new
    handed_on = _total([kernel.written for kernel in before[:-1]])
    if handed_on is None:
        return None
    # An estimate above what A moved counts arguments of which little is used, such as an
    # embedding's table.
    return min(old - new, 2 * handed_on) if new < old else 2 * handed_on


def _total(values: Sequence[Number | None]) -> Number | None:
    """The sum, or None when one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _summed(members: Sequence[Fusion]) -> Fusion:
    return replace(
        members[0],
        count=sum(each.count for each in members),
        kernels=sum(each.kernels for each in members),
        bytes_before=_total([each.bytes_before for each in members]),
        bytes_saved=_total([each.bytes_saved for each in members]),
        ns_before=_total([each.ns_before for each in members]),
        ns_after=_total([each.ns_after for each in members]),
        copied_bytes=sum(each.copied_bytes for each in members),
    )
