"""Which replacements are fusions: fewer kernels of B that do the work of several kernels of A.

What `replaced` joined counts as a fusion when the trace shows one of five signs:

- `mapping`: the compiler's records beside B map its kernels to ops that the kernels of A ran.
- `name`: the kernels of B are Inductor's, and their names list ops that the kernels of A ran.
- `place`: a Triton kernel, or an attention, norm, softmax or optimizer kernel of the same group,
  runs, with few others, where A had more kernels of the roles that it can hold.
- `epilogue`, `merged`: as `absorbed` says.

Times and counts are those of the whole replacement: every kernel, memcpy and memset of both sides.
`bytes_saved` is the memory traffic of A less that of B, from shapes. Where B's kernel has only an
estimate (compiled Triton kernels do not record which arguments are results) it is at most what the
kernels of A wrote for each other, once written and once read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.analyze.compare.absorbed import (
    COMPILED,
    TRITON,
    WHOLE_OPS,
    bare,
    can_hold,
    origin_ops,
)
from foretrace.analyze.compare.launched import Kernel
from foretrace.names import families

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
SUMS = ("count", "kernels", "bytes_before", "bytes_saved", "ns_before", "ns_after", "copied_bytes")


class Fusion(Struct, frozen=True):
    """`kernel` is the longest of the `count` kernels of B that replace `kernels` of A, per unit.

    `replaces` are the ops of A that the trace shows to be in them, `sources` the lines of the
    user's code that the compiler's records give for them. `largest_bytes` is the most that a
    kernel of A moves.
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
    ns_before: int | None
    ns_after: int | None
    copied_bytes: int
    sources: tuple[str, ...] = ()
    largest_bytes: int = 0

    @property
    def ns_saved(self) -> int | None:
        """GPU time of A's work less that of B's."""
        if self.ns_before is None or self.ns_after is None:
            return None
        return self.ns_before - self.ns_after


def fusion_of(old: Sequence[Kernel], new: Sequence[Kernel], sign: str) -> Fusion | None:
    """The fusion that shows where `new` work replaces `old` work; `sign` is what joined them."""
    before = [each for each in old if each.is_kernel]
    after = [each for each in new if each.is_kernel]
    if not after or len(before) <= len(after):
        return None
    sign = _sign(before, after, sign)
    if not sign:
        return None
    by_ops = sign in ("name", "mapping")
    named = frozenset().union(*map(origin_ops, after)) if by_ops else frozenset()
    longest = max(after, key=lambda kernel: (_whole(kernel), kernel.length_ns or 0, kernel.name))
    return Fusion(
        longest.name,
        longest.short,
        backend(longest),
        replaces=_replaced(before, named),
        sign=sign,
        count=len(after),
        kernels=len(before),
        bytes_before=total([each.bytes for each in old]),
        bytes_saved=_bytes_saved(old, new),
        ns_before=spent(old),
        ns_after=spent(new),
        copied_bytes=sum(each.bytes or 0 for each in new if not each.is_kernel),
        sources=tuple(dict.fromkeys(line for each in after for line in each.sources)),
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
            **{name: total([getattr(each, name) for each in group]) for name in SUMS},
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
    return total([each.length_ns for each in work])


def _sign(before: Sequence[Kernel], after: Sequence[Kernel], sign: str) -> str:
    """What shows a fusion, or nothing."""
    if sign in ("epilogue", "merged"):
        return sign
    if any(map(origin_ops, after)):
        mapped = all(each.origins or each.family not in COMPILED for each in after)
        return ("mapping" if mapped else "name") if _named(before, after) else ""
    work = _main_group(before)
    holders = [
        each for each in after if each.family in TRITON or (_whole(each) and each.group == work)
    ]
    held = all(any(can_hold(each, kernel) for each in holders) for kernel in before)
    crowded = len(after) > max(CROWD, len(before) // MANY)
    known = all(each.op is not None and each.family not in COMPILED for each in before)
    return "place" if held and known and not crowded else ""


def _main_group(work: Sequence[Kernel]) -> str:
    """The group that takes most of the time."""
    times: Counter[str] = Counter()
    for each in work:
        times[each.group] += each.length_ns or 0
    return max(times, key=lambda group: (times[group], group))


def _whole(kernel: Kernel) -> bool:
    """Whether a kernel may be the fusion of several, whoever wrote it."""
    return kernel.family in TRITON or kernel.role in WHOLE_OPS


def _named(before: Sequence[Kernel], after: Sequence[Kernel]) -> bool:
    """Whether compiled kernels can hold all others, and name the ops of most of them."""
    names = [origin_ops(each) for each in after]
    ops = frozenset().union(*names)
    named = sum(any(bare(op) in ops for op in kernel.path) for kernel in before)
    held = all(any(can_hold(each, kernel) for each in after) for kernel in before)
    return all(names) and held and named >= NAMED * len(before)


def _replaced(before: Sequence[Kernel], named: frozenset[str]) -> tuple[str, ...]:
    """The innermost ops that the fused kernels name; without names, the kernels' own."""
    if not named:
        return tuple(dict.fromkeys(kernel.op or kernel.short for kernel in before))
    paths = ([op for op in reversed(kernel.path) if bare(op) in named] for kernel in before)
    return tuple(dict.fromkeys(path[0] for path in paths if path))


def _bytes_saved(before: Sequence[Kernel], after: Sequence[Kernel]) -> int | None:
    old, new = (total([each.bytes for each in side]) for side in (before, after))
    if old is None or new is None:
        return None
    if not any(kernel.estimated for kernel in after):
        return old - new
    written = total([kernel.written for kernel in before[:-1]])
    if written is None:
        return None
    # An estimate above A's traffic counts arguments of which little is used, such as an embedding's
    # table: the saving is not known.
    return min(old - new, 2 * written) if new < old else None


def total(values: Sequence[int | None]) -> int | None:
    """The sum, or None when one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
