"""Evidence in two traces that a kernel of B does the work of a kernel of A that runs elsewhere.

- `named`: an Inductor kernel came from some ops, by the compiler's records or by its name, and a
  kernel near by ran one of them. A
  Triton kernel of another author lists none: there the role decides whether it can hold the other.
- `epilogues`: a matmul changed its op (`aten::mm` to `aten::addmm`) or its epilogue
  (`bias`), and the pointwise kernel that did so after it is left.
- `merged`: a matmul has the FLOPs of several equal ones, and those are left.
- `beside`: a memcpy or memset belongs to the kernel that the same call of an op launched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from foretrace.analyze.compare.align import Alignment, Pair
from foretrace.analyze.compare.launched import Kernel
from foretrace.names import families

# A kernel may lie this many kept kernels away from the one that names it. In eager GeGLU the
# matmul `up` runs between gelu and mul, and both end in the one kernel after it. On the recorded
# ladder three finds what Inductor fused in the MLP, the block, the model and the training step;
# six finds no more.
NEAR = 3
MOST_PAIRS = 4_000_000  # of two places: a second; in more, nothing is near anything

_ELEMENTWISE = frozenset({"pointwise", "copy", "memcpy"})
_ROWS = _ELEMENTWISE | {"reduction", "normalization", "softmax", "random", "scatter_gather"}
# What a kernel of each role can hold of others.
HOLDS = {
    "pointwise": _ELEMENTWISE | {"random"},
    **dict.fromkeys(("reduction", "normalization", "softmax", "other"), _ROWS),
    "attention": _ROWS | {"gemm", "gemv"},
    "gemm": _ROWS | {"gemm"},
    "optimizer": _ELEMENTWISE | {"optimizer"},
}
COMPILED = ("inductor_triton", "inductor_cpp", "inductor_backend")  # their names list ops
TRITON = ("liger_triton", "user_triton")
# A kernel of these roles that replaces several is a fusion whoever wrote it.
WHOLE_OPS = ("attention", "normalization", "softmax", "optimizer")
PLAIN_MATMULS = ("aten::mm", "aten::bmm", "aten::matmul")
SUMS = ("bias", "badd")  # an epilogue that adds


def origin_ops(kernel: Kernel) -> frozenset[str]:
    """The ops of the program that an Inductor kernel performs: as the compiler recorded them, else
    those in its name that it may compute.
    """
    if kernel.origins:
        return kernel.origins
    return frozenset(op.strip("_") for op in families.own_ops(families.decode(kernel.name)))


def bare(op: str) -> str:
    """`aten::add_` -> `add`."""
    return op.rpartition("::")[2].strip("_")


def can_hold(holder: Kernel, other: Kernel) -> bool:
    """Whether a kernel of this role can do the work of the other."""
    return other.role in HOLDS.get(holder.role, frozenset())


def named(found: Alignment) -> Iterator[Pair]:
    """Links from kernels of B to the kernels of A near by that they name, or can hold where they
    are whole ops; where one of the two has no counterpart in its own place.
    """
    here_a, here_b = map(by_place, found.places())
    near = []
    for p, away in product(here_a, range(-NEAR, NEAR + 1)):
        if (q := p + away) in here_b and away and (p not in here_b or q not in here_a):
            few = len(here_a[p]) * len(here_b[q]) <= MOST_PAIRS
            for i, j in product(here_a[p], here_b[q]) if few else ():
                if _takes(found.b[j], found.a[i]):
                    # of two as near the later one, since fusing delays work; then the longest
                    rank = abs(away), away < 0, -(found.b[j].ns.median or 0)
                    near.append((*rank, i, j, p not in here_b, q not in here_a))
    best_a: dict[int, int] = {}
    best_b: dict[int, int] = {}
    for *_, i, j, alone_a, alone_b in sorted(near):
        if alone_a:
            best_a.setdefault(i, j)
        if alone_b:
            best_b.setdefault(j, i)
    yield from best_a.items()
    yield from ((i, j) for j, i in best_b.items())


def _takes(taker: Kernel, other: Kernel) -> bool:
    """Whether a kernel may do the work of another that runs elsewhere."""
    if not can_hold(taker, other):
        return False
    named = origin_ops(taker)
    if named or taker.family in COMPILED:
        return any(bare(op) in named for op in other.path)
    whole = taker.family in TRITON or taker.role in WHOLE_OPS
    return whole and other.op is not None and other.family not in COMPILED


def by_place(places: Mapping[int, int]) -> dict[int, list[int]]:
    """Positions by their place."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for at, place in places.items():
        found[place].append(at)
    return dict(found)


def epilogues(found: Alignment) -> Iterator[Pair]:
    """Pointwise kernels of A after a matmul, and the matmul of B that now does the same."""
    left = set(found.left_a)
    for i, j in sorted(found.changed):
        taken = _taken_in(found.a[i], found.b[j]) if found.b[j].role == "gemm" else frozenset()
        for k in range(i + 1, len(found.a)) if taken else ():
            if found.a[k].is_kernel:
                if k not in left or bare(found.a[k].op or "") not in taken:
                    break
                yield k, j


def _taken_in(before: Kernel, after: Kernel) -> frozenset[str]:
    """The pointwise ops that a matmul does and its counterpart does not."""
    old, new = (set(families.decode(each.name).get("epilogue") or ()) for each in (before, after))
    taken = {word for word in new - old if not word.endswith("-capable")}  # ability, not work
    if before.op in PLAIN_MATMULS and after.op not in PLAIN_MATMULS:
        taken |= {"bias"} | ({"relu", "gelu"} if "activation" in (after.op or "") else set())
    return frozenset(taken | ({"add"} if taken.intersection(SUMS) else set()))


def merged(found: Alignment) -> Iterator[Pair]:
    """Matmuls of B as large as several equal ones of A together, such as gate and up in one."""
    left: defaultdict[int | None, list[int]] = defaultdict(list)
    for i in found.left_a:
        if found.a[i].role == "gemm":
            left[found.a[i].flops].append(i)
    for i, j in sorted(found.changed):
        before, after = found.a[i], found.b[j]
        if not before.flops or after.role != "gemm":
            continue
        times, rest = divmod(after.flops or 0, before.flops)
        equal = left[before.flops][: times - 1]
        if not rest and times > 1 and len(equal) == times - 1:
            yield from ((k, j) for k in equal)
            del left[before.flops][: times - 1]


def beside(work: Sequence[Kernel], same: Sequence[Pair], side: int) -> dict[int, int]:
    """Memcpys and memsets that are not the same -> a kernel of the same call that is not either."""
    unlike = sorted(set(range(len(work))) - {pair[side] for pair in same})
    kernels = {work[at].call: at for at in reversed(unlike) if work[at].is_kernel}
    copies = [at for at in unlike if not work[at].is_kernel and work[at].call >= 0]
    return {at: kernels[work[at].call] for at in copies if work[at].call in kernels}
