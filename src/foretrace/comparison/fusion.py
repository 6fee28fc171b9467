"""Kernels of B that do the work of several kernels of A.

Four signs count as a fusion, and the trace shows each of them:

- `name`: an Inductor kernel names the ops it came from; removed kernels of A that ran one of those
  ops went into the nearest kernel of B that names it.
- `place`: a Triton kernel, an attention, norm, softmax or optimizer kernel runs, with few others,
  where A had more kernels of the roles that it can hold.
- `epilogue`: a matrix product changed its op or its epilogue (`aten::mm` to `aten::addmm`, `bias`),
  and the pointwise kernel that followed it in A is removed.
- `merged`: a matrix product has the FLOPs of several equal ones of A, and those are removed.

`bytes_saved` is the memory traffic of A's kernels less that of B's, from shapes. Where B's kernel
has only an estimate (compiled Triton kernels do not record which arguments are results) it is at
most what the kernels of A wrote for each other, once written and once read. `ns_saved` compares
medians. Copies that B's op makes beside the kernel count against it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from foretrace import families
from foretrace.comparison.align import Alignment, Pair
from foretrace.comparison.launched import Kernel

Number = TypeVar("Number", int, float)

# An absorbed kernel may lie this many kept kernels away from the one that absorbed it. In eager
# GeGLU the product `up` runs between gelu and mul, and both end in the one kernel after it. On the
# recorded ladder three finds what Inductor fused in the MLP, the block, the model and the training
# step; six finds no more.
NEAR = 3

# A place counts only where little else is new: at most CROWD kernels, or one for every MANY removed
# ones. (A flash attention's backward is three kernels, a fused optimizer six for forty or for 248.
# Foreach kernels are 40 for 248, and two serving engines that share a single kernel have hundreds
# of new ones in one place: those are no fusions.)
CROWD, MANY = 6, 16

# The names of compiled kernels list what they hold: their place adds nothing.
COMPILED = ("inductor_triton", "inductor_cpp", "inductor_backend")
_BACKENDS = {
    **dict.fromkeys(COMPILED, "inductor"),
    "liger_triton": "liger",
    "user_triton": "triton",
}
_ELEMENTWISE = frozenset({"pointwise", "copy"})
_ROWS = _ELEMENTWISE | {"reduction", "normalization", "softmax", "random", "scatter_gather"}
# What a kernel of each role can hold of others.
HOLDS = {
    "pointwise": _ELEMENTWISE | {"random"},
    **dict.fromkeys(("reduction", "normalization", "softmax", "other"), _ROWS),
    "attention": _ROWS | {"gemm", "gemv"},
    "gemm": _ROWS | {"gemm"},
    "optimizer": _ELEMENTWISE | {"optimizer"},
}
# A kernel of these roles that replaces several is a fusion whoever wrote it.
WHOLE_OPS = ("attention", "normalization", "softmax", "optimizer")
TRITON = ("liger_triton", "user_triton")
PLAIN_PRODUCTS = ("aten::mm", "aten::bmm", "aten::matmul")
SUMS = ("count", "kernels", "bytes_before", "bytes_saved", "ns_before", "ns_after", "copied_bytes")


class Fusion(Struct, frozen=True):
    """One kernel of B and the ops of A that it replaces, which launched `kernels`; per unit."""

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
        """GPU time of A's kernels less that of B's."""
        if self.ns_before is None or self.ns_after is None:
            return None
        return self.ns_before - self.ns_after


class Taken(Struct, frozen=True):
    """Positions in A whose work the kernels at `into` of B do."""

    into: tuple[int, ...]
    members: tuple[int, ...]
    sign: str


class Fused(Struct, frozen=True):
    """The fusions of B. `absorbed` maps positions of A to the fused kernel of B, `absorbing` are
    new fused kernels of B, `renewed` pairs a kernel of A with the one of B that names its op.
    """

    fusions: tuple[Fusion, ...]
    absorbed: Mapping[int, int]
    absorbing: frozenset[int]
    renewed: tuple[Pair, ...]


def fuse(found: Alignment) -> Fused:
    """Every kernel of B that replaces two or more of A."""
    taken = _absorbed(found)
    new = [each for each in taken if len(each.members) > len(each.into)]
    kept = [*_epilogues(found), *_merged(found)]
    groups: defaultdict[tuple[str, ...], list[Fusion]] = defaultdict(list)
    for each in (*new, *kept):
        fusion = _fusion(found, each)
        groups[fusion.kernel, *fusion.replaces].append(fusion)
    partners = dict(found.changed)
    into = {i: each.into[0] for each in (*new, *kept) for i in each.members}
    lone = [each for each in taken if each.sign == "name" and len(each.members) == 1]
    return Fused(
        tuple(_summed(members) for members in groups.values()),
        {i: j for i, j in into.items() if partners.get(i) != j},
        absorbing=frozenset(j for each in new for j in each.into),
        renewed=tuple((each.members[0], each.into[0]) for each in lone),
    )


def backend(kernel: Kernel) -> str:
    """Who made a kernel: inductor, liger, triton, cublas, ..."""
    lib = families.decode(kernel.name).get("lib")
    return _BACKENDS.get(kernel.family) or (str(lib) if lib else kernel.family.split("_")[0])


def _absorbed(found: Alignment) -> list[Taken]:
    """New kernels of B and the kernels of A that each replaces, one or more."""
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
        naming_it = {j for op in kernel.path for j in naming.get(_bare(op), ())}
        near = _nearest(found, i, naming_it, place_a, place_b)
        if near is None and kernel.op is not None and kernel.family not in COMPILED:
            near = _nearest(found, i, standing, place_a, place_b)
        if near is not None:
            members[near].append(i)
    return [
        Taken((j,) if j in named else standing[j], tuple(each), "name" if j in named else "place")
        for j, each in sorted(members.items())
    ]


def _standing(
    found: Alignment, new: list[int], place_a: Mapping[int, int], place_b: Mapping[int, int]
) -> dict[int, tuple[int, ...]]:
    """Kernels that may replace others by place: the first of a name in a place -> all of them."""
    old, crowd = Counter(place_a.values()), Counter(place_b.values())
    groups: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for j in new:
        place = place_b[j]
        may_fuse = found.b[j].family in TRITON or found.b[j].role in WHOLE_OPS
        if may_fuse and crowd[place] <= max(CROWD, old[place] // MANY):
            groups[found.b[j].name, place].append(j)
    return {group[0]: tuple(group) for group in groups.values()}


def _nearest(
    found: Alignment,
    i: int,
    candidates: Iterable[int],
    place_a: Mapping[int, int],
    place_b: Mapping[int, int],
) -> int | None:
    """The nearest candidate that can hold the kernel of A at `i`. Of two as near the later one,
    since fusing delays work; in one place the longest kernel.
    """
    near = [
        (abs(away), away < 0, -(found.b[j].ns.median or 0), j)
        for j in candidates
        if abs(away := place_b[j] - place_a[i]) <= NEAR
        and found.a[i].role in HOLDS.get(found.b[j].role, frozenset())
    ]
    return min(near)[3] if near else None


def _ops_in_name(kernel: Kernel) -> frozenset[str]:
    return frozenset(op.strip("_") for op in families.own_ops(families.decode(kernel.name)))


def _bare(op: str) -> str:
    return op.rpartition("::")[2].strip("_")


def _epilogues(found: Alignment) -> list[Taken]:
    """Products of B that include the pointwise kernel that followed their counterpart in A."""
    left = set(found.left_a)
    return [
        Taken((j,), (i, i + 1), "epilogue")
        for i, j in sorted(found.changed)
        if found.b[j].role == "gemm" and _adds(found.a[i], found.b[j])
        if i + 1 in left and found.a[i + 1].role == "pointwise"
    ]


def _merged(found: Alignment) -> list[Taken]:
    """Products of B as large as several equal ones of A together, such as gate and up in one."""
    left = [i for i in found.left_a if found.a[i].role == "gemm"]
    taken = []
    for i, j in sorted(found.changed):
        before, after = found.a[i], found.b[j]
        if not before.flops or after.role != "gemm":
            continue
        times, rest = divmod(after.flops or 0, before.flops)
        equal = [k for k in left if found.a[k].flops == before.flops][: times - 1]
        if not rest and times > 1 and len(equal) == times - 1:
            taken.append(Taken((j,), tuple(sorted((i, *equal))), "merged"))
            left = [k for k in left if k not in equal]
    return taken


def _adds(before: Kernel, after: Kernel) -> bool:
    """Whether a product does more than it did."""
    old, new = (set(families.decode(each.name).get("epilogue") or ()) for each in (before, after))
    added = {word for word in new - old if not word.endswith("-capable")}  # ability, not work
    return bool(added) or (before.op in PLAIN_PRODUCTS and after.op not in PLAIN_PRODUCTS)


def _fusion(found: Alignment, taken: Taken) -> Fusion:
    after, before = [found.b[j] for j in taken.into], [found.a[i] for i in taken.members]
    first, ops = after[0], _ops_in_name(after[0])
    return Fusion(
        first.name,
        first.short,
        backend(first),
        replaces=tuple(dict.fromkeys(_replaced(kernel, ops) for kernel in before)),
        sign=taken.sign,
        count=len(after),
        kernels=len(before),
        bytes_before=_traffic(before),
        bytes_saved=_bytes_saved(before, after),
        ns_before=_spent(before),
        ns_after=_spent(after),
        copied_bytes=sum(kernel.beside_bytes for kernel in after),
    )


def _replaced(kernel: Kernel, ops: frozenset[str]) -> str:
    """The innermost op that the fused kernel names, else the kernel's own."""
    return next((op for op in reversed(kernel.path) if _bare(op) in ops), kernel.op or kernel.short)


def _traffic(kernels: Sequence[Kernel]) -> int | None:
    beside = [kernel.beside_bytes for kernel in kernels]
    return _total([*(kernel.bytes for kernel in kernels), *beside])


def _spent(kernels: Sequence[Kernel]) -> float | None:
    beside = [kernel.beside_ns for kernel in kernels]
    return _total([*(kernel.ns.median for kernel in kernels), *beside])


def _bytes_saved(before: Sequence[Kernel], after: Sequence[Kernel]) -> int | None:
    old, new = _traffic(before), _traffic(after)
    if old is None or new is None:
        return None
    if not any(kernel.estimated for kernel in after):
        return old - new
    written = _total([kernel.written for kernel in before[:-1]])
    if written is None:
        return None
    # An estimate above A's traffic counts arguments of which little is used, such as an embedding's
    # table.
    return min(old - new, 2 * written) if new < old else 2 * written


def _total(values: Sequence[Number | None]) -> Number | None:
    """The sum, or None when one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _summed(members: Sequence[Fusion]) -> Fusion:
    """One fusion for several of the same kernel and ops."""
    sums = {name: _total([getattr(each, name) for each in members]) for name in SUMS}
    return replace(members[0], **sums)
