"""Fixes that call another op of PyTorch for the same result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.base.units import plural, times_text
from foretrace.look.fixes._step import (
    BEST,
    STARTING_NS,
    USUAL,
    CpuStep,
    Proposal,
    Proposals,
    Speed,
    Step,
    at_speeds,
    dense,
    fix,
    joined,
    shown,
    tops,
)
from foretrace.look.fixes.precision import is_double
from foretrace.look.rules import bare
from foretrace.look.rules.matmuls import PLAIN_MATMULS, is_plain, misaligned
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange
from foretrace.work.costs import OpCall, Tensor
from foretrace.work.kernel import Certainty
from foretrace.work.kernel_row import KernelRow

ROUNDING_RISK = "a fused kernel rounds less often: compare an output"
FUSED_SPREAD = (1.0, 0.7, 1.6)  # of the new GPU times: as expected, at best, at worst
CASTS = frozenset({"to", "_to_copy", "float", "type_as"})
SAME_OPS = {
    "square": "pow",
    "amax": "max",
    "true_divide": "div",
    "divide": "div",
    "clamp_min": "clamp",
}
SAME_OPS |= {"multiply": "mul", "subtract": "sub", "rsub": "sub"}


class FusedOp(Struct, frozen=True):
    """What to call, the passes of both directions over the input, and the ops that it replaces."""

    call: str
    forward: float
    backward: float
    ops: str

    def match(self, text: str) -> int:
        """How much of these words the sequence is."""
        found = re.match(f"(?:{self.ops}) ", text)
        return found.end() if found else 0


_ROOT = "(sqrt~|rsqrt~|pow~|std)"
_CENTRED = "(mean |var |sub:s |pow |mul:f |mul:s |add~ |div~ |clamp~ |reciprocal~ )*?"
_SCALED = "(mul:s|div:s)( (add~ )?mul:s)?( add:s)?"
_ROWS = rf"""
F.layer_norm/batch_norm 6 16 (?=(\S+ )+?sub:s )(mean|var) {_CENTRED}{_ROOT} {_CENTRED}{_SCALED}
F.rms_norm 3.5 14 (pow|mul:f) mean (add~ |clamp~ )?{_ROOT} (reciprocal~ )?{_SCALED}
F.gelu(approximate="tanh") 3 4 (mul )?(pow|mul:f mul:f) mul add:f mul tanh (mul )?add mul:f( mul)?
F.gelu 3 4 (mul )?(div|mul) erf add mul:f( mul)?
torch.softmax 3.5 4.5 (max sub:s )?exp sum div:s
F.log_softmax 3.5 5 softmax log|logsumexp sub:s|(max sub:s )?exp sum log~ (add~ )?sub:s
F.dropout 3 3 (rand_like|bernoulli) (gt|lt|ge|le) (div )?mul:f( div| mul)?
F.normalize 3.5 8 pow sum sqrt~ (add~ |clamp~ )?div:s
F.mish 3 4 softplus tanh mul:f
F.logsigmoid 3 4 sigmoid log
F.softplus 3 4 exp add log|exp log1p
"""
SEQUENCES = tuple(
    FusedOp(call, float(forward), float(backward), ops)
    for call, forward, backward, ops in (row.split(" ", 3) for row in _ROWS.split("\n") if row)
)
# The ops that a sequence begins with: nothing else is read closer.
BEGINS = frozenset({"mean", "var", "pow", "mul", "div", "max", "exp", "softmax", "logsumexp"})
BEGINS |= {"rand_like", "bernoulli", "softplus", "sigmoid"}
# What goes into a loss keeps the type that the ops have: the cast before it stays.
LOSSES = frozenset({"F.log_softmax", "F.logsigmoid"})


class Match(Struct, frozen=True):
    """The ops of one sequence, and the tensor that they begin with."""

    sequence: FusedOp
    ops: Ints
    tensor: Tensor


@fix("Use the op that does all of it", "gpu shapes")
def fused_ops(step: Step) -> Proposals:
    """The op that PyTorch has for a sequence of ops.

    What it looks for: norms, activations, softmax and dropout written out in eager mode, as a
    sequence of ops that `SEQUENCES` lists with the call that does the same.

    What must hold: the ops follow each other on one thread, casts between them left out, and their
    tensors have the sizes that the sequence needs. `mul` takes one tensor of full size, `mul:f`
    two, `mul:s` a smaller one beside it (a mean, a weight), and `mul~` smaller ones only. A
    residual is of full size, so it is no bias. Code inside an op or in the backward pass is
    PyTorch's own.

    What changes: one kernel takes the place of the ops, and one that of the nodes of the backward
    pass that they made. Their times are those of so many passes over the input at the card's
    bandwidth as on an H200 (torch 2.11, bf16, 1,024 to 50,304 columns).
    """
    found = list(_matches(step))
    for sequence in SEQUENCES:
        mine = [match for match in found if match.sequence is sequence]
        if not mine or step.device is None:
            continue
        parts = [part for match in mine for part in _match_parts(step, match)]
        usual, best, worst = (
            joined(
                step.one_for_many(events, rows, STARTING_NS + spread * ns)
                for events, rows, ns in parts
            )
            for spread in FUSED_SPREAD
        )
        names = [step.name(op).removeprefix("aten::") for op in mine[0].ops.tolist()]
        words = [name for name in names if name not in CASTS]
        first = ", ".join(words[:3]) + (", ..." if len(words) > 3 else "")
        order = f"call {sequence.call} instead of {len(names)} ops"
        why = f"{first} written out {times_text(len(mine))} per step"
        events = shown(np.concatenate([match.ops for match in mine]))
        yield Proposal(order, why, usual, best, worst, risk=ROUNDING_RISK, events=events)


def _matches(step: Step) -> Iterator[Match]:
    """The sequences of a step, the longest first where two begin with one op."""
    ops = tops(step)
    above = step.trace.host.nearest_op(step.trace.gpu.launch[step.rows])
    ops = ops[np.isin(ops, step.callers(above[above >= 0]))]
    calls = [step.call(op) for op in ops.tolist()]
    names = [_op_word(call) if call.dims else "" for call in calls]
    plain = [at for at, name in enumerate(names) if name and name not in CASTS]
    sizes = {at: [each.elements for each in dense(calls[at])] for at in plain}
    place = 0
    while place < len(plain):
        window = plain[place : place + 14]  # ops in a sequence, without casts
        tensor = _largest_tensor(calls[window[0]]) if names[window[0]] in BEGINS else None
        found = (
            _first_match([_word(names[at], sizes[at], tensor) for at in window]) if tensor else None
        )
        if found is None or tensor is None:
            place += 1
            continue
        sequence, count = found
        begin, end = window[0], window[count - 1]
        if sequence.call not in LOSSES and _casts(calls, begin - 1, tensor):
            begin, end = begin - 1, end + _casts(calls, end + 1, tensor)
        yield Match(sequence, ops[begin : end + 1], _largest_tensor(calls[begin]) or tensor)
        place += count


def _first_match(words: list[str]) -> tuple[FusedOp, int] | None:
    """The longest sequence that these words begin with, and how many of them it has."""
    text = "".join(f"{word} " for word in words)
    sequence = max(SEQUENCES, key=lambda each: each.match(text))
    count = text[: sequence.match(text)].count(" ")
    return (sequence, count) if count else None


def _casts(calls: list[OpCall], at: int, tensor: Tensor) -> bool:
    """Whether the op at this place makes this tensor of another type, or another type of it."""
    casts = 0 <= at < len(calls) and _op_word(calls[at]) in CASTS
    source = _largest_tensor(calls[at]) if casts else None
    return source is not None and source.dims == tensor.dims


def _op_word(call: OpCall) -> str:
    name = call.name.removeprefix("aten::").rstrip("_")
    return SAME_OPS.get(name, name)


def _largest_tensor(call: OpCall) -> Tensor | None:
    return max(call.every_tensor(), key=lambda each: each.elements, default=None)


def _word(name: str, sizes: list[int], full: Tensor) -> str:
    """An op with the sizes of its tensors, in the words of `SEQUENCES`."""
    most = max(sizes, default=0)
    if most > full.elements or not most:
        return "?"
    if most < full.elements:
        return f"{name}~"
    if min(sizes) < most:
        return f"{name}:s"
    return f"{name}:f" if len(sizes) > 1 else name


def _match_parts(step: Step, match: Match) -> Iterator[tuple[Ints, Ints, float]]:
    """The ops and their backward nodes, each with its work and the time to move it all at once."""
    moved = step.move_ns(match.tensor.bytes or 0)
    both = (match.ops, match.sequence.forward), (step.backward(match.ops), match.sequence.backward)
    for events, passes in both:
        if len(rows := step.below(events)):
            yield events, rows, passes * moved


SUMS_ON_CPU = (0.9, 0.97, 0.5)  # of the time goes
LEAST_PRODUCT = 100_000  # elements of the product: less is soon computed
FEW_TERMS = 8  # terms of a sum: fewer are no work for a matmul
PRODUCT_REACH = 6  # ops before the product, where tensors are expanded, and after it
SUMS_ORDER = "a matmul instead of mul and sum: a @ b.T or torch.einsum"


@fix("A matmul instead of mul and sum", "shapes", steps="cpu")
def summed_products(step: CpuStep) -> Proposals:
    """A matmul instead of products that are all kept and then summed.

    What it looks for: `mul` of two tensors that repeat each other's rows, by `expand` or
    broadcasting, and right after it `sum` over a dimension that neither repeats: `(a[:, None] *
    b[None]).sum(-1)`.

    What must hold: a CPU computes. Each factor repeats a dimension that the other one has, so the
    product is larger than both. The next op sums a tensor of the product's shape over one
    dimension, and the ops after it do not read that shape.

    What changes: of the multiplication, the sum and their backward pass a tenth remains, at worst
    half. A training step of 384 rows with 384 others of 64 features became 87 to 22 ms.
    """
    found = {
        event: pair
        for event in step.ops("aten::mul").tolist()
        if (pair := _product_and_sum(step, event))
    }
    if not found:
        return
    (first, *_), ops = found, [op for pair in found.values() for op in pair]
    dims = _product(step.call(first)) or ()
    why = f"{plural(len(found), 'product')} of shape {list(dims)} per step, summed right after"
    expands = [op for event in found for op in step.near(event, before=PRODUCT_REACH)]
    made = [*ops, *(op for op in expands if step.name(op) == "aten::expand")]
    events = sorted({*ops, *step.backward(made).tolist()})
    yield step.proposal(SUMS_ORDER, why, events, SUMS_ON_CPU)


def _product_and_sum(step: CpuStep, event: int) -> tuple[int, int] | None:
    """A product and the op that sums it, where a matmul gives the same."""
    call = step.call(event)
    dims = _product(call)
    after = step.near(event, after=PRODUCT_REACH) if dims else []
    if not dims or not after or step.name(after[0]) != "aten::sum":
        return None
    given, total = step.tensor(after[0]), step.call(after[0]).numbers(1)
    over = [at % len(dims) for at in total or ()]
    read = any(each.dims == dims for op in after[1:] for each in step.tensors(op))
    if read or given is None or given.dims != dims or len(over) != 1 or dims[over[0]] < FEW_TERMS:
        return None
    shared = all(not _repeats(each, dims)[over[0]] for each in _factors(call))
    return (event, after[0]) if shared else None


def _factors(call: OpCall) -> list[Tensor]:
    return [each for at in (0, 1) if (each := call.tensor(at)) and each.dims]


def _product(call: OpCall) -> tuple[int, ...] | None:
    """The shape of a product of which each factor repeats a dimension that the other has."""
    factors = _factors(call)
    if len(factors) != 2:
        return None
    rank = max(len(each.dims) for each in factors)
    padded = [(1,) * (rank - len(each.dims)) + each.dims for each in factors]
    dims = tuple(max(pair) for pair in zip(*padded, strict=True))
    left, right = (_repeats(each, dims) for each in factors)
    pairs = list(zip(left, right, strict=True))
    large = rank > 2 and math.prod(dims) >= LEAST_PRODUCT
    return dims if large and (True, False) in pairs and (False, True) in pairs else None


def _repeats(tensor: Tensor, dims: tuple[int, ...]) -> list[bool]:
    """Which dimensions of a product this factor repeats: of size one, or expanded (stride 0)."""
    missing = len(dims) - len(tensor.dims)
    known = tensor.strides if tensor.strides and len(tensor.strides) == len(tensor.dims) else None
    strides = known or (1,) * len(tensor.dims)
    sizes, steps = (1,) * missing + tensor.dims, (0,) * missing + strides
    rows = zip(dims, sizes, steps, strict=True)
    return [whole > 1 and (size == 1 or not stride) for whole, size, stride in rows]


OneHotMatmul = tuple[list[int], Tensor, Tensor]
INDEX_ORDER = "index the table: F.embedding(index, table)"
ONE_HOT_ON_CPU = (0.7, 0.95, 0.4)  # of the time goes


@fix("An index, not a product with one-hot rows", "gpu shapes", steps="any")
def one_hot_matmul(step: Step) -> Proposals:
    """An index instead of a product with one-hot rows.

    What it looks for: `one_hot`, and shortly after it a matmul whose left factor is that tensor: as
    many rows as there were indices, as many columns as classes.

    What must hold: the classes are what the matmul sums over. A transposed one-hot factor adds rows
    together; that is not an index, and stays.

    What changes: the one-hot tensor and its conversion are gone, with their waits; of the host
    time, that of the shortest op remains. The matmul becomes a kernel that reads and writes the
    chosen rows; its backward node one that fills the gradient of the table and adds the rows.
    """
    events = step.ops("aten::one_hot").tolist()
    found = [group for event in events if (group := _one_hot_matmul(step, event))]
    if not found:
        return
    matmuls, classes = plural(len(found), "matmul"), found[0][2].dims[0]
    why = f"{matmuls} per step with one-hot rows of {classes} columns"
    ops = [op for group in found for op in group[0]]
    if isinstance(step, CpuStep):
        yield step.proposal(INDEX_ORDER, why, [*ops, *step.backward(ops).tolist()], ONE_HOT_ON_CPU)
        return
    changes = at_speeds(lambda speed: joined(_index_change(step, group, speed) for group in found))
    yield Proposal(INDEX_ORDER, why, *changes, events=shown(ops))


def _one_hot_matmul(step: Step, event: int) -> OneHotMatmul | None:
    """The ops from this one_hot to its matmul, with the factors of that."""
    index, passed = step.tensor(event), [event]

    def chosen(left: Tensor, right: Tensor) -> bool:
        """Whether the left factor can be the one-hot rows of this index."""
        rows = left.elements // max(left.dims[-1], 1) if left.dims else 0
        known = index is not None and len(right.dims) == 2 and rows == index.elements
        return known and left.dims[-1] == right.dims[0] and left.dims[-1] > 1

    for op in step.near(event, after=8) if index else ():  # ops to the matmul: casts and views
        left, right = step.tensor(op), step.tensor(op, 1)
        if left and right and step.name(op) in PLAIN_MATMULS and chosen(left, right):
            sizes = [{each.elements for each in step.tensors(at)} for at in passed]
            pairs = zip(passed, sizes, strict=True)
            kept = [at for at, read in pairs if at == event or left.elements in read]
            return [*kept, op], left, right
        passed.append(op)
    return None


def _index_change(step: Step, group: OneHotMatmul, speed: Speed) -> GraphChange:
    ops, left, right = group
    rows, width = step.below(ops), right.dims[1]
    size = (right.bytes or 0) / max(right.elements, 1) * width
    moved = 2 * size * left.elements / left.dims[-1]
    launching = [at for at, op in enumerate(ops) if len(step.below([op]))]
    kept = min(launching, key=lambda at: int(step.trace.host.length[ops[at]]), default=0)
    events, ns = np.array(ops, np.int64), step.memory_ns(speed, moved)
    forward = step.one_for_many(events, rows, ns, (kept,))
    behind = step.below(step.backward(ops[-1:]))
    if not len(behind):
        return forward
    ns = step.memory_ns(speed, (right.bytes or 0) + 2 * moved)
    return joined([forward, step.one_kernel(behind, ns)])


# The places of the target and of the source among the arguments.
ATOMIC_ADDS = {
    "aten::index_add_": (0, 3), "aten::index_add": (0, 3), "aten::scatter_add_": (0, 3),
    "aten::scatter_add": (0, 3), "aten::scatter_reduce_": (0, 3), "aten::scatter_reduce": (0, 3),
    "aten::index_put_": (0, 2), "aten::_index_put_impl_": (0, 2),
}  # fmt: skip
MOST_ROWS = 256
FEWEST_EACH = 64
INDEX_BYTES = 8 + 8 + 4 + 4  # of a one-hot element: filled, read, converted, read
SKINNY = 0.6  # of the bandwidth that other kernels reach
HOST_LONGER = 5.0  # what the host takes: one_hot, a cast, a transpose and a matmul for one op


@fix("A matmul instead of colliding atomics", "gpu shapes")
def colliding_atomics(step: Step) -> Proposals:
    """A matmul with one-hot rows instead of atomics that collide.

    What it looks for: `index_add`, `scatter_add`, `scatter_reduce` or `index_put` with `accumulate`
    that add many rows to few. Atomic additions to one address run one after the other.

    What must hold: the result has at most 256 rows, each gets at least 64 on average, and the
    kernel takes at least twice the time of its bytes. Then a matmul with a one-hot factor adds
    faster.

    What changes: the op becomes `one_hot(index).to(dtype).T @ source`. The one-hot tensor is filled
    (in int64), converted, and read by the matmul together with the source. The host issues four
    more ops.
    """
    adds: dict[int, tuple[int, int, float, float]] = {}  # op -> from `many` rows to `few`
    for event in step.ops(*ATOMIC_ADDS).tolist():
        call, rows = step.call(event), step.below([event])
        puts = "index_put" in call.name
        target, source = (call.tensor(at) for at in ATOMIC_ADDS[call.name])
        if not len(rows) or not target or not source or not target.dims or not target.elements:
            continue
        dim = 0 if puts else (call.integer(1) or 0)
        replaces = puts and call.flag(3) is not True  # the argument `accumulate` of index_put_
        if replaces or not -len(target.dims) <= dim < len(target.dims):
            continue
        few, width = target.dims[dim], target.elements // target.dims[dim]
        many, size = source.elements // max(width, 1), float(source.bytes or 0)
        slow = step.ns(rows) > 2.0 * step.move_ns(size)  # than its bytes at the bandwidth
        if few <= MOST_ROWS and many >= FEWEST_EACH * few and slow:
            adds[event] = few, many, size, 2.0 * few * source.elements
    if not adds:
        return
    first, name = next(iter(adds)), bare(step.name(next(iter(adds))))
    count = plural(len(adds), name, name)
    why = f"{count} per step: atomics of {adds[first][1]} rows collide in {adds[first][0]}"

    def matmul(event: int, speed: Speed) -> GraphChange:
        few, many, size, flops = adds[event]
        one_hot = 2 * STARTING_NS + step.memory_ns(speed, few * many * INDEX_BYTES)
        product = step.memory_ns(speed, size / SKINNY)
        work = step.arithmetic_ns(speed.matmul, flops, "fp32", False)
        kernel = step.one_kernel(step.below([event]), one_hot + max(product, work))
        return joined([kernel, GraphChange(removed=step.stretches([event]))])

    changes = at_speeds(lambda speed: joined((matmul(event, speed) for event in adds), HOST_LONGER))
    order = "add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x"
    risk = "the sum runs in another order: compare the result"
    yield Proposal(order, why, *changes, risk=risk, events=shown([*adds]))


SORTS = ("aten::sort", "aten::argsort")
SLICES = frozenset({"aten::slice", "aten::narrow", "aten::select"})
SHAPELESS = frozenset({"aten::detach", "aten::unbind"})
MOST_KEPT = 0.25  # of the sorted dimension
TOPK_PASSES = 6.0  # of topk over its input, as radix select makes them
TOPK_NS = 12_000  # the small kernels of topk
SORT_ON_CPU = (0.8, 0.95, 0.5)  # of the time goes


@fix("topk instead of a full sort", "gpu shapes", steps="any")
def full_sort(step: Step) -> Proposals:
    """The largest elements with topk instead of a full sort.

    What it looks for: `sort` or `argsort`, and after it a slice of what it made.

    What must hold: every op within reach that reads a tensor of the sort's shape and type is such a
    slice, and the slices keep at most a quarter of the sorted dimension.

    What changes: the kernels of the sort become those of topk, which reads its input a few times
    and sorts only what it keeps. The host time of the first op stays. On a CPU a fifth of the sort
    remains, at worst half (32 rows of 20,000 elements: 49 to 3 ms).
    """
    sorts: dict[int, int] = {}  # how many elements of the sorted dimension slices read
    for event in step.ops(*SORTS).tolist():
        tensor = step.tensor(event)
        calls = map(step.call, step.near(event, after=6))  # ops after the sort
        sizes = [_kept_of_sort(call, tensor) for call in calls] if tensor and tensor.dims else []
        read = [size for size in sizes if size is not None]
        if tensor and read and min(read) > 0 and max(read) <= MOST_KEPT * max(tensor.dims):
            sorts[event] = max(read)
    if not sorts:
        return
    first, kept = next(iter(sorts.items()))
    tensor = step.tensor(first)
    size = max(tensor.dims) if tensor else 0
    why = f"{plural(len(sorts), 'sort')} per step of {size} elements of which {kept} are read"
    order = f"use torch.topk(x, {kept}) instead of the sort"
    if isinstance(step, CpuStep):
        yield step.proposal(order, why, [*sorts], SORT_ON_CPU)
        return

    def topk(event: int, speed: Speed) -> GraphChange:
        rows, tensor = step.below([event]), step.tensor(event)
        if not len(rows) or tensor is None or tensor.bytes is None:
            return GraphChange()
        return step.one_kernel(rows, TOPK_NS + step.memory_ns(speed, TOPK_PASSES * tensor.bytes))

    changes = at_speeds(lambda speed: joined(topk(event, speed) for event in sorts))
    yield Proposal(order, why, *changes, events=shown([*sorts]))


def _kept_of_sort(call: OpCall, made: Tensor) -> int | None:
    """What this op keeps of a sort's result; None where it does not read it, 0 for all of it."""
    tensors = [each for each in call.every_tensor() if each.dims == made.dims]
    if not tensors or call.name in SHAPELESS:
        return None
    if call.name not in SLICES:
        return 0
    if call.name == "aten::select":
        return 1
    dim, start, end = (call.integer(at) for at in (1, 2, 3))
    if dim is None or end is None:
        return 0
    size = max(made.dims[dim % len(made.dims)], 1)
    if call.name == "aten::narrow":
        return end
    first = 0 if start is None else start % size if start < 0 else start
    return max(min(end, size) - first, 0) if end >= 0 else 0


Kept = tuple[int, int]  # the positions that are read, and all of them
Shape = tuple[int, ...]
Slice = tuple[int, int]  # the dimension, and how much of it is kept
LEAST_RESULT = 1_000_000  # elements of the result: less is soon computed
SLICE_ORDER = "slice before the linear layer, as in head(x[:, -1:])"


@fix("A linear layer at the positions that are read", "gpu shapes", steps="any")
def sliced_linear(step: Step) -> Proposals:
    """A linear layer at the positions that are read, not at all of them.

    What it looks for: `linear` over a sequence, often the one that gives the scores of every word,
    and after it a slice that keeps a few positions of its result (`logits[:, -1]`).

    What must hold: until the step ends, every op of the forward pass that reads a tensor of the
    result's shape is such a slice. All take the same dimension, not that of the features, and keep
    at most a quarter of it.

    What changes: of the layer and of its backward pass, the share of the positions that are read
    remains. At worst half of the gain is lost to a matmul of few rows.

    When it is wrong: a program that keeps the whole result for later steps, and reads it there.
    """
    sizes = {event: _result(step.call(event)) for event in step.ops("aten::linear").tolist()}
    slices = step.outer[step.named(SLICES)[step.outer]].tolist()
    in_part = {given.dims for op in slices if (given := step.tensor(op))}  # few steps have any
    large = [
        event
        for event, dims in sizes.items()
        if math.prod(dims) >= LEAST_RESULT and dims in in_part
    ]
    readers = _readers(step) if large else {}
    for event in large:
        dims = sizes[event]
        found = _kept_positions(step, event, dims, readers.get(dims, []))
        if found is None:
            continue
        kept, size = found
        positions, left = plural(size, "position"), kept / size
        why = f"linear to {dims[-1]} features at {positions}, of which the step reads {kept}"
        events = [event, *step.backward([event]).tolist()]
        if isinstance(step, CpuStep):
            yield step.proposal(SLICE_ORDER, why, events, (1 - left, 1 - left, (1 - left) / 2))
            continue
        usual, worst = (step.shorter(step.below(events), share) for share in (left, (1 + left) / 2))
        yield Proposal(SLICE_ORDER, why, usual, worst=worst, events=(event,))


def _readers(step: Step) -> dict[Shape, list[int]]:
    """The outermost ops of the forward pass that read a tensor of each shape, in order of time."""
    readers: dict[Shape, list[int]] = {}
    backward = step.trace.host.nearest(step.outer, step.nodes.is_node[: step.trace.host.count])
    for op in step.outer[backward < 0].tolist():
        for dims in {each.dims for each in step.tensors(op)}:
            readers.setdefault(dims, []).append(op)
    return readers


def _result(call: OpCall) -> Shape:
    """The shape that a linear layer gives; empty where it is not known or has no positions."""
    given, weight = call.tensor(0), call.tensor(1)
    if given is None or weight is None or len(given.dims) < 3 or len(weight.dims) != 2:
        return ()
    return (*given.dims[:-1], weight.dims[0])


def _kept_positions(step: Step, event: int, made: Shape, readers: list[int]) -> Kept | None:
    """How many positions of a layer's result are read, where these are few."""
    later = [op for op in readers if step.trace.host.start[op] >= step.trace.host.end[event]]
    if any(step.name(op) not in SLICES for op in later):
        return None
    slices = [_slice(step.call(op), made) for op in later]
    parts = [each for each in slices if each and each[1] < made[each[0]]]  # [:] is the whole
    dims = {dim for dim, _ in parts}
    if None in slices or len(dims) != 1:
        return None
    size = made[dims.pop()]
    kept = sum(count for _, count in parts)  # several slices may keep different positions
    return (kept, size) if 0 < kept <= 0.25 * size else None  # of the positions


def _slice(call: OpCall, made: Shape) -> Slice | None:
    """What a slice keeps of the result; None for part of the features, or where that is open."""
    dim = call.integer(1)
    if dim is None or dim % len(made) == len(made) - 1:
        return None
    dim, size = dim % len(made), made[dim % len(made)]
    if call.name == "aten::select":
        return dim, 1
    start, end = call.integer(2), call.integer(3)
    if call.name == "aten::narrow":
        return None if end is None else (dim, end)
    first = 0 if start is None else max(start + size, 0) if start < 0 else min(start, size)
    last = size if end is None else end + size if end < 0 else min(end, size)
    return dim, max(last - first, 0)


MOST_PERCENT = 10.0
SHORTEST_NS = 50_000
LEAST_SHARE = 0.3
OF_ROOF = 1 / 3
# What is faster, by a part of the kernel's name or of the op's.
ROOF_ADVICE = {
    "depthwise": "run depthwise convolutions in channels_last",
    "grouped": "use fewer groups, or channels_last",
    "embedding_dense_backward": "write a small embedding as F.one_hot(index) @ table",
    "cumsum": "take cumsum over the last dimension",
    "sort": "use torch.topk where few elements are used",
    "index": "index whole rows along the first dimension",
    "copy": "choose a layout that needs no transposing copy",
    "sum": "reduce over the last dimension, or in two steps",
}


@fix("A kernel far below the card's roofs", "gpu")
def far_below_roof(step: Step) -> Proposals:
    """A kernel that is far below what the card can do.

    What it looks for: the kernel with most of the GPU time, where it reaches less than a tenth of
    every roof: of the memory's bandwidth and of the peak for its arithmetic.

    What must hold: its bytes and its arithmetic are known exactly, one launch takes at least 50 us,
    and it has at least 30% of the GPU's time. Kernels that another fix explains (matmuls with odd
    sizes, float32 without TF32, softmax with strides, atomics that collide) are left to it.

    What changes: nobody knows what the program will use instead, so the prediction is cautious:
    half of the time; at best a third of the roof, at worst nine tenths of the time.
    """
    spent: dict[int, float] = {}
    for row in step.rows_where(_is_slow).tolist():
        if case := step.case(row):
            spent[case.number] = spent.get(case.number, 0.0) + step.ns([row])
    number = max(spent, key=lambda at: spent[at], default=-1)
    if number < 0 or spent[number] < LEAST_SHARE * step.ns(step.rows):
        return
    case = step.trace.kernel_rows[number]
    mine = step.rows_where(lambda each: each.number == number)
    share = f"{case.roof_percent:.1f}%"
    why = f"{plural(len(mine), 'kernel')} of {case.op} per step at {share} of the card's roof"
    text, op = f"{case.name} {case.op}".lower(), case.op.removeprefix("aten::")
    known = (what for part, what in ROOF_ADVICE.items() if part in text)
    order = next(known, f"write {op} with another op or layout")
    yield Proposal(order, why, *step.repriced(mine, _roof_ns), events=step.events(mine))


def _is_slow(case: KernelRow) -> bool:
    """Whether a kernel is surely slow, and no other fix has a better answer."""
    named = "softmax" in case.name.lower() or case.op in ATOMIC_ADDS or case.role == "attention"
    explained = named or misaligned(case) or is_plain(case) or is_double(case)
    sure = case.roof_percent is not None and case.cost_certainty == Certainty.EXACT
    known = sure and (case.roof_percent or 0.0) < MOST_PERCENT
    return known and (case.median_ns or 0) >= SHORTEST_NS and not explained


def _roof_ns(case: KernelRow, speed: Speed) -> float:
    now = case.median_ns or 0.0
    if speed is BEST:
        return now * (case.roof_percent or 0.0) / 100 / OF_ROOF
    return now * (0.5 if speed is USUAL else 0.9)
