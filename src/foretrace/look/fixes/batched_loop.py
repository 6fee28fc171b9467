"""Run a loop over slices as one batch.

What it looks for: one sequence of ops, with the same shapes, that repeats at least four times in a
step, on slices of one tensor: `x[i]` with an index that advances, or the parts of `unbind`, `split`
or `chunk`. The results are put together (`stack`, `cat`), written to slices, or are numbers that
each iteration adds to their sum (a loss for each sample). On a CPU also samples of a list: at least
32 rounds of short ops, with matmuls of one row each, whose results are put together.

What must hold: layers repeat too, but take no slices. The iterations must not need each other's
results; a trace does not show that. Cells of `nn.GRUCell`, `nn.LSTMCell` and `nn.RNNCell` do, and
have a module that runs all steps. So do those written out: two matmuls, `sigmoid` and `tanh`. A
round of samples must not choose a token for the next one, nor be able to pass a state on.

What changes: the first iteration remains and its kernels work on all slices: at 70% of the peak or
80% of the bandwidth, weights read once, and no faster than one slice. Written-out attention (3
dimensions) becomes one fused kernel at half the peak. A loop of cells keeps 18% of the host's
time, and its input products become one. Cells written out keep 12%, and two kernels each. On a CPU
four rounds remain, at most half of them. Convolutions of parts are one with groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial, reduce

import numpy as np
from msgspec import Struct

from foretrace.base.units import plural, whole
from foretrace.look.fixes._changes import both, of_each
from foretrace.look.fixes._cpu import CpuStep, dense
from foretrace.look.fixes._host import LONG_NS, tops
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.look.rules._seen import matmul_ns
from foretrace.trace.intervals import Bools, Floats, Ints
from foretrace.work.costs import OpCall, Tensor
from foretrace.work.costs.limits import peak_flops

REPEATED = 4
LONGEST = 512  # ops in an iteration
MOST_OPS = 200_000
FREED = 0.8
NEAR = 3  # ops between a loop and what makes its slices or joins its results
SLICES = frozenset({"aten::select", "aten::slice", "aten::narrow"})
PARTS = frozenset(
    f"aten::{name}" for name in ("unbind", "split", "chunk", "split_with_sizes", "tensor_split")
)
JOINS = frozenset({"aten::stack", "aten::cat"})
ADDS = frozenset({"aten::add", "aten::add_"})
CELLS = {
    "aten::gru_cell": "nn.GRU",
    "aten::lstm_cell": "nn.LSTM",
    "aten::rnn_tanh_cell": "nn.RNN",
    "aten::rnn_relu_cell": "nn.RNN",
}
CELLS_ON_CPU, ON_CPU = 8, (0.35, 0.7, 0.1)  # calls, and the share of their time that goes
SHORT_NS = 50_000  # an op of a loop over slices on a CPU, at most, that gains by a batch
FEW_ROUNDS = 4.0  # of the loop, that one batch takes
SAMPLES, LARGEST = 32, 16_384  # rounds over samples, and elements of a row and its weights
BATCH = "run all slices in one call, along a batch dimension"
STACK = "run the samples as one batch (torch.stack)"
NEEDS = "holds where no iteration needs the result of another"
CELL_LEFT = (0.18, 0.12, 0.3)  # as expected, at best, at worst (0.19 on an H200's host)
WRITTEN_LEFT = (0.12, 0.08, 0.2)  # 0.11 on an H200's host
MATMULS = frozenset({"aten::matmul", "aten::mm", "aten::addmm", "aten::linear"})
CONVOLUTIONS = frozenset({"aten::conv1d", "aten::conv2d", "aten::conv3d"})
NORMS = frozenset({"aten::layer_norm", "aten::batch_norm", "aten::rms_norm", "aten::group_norm"})
CHOOSES = frozenset({"aten::argmax", "aten::multinomial", "aten::topk"})
WEIGHTS = {"aten::mm": 1, "aten::addmm": 2}  # which operand of a product the slices share
ATTENTION = "aten::scaled_dot_product_attention"
WRITTEN_OUT = "aten::_scaled_dot_product_attention_math"
MATMUL, MEMORY, FUSED = 0.7, 0.8, 0.5  # shares of the roofs
SHORTEST_NS = 2_000.0
UNKNOWN = 0.25  # of the time of all slices, for a kernel of unknown cost
SPREAD = (1.0, 0.8, 1.6)  # of the new GPU times


class Loop(Struct, frozen=True):
    """Ops by iteration, and the ops that make the slices before and join the results after."""

    ops: Ints
    before: list[int]
    after: list[int]
    is_last: bool
    of_slices: bool = True

    def stretch(self, step: Step) -> tuple[int, int]:
        """All of it; at the end of a step with most of what follows: Python frees the results."""
        host = step.trace.host
        first = self.before[0] if self.before else int(self.ops[0, 0])
        last = int(host.end[self.after[-1] if self.after else self.ops[-1, -1]])
        freed = FREED * (step.span.end_ns - last) if self.is_last else 0
        return int(host.start[first]), last + int(freed)


def loops(step: Step) -> list[Loop]:
    """The loops of the length that has most of the host's time."""
    ops, host = tops(step), step.trace.host
    if not REPEATED <= len(ops) <= MOST_OPS:
        return []
    number: dict[tuple[str, str], int] = {}
    calls = [step.call(op) for op in ops.tolist()]
    keys = [(call.name, str(call.dims)) for call in calls]
    codes = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
    places = np.array([_place(call) for call in calls], np.float64)
    best: tuple[float, list[Loop]] = (0.0, [])
    for length in range(1, min(LONGEST, len(ops) // REPEATED) + 1):
        runs = repeats(codes, length)
        found = [loop for run in runs if (loop := _loop(step, ops, places, length, *run))]
        spent = float(sum(host.length[loop.ops].sum() for loop in found))
        best = max(best, (spent, found), key=lambda each: each[0])
    return best[1]


def repeats(codes: Ints, length: int) -> Iterator[tuple[int, int]]:
    """Where the sequence repeats itself after `length` ops: the first op, and how many ops."""
    same = np.concatenate(([False], codes[length:] == codes[:-length], [False]))
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    for start, end in edges.reshape(-1, 2).tolist():
        if (end - start) // length + 1 >= REPEATED:
            yield start, end - start + length


def _place(call: OpCall) -> float:
    """The number of the slice that an op takes; NaN where it takes none."""
    sliced = call.name in SLICES and len(call.concrete) > 2
    place = whole(call.concrete[2]) if sliced else None
    return np.nan if place is None else place


def _loop(step: Step, ops: Ints, places: Floats, length: int, start: int, size: int) -> Loop | None:
    """A loop over slices or samples that computes; None if it is none."""
    count = size // length
    mine = ops[start : start + count * length].reshape(count, length)
    taken = places[start : start + count * length].reshape(count, length)
    before = ops[max(start - NEAR, 0) : start + min(length, NEAR)]
    after = ops[start + count * length : start + size + NEAR]
    parts = [op for op in before.tolist() if _has_parts(step, op, count)]
    joins = [op for op in after.tolist() if step.name(op) in JOINS][:1]
    # which ops take the next slice of their tensor in each iteration; NaN equals nothing
    apart = np.diff(taken, axis=0)
    steady = (apart == apart[0]).all(axis=0) & (apart[0] != 0)
    advances = bool(parts or steady.any())
    if advances:
        found = bool(joins) or _writes(step, mine[0], steady) or _sums(step, mine[0])
        found = found and not (step.on_cpu and _is_elman(step, mine[0]))
    else:
        found = bool(joins) and _of_samples(step, mine)
    is_last = int(ops[-1]) in (*joins, int(mine[-1, -1]))
    works = found and (step.on_cpu or len(step.below(mine[0])))
    return Loop(mine, parts, joins, is_last, advances) if works else None


def _is_elman(step: Step, ops: Ints) -> bool:
    """Whether an iteration may be a cell that no module of PyTorch is known for by its ops."""
    names = Counter(step.name(op) for op in ops.tolist())
    cell = _may_be_cell(names) and not _written(names)
    return cell and _passes_on([call for op in ops.tolist() if (call := step.call(op)).dims])


def _may_be_cell(names: Counter[str]) -> bool:
    return names["aten::tanh"] + names["aten::sigmoid"] > 0 and _matmuls(names) > 1


def _of_samples(step: Step, ops: Ints) -> bool:
    """Whether a CPU computes one small row in each of many rounds that need nothing of others."""
    calls = [call for op in ops[0].tolist() if (call := step.call(op)).dims]
    factors = [each for call in calls if call.name in MATMULS and (each := _factors(call))]
    alone = [each for each in factors if len(each[0].dims) == 1 or each[0].dims[0] == 1]
    rows = any(max(one.elements for one in each) <= LARGEST for each in alone)
    return step.on_cpu and len(ops) >= SAMPLES and rows and not _passes_on(calls)


def _factors(call: OpCall) -> list[Tensor]:
    """The factors of a product, without a bias."""
    return dense(call)[call.name == "aten::addmm" :]


def _passes_on(calls: list[OpCall]) -> bool:
    """Whether a round may need the one before it: it chooses a token, or could take a state (added
    to the input, joined with it, or as wide as what the round makes). Cells have no norms.
    """
    names = {call.name for call in calls}
    if "aten::embedding" in names and names & CHOOSES:
        return True
    products = [call for call in calls if call.name in MATMULS]
    operands = [_factors(call) for call in products]
    taken = {each[0].dims[-1] for each in operands[:1] if each}
    made = {
        each[1].dims[0 if call.name == "aten::linear" else -1]
        for call, each in zip(products, operands, strict=True)
        if len(each) > 1
    }
    added = (dense(call) for call in calls if call.name in ADDS)
    adds = any(len(each) > 1 and each[0].dims == each[1].dims for each in added)
    return not names & NORMS and bool(adds or names & JOINS or taken & made)


def _has_parts(step: Step, op: int, count: int) -> bool:
    """Whether an op makes about as many parts as there are iterations."""
    if step.name(op) not in PARTS:
        return False
    children = int((step.trace.host.parent[step.inside] == op).sum())
    return count <= children <= count + 1


def _writes(step: Step, ops: Ints, steady: Bools) -> bool:
    """Whether every iteration writes its result to a slice: the op before `copy_` makes one."""
    names = [step.name(op) for op in ops[1:].tolist()]
    return any(
        sliced and name == "aten::copy_" for sliced, name in zip(steady, names, strict=False)
    )


def _sums(step: Step, ops: Ints) -> bool:
    """Whether an iteration adds one number to another, and passes no state of a cell on."""
    cell = _may_be_cell(Counter(step.name(op) for op in ops.tolist()))
    added = (step.tensors(op) for op in ops.tolist() if step.name(op) in ADDS)
    return not cell and any(len(each) > 1 and all(not one.dims for one in each) for each in added)


def _on_cpu(step: CpuStep) -> Proposals:
    """Cells that a Python loop calls, each module's in one proposal."""
    for name, module in CELLS.items():
        found = step.ops(name).tolist()
        if len(found) >= CELLS_ON_CPU:
            why = f"{plural(len(found), 'call')} of {step.bare(found[0])} in a Python loop"
            order = f"run the whole sequence at once ({module})"
            yield step.proposal(order, why, found, ON_CPU)
    if found := loops(step):
        yield from _at_once(step, found)


def _at_once(step: CpuStep, found: list[Loop]) -> Proposals:
    """The loops of a CPU as one call each, forward and backward."""
    ops = [op for loop in found for op in (*loop.before, *loop.ops.reshape(-1), *loop.after)]
    names = Counter(step.name(op) for op in found[0].ops[0].tolist())
    cell, convolves = _written(names), names.keys() <= CONVOLUTIONS and found[0].before
    if step.took_ns(ops) >= SHORT_NS * len(ops) and not convolves:
        return
    rounds, order = len(found[0].ops), BATCH if found[0].of_slices else STACK
    left = min(FEW_ROUNDS / rounds, 0.5)
    shares = ON_CPU if cell else (1 - left, 1 - left / FEW_ROUNDS, 0.5)
    if cell or convolves:
        order = f"run the whole sequence at once ({cell})" if cell else "one convolution"
        same = all(len(loop.ops) == rounds for loop in found)
        order += f" with groups{f'={rounds}' if same else ''}" if convolves else ""
    events = [*ops, *step.backward(ops).tolist()]
    stretches = step.together(events, LONG_NS)
    yield step.proposal(order, _why(found), ops, shares, "" if cell else NEEDS, stretches)


def _why(found: list[Loop]) -> str:
    length, times = found[0].ops.shape[1], sum(len(each.ops) for each in found)
    ops = f"the same {length} ops run" if length > 1 else "the same op runs"
    return f"{ops} {times} times per step, on one {'slice' if found[0].of_slices else 'row'} each"


@fix("Run a loop over slices as one batch", "gpu shapes", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    found = loops(step)
    if not found:
        return
    names = Counter(step.name(op) for op in found[0].ops[0].tolist())
    cell = next((CELLS[name] for name in sorted(names) if name in CELLS), "") or _written(names)
    order = BATCH
    if cell:
        order = f"replace the loop of cells by one {cell}"
    elif ATTENTION in names:
        order = "call scaled_dot_product_attention once for all slices"
    changes = of_each(partial(_cells if cell else _batch, step, found), (0, 1, 2))
    events = shown(found[0].ops[:, 0])
    yield Proposal(order, _why(found), *changes, risk="" if cell else NEEDS, events=events)


def _written(names: Counter[str]) -> str:
    """The module for a cell that is written out, if these are its ops."""
    gates = min(names["aten::sigmoid"], names["aten::tanh"])
    if gates < 1 or _matmuls(names) < 2:
        return ""
    return "nn.LSTM" if names["aten::tanh"] > 1 else "nn.GRU"


def _matmuls(names: Counter[str]) -> int:
    return sum(names[name] for name in MATMULS)


def _cells(step: Step, found: list[Loop], at: int) -> GraphChange:
    """All steps in one module: the products with the inputs at once, the others one by one."""
    written = not any(step.name(op) in CELLS for op in found[0].ops[0].tolist())
    left = (WRITTEN_LEFT if written else CELL_LEFT)[at]
    gone: list[int] = []
    for ops in (ops for loop in found for ops in loop.ops[1:]):
        gone += step.below(ops)[:-2].tolist() if written else []
        for op in ops.tolist():  # the kernels of the first product of a cell
            rows = step.below([op])
            makers = step.makers(step.trace.gpu.launch[rows])
            cell = step.name(op) in CELLS and len(rows)
            gone += rows[makers == makers[0]].tolist() if cell else []
    removed = tuple(loop.stretch(step) for loop in found)
    return GraphChange(removed, left, gone=frozenset(gone) | _around(step, found))


def _around(step: Step, found: list[Loop]) -> frozenset[int]:
    """The kernels that put the results together."""
    after = [op for loop in found for op in loop.after]
    return frozenset(step.below(after).tolist())


def _batch(step: Step, found: list[Loop], at: int) -> GraphChange:
    """The first iteration on all slices, forward and backward."""
    change = GraphChange(gone=_around(step, found))
    for loop in found:
        first, rest, count = loop.ops[0], loop.ops[1:].reshape(-1), len(loop.ops)
        back = step.backward(rest)
        away = [*loop.before, *first[step.named(SLICES)[first]].tolist()]
        behind = int(step.trace.host.end[first[-1]]), loop.stretch(step)[1]
        removed = (behind, *step.stretches([*away, *back.tolist()]))
        gone = step.distinct_rows([step.below(rest), step.below(back)])
        # the attention that does not run in a fused kernel
        above = step.callers(step.ops(WRITTEN_OUT))
        written = first[np.isin(first, above) & step.named((ATTENTION,))[first]]
        fused = [_fused(step, op, count, SPREAD[at]) for op in written.tolist()]
        kept = step.distinct_rows([step.below(first), step.below(step.backward(first))])
        kept = kept[~np.isin(kept, [row for each in fused for row in each.length])]
        length = {row: SPREAD[at] * _all_ns(step, row, count) for row in kept.tolist()}
        mine = GraphChange(removed, length=length, gone=frozenset(gone.tolist()))
        change = reduce(both, [mine, *fused], change)
    return change


def _fused(step: Step, op: int, count: int, spread: float) -> GraphChange:
    """Attention for all slices as one kernel, with the host time of a plain op."""
    ((start, end),), rows = step.stretches([op]), step.below([op])
    query, key, peak = step.tensor(op), step.tensor(op, 1), peak_flops(step.device, "bf16", True)
    ns = count * step.ns(rows) * UNKNOWN
    if query is not None and key is not None and peak:
        flops = 4 * count * float(np.prod(query.dims)) * key.dims[-2]
        ns = max(flops / (FUSED * peak) * 1e9, SHORTEST_NS)
    gone, length = frozenset(rows[1:].tolist()), {int(rows[0]): spread * ns}
    return GraphChange(((start + step.plain_ns, end),), length=length, gone=gone)


def _all_ns(step: Step, row: int, count: int) -> float:
    """The time of a kernel on all slices; weights that they share move once."""
    case, own = step.case(row), float(step.trace.gpu.length[row])
    if case is None or (case.flops is None and case.bytes is None) or step.device is None:
        return max(UNKNOWN * count * own, own)
    compute = (matmul_ns(step.device, case) or 0.0) if case.role in ("gemm", "conv") else 0.0
    at = WEIGHTS.get(case.op)
    weights = case.call.tensor(at) if case.call and at is not None else None
    shared = (count - 1) * (weights.bytes or 0) if weights else 0
    moved = step.move_ns(float((case.bytes or 0) * count) - shared) / MEMORY
    return max(count * compute / MATMUL, moved, own, SHORTEST_NS)
