"""Fixes for what the host does itself: loading data, Python code, loops over slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial, reduce

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base.units import percent_text, plural, whole
from foretrace.look.fixes._step import (
    LOADER,
    LONG_NS,
    MATMULS,
    CpuStep,
    Proposal,
    Proposals,
    Step,
    Stretches,
    both,
    dense,
    elements,
    fix,
    loading,
    of_each,
    pauses,
    share,
    shown,
    tops,
)
from foretrace.look.rules import matmul_ns
from foretrace.read.run_record import content_beside
from foretrace.trace.intervals import Bools, Floats, Ints
from foretrace.trace.replay import GraphChange
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work.costs import OpCall, Tensor, cost
from foretrace.work.costs.limits import peak_flops

# FLOP/s of a large float32 matmul on one core with vectors of 512 bits, at most; and a matmul that
# is large enough to tell.
CORE_FLOPS, LARGE_FLOP = 130e9, 1e8
PARALLEL = 32_768  # elements from which PyTorch gives an op to several threads
SHORT_OP_NS = 50_000  # to start and join threads takes a tenth of it or more
MORE_THREADS = (0.5, 0.9, 0.0)
WORKER_ITERATOR = "_MultiProcessingDataLoaderIter"


class _Machine(Struct):
    cpus: int = 0


class _Settings(Struct):
    threads: int = 0


class _Record(Struct):
    machine: _Machine = msgspec.field(default_factory=_Machine)
    settings: _Settings = msgspec.field(default_factory=_Settings)


@fix("Use more threads", steps="cpu")
def threads(step: CpuStep) -> Proposals:
    """Use more threads.

    What it looks for: a CPU that computes with fewer threads than the machine has, as the run
    record beside the trace says, or large matmuls at the rate of one core.

    What must hold: ops are large enough for PyTorch to give them to several threads, and for these
    to pay off: at least 50 us. Nothing else uses the cores: where a DataLoader's workers did, two
    threads made a step of 14 ms take 88.

    What changes: these ops take less time, by the missing share of the cores at best. Without a run
    record half of their time goes, at worst nothing: the machine may have one core.
    """
    loaded = step.trace.host.named(lambda name: WORKER_ITERATOR in name)
    if loaded.any() or step.trace.run.timing.is_crowded:
        return
    large = [event for event, call in step.arguments.items() if elements(call) >= PARALLEL]
    parallel = [event for event in large if step.took_ns([event]) >= SHORT_OP_NS]
    threads, cores = recorded(step.trace)
    rate = max((_rate(step, *each) for each in step.arguments.items()), default=0.0)
    if threads and cores and 2 * threads <= cores:
        gone = 1 - threads / cores
        why = f"{plural(threads, 'thread')} on a machine of {cores} cores"
        order = f"torch.set_num_threads({cores})"
        yield step.proposal(order, why, parallel, (0.7 * gone, gone, 0.0))
    elif not (threads and cores) and 0 < rate < CORE_FLOPS:
        why = f"large matmuls run at {rate / 1e9:.0f} GFLOP/s, what one core gives"
        order = "use more threads (OMP_NUM_THREADS, torch.set_num_threads)"
        risk = "the machine must have more cores"
        yield step.proposal(order, why, parallel, MORE_THREADS, risk)


def recorded(trace: Trace) -> tuple[int, int]:
    """Threads and cores as the run record has them; 0 without one."""
    try:
        record = msgspec.json.decode(content_beside(trace.path), type=_Record)
    except (ValueError, RecursionError):
        return 0, 0
    return record.settings.threads, record.machine.cpus


def _rate(step: CpuStep, event: int, call: OpCall) -> float:
    """FLOP/s of a large float32 matmul, else 0."""
    large = step.bare(event) in MATMULS and all(each.type == "float" for each in dense(call))
    flops = (found.flops or 0) if large and (found := cost(call)) else 0
    return flops / step.took_ns([event]) * 1e9 if flops >= LARGE_FLOP else 0.0


READY_NS = 50_000
WORKERS = 8
ALONE = "SingleProcess"
LOADING_ON_CPU, MORE_ON_CPU = (
    (0.75, 1.0, 0.0),
    (0.5, 0.9, 0.0),
)  # of the time goes: workers need cores
MOST_ON_CPU = 4
# Taking a small batch from a worker: 1.1 to 1.9 ms of two busy cores (torch 2.13). Workers made a
# step of 3.1 ms with a batch of 0.7 ms take 6.1 ms.
HANDED_NS = 1_000_000
SEED = ("aten::random_", "aten::item", "aten::_local_scalar_dense")
SAMPLER_OPS = 20  # at most, from the start of the workers to the first batch
STARTING_NS = 5_000_000  # at least: two workers took 24 ms to fork (torch 2.13)
KEEP = "DataLoader(persistent_workers=True), or fewer workers"
STARTED = "the step waits for workers that were started in the recording"


def _loading_on_cpu(step: CpuStep) -> Proposals:
    named = step.trace.host.named(lambda name: LOADER.match(name) is not None)
    long = step.trace.host.length >= 2 * HANDED_NS
    found = step.outermost(named & step.inside & long).tolist()
    single = [event for event in found if ALONE in step.name(event)]
    workers = min(recorded(step.trace)[1] or MOST_ON_CPU, MOST_ON_CPU)
    if single and workers > 1:
        why = "the step makes its batch itself (num_workers=0)"
        yield step.proposal(f"DataLoader(num_workers={workers})", why, single, LOADING_ON_CPU)
    elif found and not single:
        why = "the step waits for the DataLoader's workers"
        said = (KEEP, STARTED) if started(step) else ("more DataLoader workers", why)
        yield step.proposal(*said, found, MORE_ON_CPU)


@fix("Let workers load the data", on_cpu=_loading_on_cpu)
def data_loader(step: Step) -> Proposals:
    """Let workers load the data.

    What it looks for: time of the step in the DataLoader's own ranges
    (`enumerate(DataLoader)#…__next__`): the host makes the next batch itself, or waits for workers
    that make it.

    What must hold: the range takes a tenth of the step on the host. A batch that is ready costs
    less. On a CPU a batch takes twice what it costs to take one from a worker, and there are two
    cores.

    Workers may have been started within the recording: the DataLoader draws a seed, no op runs for
    5 ms, then it samples and asks for the first batch. A step after that waits for their start:
    more workers take longer, and `persistent_workers=True` keeps them from epoch to epoch.

    What changes: of the range remain 50 us, the time to fetch a batch that is ready. At worst eight
    workers are not enough: a batch then takes an eighth of the time that it takes alone.
    """
    host, ranges = step.trace.host, loading(step)
    spent = sum(end - start for start, end in ranges)
    if spent < 0.1 * step.span.cpu_ns:
        return
    left = share(step, ranges, READY_NS * len(ranges))
    names = {host.names[name] for name in host.name[step.inside & host.is_region].tolist()}
    alone = any(ALONE in name for name in names)
    order = f"DataLoader(num_workers={WORKERS}, pin_memory=True)"
    if not alone and started(step):
        order = KEEP
    elif not alone:
        order = "give the DataLoader more workers, or a lighter transform"
    maker = "the process itself makes" if alone else "the host waits for"
    part = percent_text(spent / step.span.cpu_ns)
    why = f"{maker} {plural(len(ranges), 'batch', 'batches')} in {part} of the step"
    worst = GraphChange(ranges, max(left, 1 / WORKERS))
    yield Proposal(order, why, GraphChange(ranges, left), worst=worst)


def started(step: Step) -> bool:
    """Whether a DataLoader started workers in the recording, before or in this step."""
    host = step.trace.host
    loads = host.named(lambda name: LOADER.match(name) is not None)
    known = np.flatnonzero(host.lasting & (host.is_op | loads) & (host.start < step.span.end_ns))
    known = step.in_order(known)
    pauses = host.start[known[1:]] - np.maximum.accumulate(host.end[known])[:-1]
    for at in (np.flatnonzero(pauses >= STARTING_NS) + 1).tolist():
        before, behind = known[max(at - len(SEED), 0) : at], known[at : at + SAMPLER_OPS]
        first = behind[loads[behind]][:1].tolist()
        if tuple(map(step.name, before)) == SEED and any(ALONE not in step.name(x) for x in first):
            return True
    return False


LEAST, EACH = 0.1, 0.05
REMAINS = 1 / 3
COVERS = 0.7  # a function that has this much of the longest stretch
FROM_LISTS = ("aten::to", "aten::lift_fresh")  # of torch.tensor(), after the numbers are copied
WALKS = 2.0  # times that: what it takes at most to find their type and number


@fix("Move Python out of the step", "gpu", steps="any")
def python_time(step: Step) -> Proposals:
    """Move Python out of the step, or vectorize it.

    What it looks for: stretches of at least 0.5 ms in which the host runs no op and no call: plain
    Python, NumPy, tokenizing, logging. The ranges of the DataLoader and of optimizers do not count.

    What must hold: each stretch takes a twentieth of the step, all take a tenth, and they come
    after the same op in at least half of the other steps. A pause of the garbage collector, or of
    another thread of Python, comes anywhere. On a CPU stretches around the `empty` of a
    `torch.tensor` call are its own: it walks through Python's numbers twice. What Python runs in
    others is not in the trace, unless stacks were recorded.

    What changes: the stretches go. At worst a third remains: what replaces them costs something
    too.
    """
    found = _usual_stretches(step)
    if step.on_cpu:
        lists = tuple(each for each in found if _makes_tensor(step, each, found))
        share, found = (
            _stretches_share(step, lists),
            tuple(each for each in found if each not in lists),
        )
        if share >= LEAST:
            why = f"torch.tensor() of Python's numbers takes {percent_text(share)} of the step"
            order = "make the tensor once, or of a NumPy array (torch.from_numpy)"
            yield _moved_out(order, why, lists)
    share = _stretches_share(step, found)
    if share >= LEAST:
        host, (start, end) = step.trace.host, max(found, key=lambda each: each[1] - each[0])
        rows = np.flatnonzero(host.is_kind("python_function") & step.inside)
        shared = np.minimum(host.end[rows], end) - np.maximum(host.start[rows], start)
        rows = rows[(shared >= COVERS * (end - start)) & (host.start[rows] >= start)]
        function = step.name(int(rows[np.argmax(host.depth[rows])])) if len(rows) else ""
        where = f": {function.rpartition('/')[2][:30]}" if function else ""
        times = plural(len(found), "stretch", "stretches")
        why = f"no op runs in {percent_text(share)} of the step ({times}{where})"
        yield _moved_out("move this Python out of the step, or vectorize it", why, found)


def _makes_tensor(step: Step, stretch: tuple[int, int], found: Stretches) -> bool:
    """Whether `torch.tensor` takes this time for Python's numbers: before one of `FROM_LISTS`,
    and looks at them before the `empty` ahead of that.
    """
    ops, host = tops(step), step.trace.host
    after = ops[host.start[ops] >= stretch[1]][: len(FROM_LISTS)].tolist()
    if tuple(step.name(op) for op in after) == FROM_LISTS:
        return True
    copied = [each for each in found if after and each[0] == host.end[after[0]]]
    return any(
        stretch[1] - stretch[0] <= WALKS * (each[1] - each[0]) and _makes_tensor(step, each, ())
        for each in copied
    )


def _moved_out(order: str, why: str, found: Stretches) -> Proposal:
    worst = GraphChange(removed=found, left=REMAINS)
    return Proposal(order, why, GraphChange(removed=found), worst=worst)


def _stretches_share(step: Step, found: Stretches) -> float:
    return sum(end - start for start, end in found) / max(step.span.cpu_ns, 1)


def _usual_stretches(step: Step) -> Stretches:
    """The stretches of this step that most other steps have after the same op."""
    least = EACH * step.span.cpu_ns
    found = [each for each in pauses(step) if each[1] - each[0] >= least]
    steps = [each for each in step.trace.spans.steps if each.start_ns != step.span.start_ns]
    if not found or not steps:
        return ()
    spans = steps[:8]  # other steps
    others = [{_op_before(step, each, span) for each in pauses(step, span)} for span in spans]
    seen = [sum(_op_before(step, each, step.span) in other for other in others) for each in found]
    return tuple(each for each, count in zip(found, seen, strict=True) if 2 * count >= len(others))


def _op_before(step: Step, stretch: tuple[int, int], span: Span) -> tuple[str, int]:
    """The name of the op that began last before a stretch, and on a CPU its place: a loop over
    elements runs one op everywhere, and other processes take the core anywhere.
    """
    host = step.trace.host
    rows = np.flatnonzero(host.is_op & host.lasting & (host.start < stretch[0]))
    if not len(rows):
        return "", 0
    last = int(rows[np.argmax(host.start[rows])])
    equal = host.name[rows] == host.name[last]
    place = int((equal & (host.start[rows] >= span.start_ns)).sum()) if step.on_cpu else 0
    return step.name(last), place


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
CELLS_ON_CPU, LOOPS_ON_CPU = 8, (0.35, 0.7, 0.1)  # calls, and the share of their time that goes
SHORT_NS = 50_000  # an op of a loop over slices on a CPU, at most, that gains by a batch
FEW_ROUNDS = 4.0  # of the loop, that one batch takes
SAMPLES, LARGEST = 32, 16_384  # rounds over samples, and elements of a row and its weights
BATCH = "run all slices in one call, along a batch dimension"
STACK = "run the samples as one batch (torch.stack)"
LOOP_RISK = "holds where no iteration needs the result of another"
CELL_LEFT = (0.18, 0.12, 0.3)  # as expected, at best, at worst (0.19 on an H200's host)
WRITTEN_LEFT = (0.12, 0.08, 0.2)  # 0.11 on an H200's host
MATMUL_OPS = frozenset({"aten::matmul", "aten::mm", "aten::addmm", "aten::linear"})
CONVOLUTIONS = frozenset({"aten::conv1d", "aten::conv2d", "aten::conv3d"})
NORMS = frozenset({"aten::layer_norm", "aten::batch_norm", "aten::rms_norm", "aten::group_norm"})
CHOOSES = frozenset({"aten::argmax", "aten::multinomial", "aten::topk"})
WEIGHTS = {"aten::mm": 1, "aten::addmm": 2}  # which operand of a product the slices share
ATTENTION = "aten::scaled_dot_product_attention"
WRITTEN_OUT = "aten::_scaled_dot_product_attention_math"
MATMUL, MEMORY, FUSED = 0.7, 0.8, 0.5  # shares of the roofs
SHORTEST_NS = 2_000.0
UNKNOWN_COST = 0.25  # of the time of all slices, for a kernel of unknown cost
BATCH_SPREAD = (1.0, 0.8, 1.6)  # of the new GPU times


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
    places = np.array([_slice_place(call) for call in calls], np.float64)
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


def _slice_place(call: OpCall) -> float:
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
    factors = [each for call in calls if call.name in MATMUL_OPS and (each := _factors(call))]
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
    products = [call for call in calls if call.name in MATMUL_OPS]
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


def _loops_on_cpu(step: CpuStep) -> Proposals:
    """Cells that a Python loop calls, each module's in one proposal."""
    for name, module in CELLS.items():
        found = step.ops(name).tolist()
        if len(found) >= CELLS_ON_CPU:
            why = f"{plural(len(found), 'call')} of {step.bare(found[0])} in a Python loop"
            order = f"run the whole sequence at once ({module})"
            yield step.proposal(order, why, found, LOOPS_ON_CPU)
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
    shares = LOOPS_ON_CPU if cell else (1 - left, 1 - left / FEW_ROUNDS, 0.5)
    if cell or convolves:
        order = f"run the whole sequence at once ({cell})" if cell else "one convolution"
        same = all(len(loop.ops) == rounds for loop in found)
        order += f" with groups{f'={rounds}' if same else ''}" if convolves else ""
    events = [*ops, *step.backward(ops).tolist()]
    stretches = step.together(events, LONG_NS)
    yield step.proposal(order, _loop_text(found), ops, shares, "" if cell else LOOP_RISK, stretches)


def _loop_text(found: list[Loop]) -> str:
    length, times = found[0].ops.shape[1], sum(len(each.ops) for each in found)
    ops = f"the same {length} ops run" if length > 1 else "the same op runs"
    return f"{ops} {times} times per step, on one {'slice' if found[0].of_slices else 'row'} each"


@fix("Run a loop over slices as one batch", "gpu shapes", on_cpu=_loops_on_cpu)
def batched_loop(step: Step) -> Proposals:
    """Run a loop over slices as one batch.

    What it looks for: one sequence of ops, with the same shapes, that repeats at least four times
    in a step, on slices of one tensor: `x[i]` with an index that advances, or the parts of
    `unbind`, `split` or `chunk`. The results are put together (`stack`, `cat`), written to slices,
    or are numbers that each iteration adds to their sum (a loss for each sample). On a CPU also
    samples of a list: at least 32 rounds of short ops, with matmuls of one row each, whose results
    are put together.

    What must hold: layers repeat too, but take no slices. The iterations must not need each other's
    results; a trace does not show that. Cells of `nn.GRUCell`, `nn.LSTMCell` and `nn.RNNCell` do,
    and have a module that runs all steps. So do those written out: two matmuls, `sigmoid` and
    `tanh`. A round of samples must not choose a token for the next one, nor be able to pass a state
    on.

    What changes: the first iteration remains and its kernels work on all slices: at 70% of the peak
    or 80% of the bandwidth, weights read once, and no faster than one slice. Written-out attention
    (3 dimensions) becomes one fused kernel at half the peak. A loop of cells keeps 18% of the
    host's time, and its input products become one. Cells written out keep 12%, and two kernels
    each. On a CPU four rounds remain, at most half of them. Convolutions of parts are one with
    groups.
    """
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
    changes = of_each(partial(_cells if cell else _batch_change, step, found), (0, 1, 2))
    events = shown(found[0].ops[:, 0])
    yield Proposal(
        order, _loop_text(found), *changes, risk="" if cell else LOOP_RISK, events=events
    )


def _written(names: Counter[str]) -> str:
    """The module for a cell that is written out, if these are its ops."""
    gates = min(names["aten::sigmoid"], names["aten::tanh"])
    if gates < 1 or _matmuls(names) < 2:
        return ""
    return "nn.LSTM" if names["aten::tanh"] > 1 else "nn.GRU"


def _matmuls(names: Counter[str]) -> int:
    return sum(names[name] for name in MATMUL_OPS)


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


def _batch_change(step: Step, found: list[Loop], at: int) -> GraphChange:
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
        fused = [_fused(step, op, count, BATCH_SPREAD[at]) for op in written.tolist()]
        kept = step.distinct_rows([step.below(first), step.below(step.backward(first))])
        kept = kept[~np.isin(kept, [row for each in fused for row in each.length])]
        length = {row: BATCH_SPREAD[at] * _all_ns(step, row, count) for row in kept.tolist()}
        mine = GraphChange(removed, length=length, gone=frozenset(gone.tolist()))
        change = reduce(both, [mine, *fused], change)
    return change


def _fused(step: Step, op: int, count: int, spread: float) -> GraphChange:
    """Attention for all slices as one kernel, with the host time of a plain op."""
    ((start, end),), rows = step.stretches([op]), step.below([op])
    query, key, peak = step.tensor(op), step.tensor(op, 1), peak_flops(step.device, "bf16", True)
    ns = count * step.ns(rows) * UNKNOWN_COST
    if query is not None and key is not None and peak:
        flops = 4 * count * float(np.prod(query.dims)) * key.dims[-2]
        ns = max(flops / (FUSED * peak) * 1e9, SHORTEST_NS)
    gone, length = frozenset(rows[1:].tolist()), {int(rows[0]): spread * ns}
    return GraphChange(((start + step.plain_ns, end),), length=length, gone=gone)


def _all_ns(step: Step, row: int, count: int) -> float:
    """The time of a kernel on all slices; weights that they share move once."""
    case, own = step.case(row), float(step.trace.gpu.length[row])
    if case is None or (case.flops is None and case.bytes is None) or step.device is None:
        return max(UNKNOWN_COST * count * own, own)
    compute = (matmul_ns(step.device, case) or 0.0) if case.role in ("gemm", "conv") else 0.0
    at = WEIGHTS.get(case.op)
    weights = case.call.tensor(at) if case.call and at is not None else None
    shared = (count - 1) * (weights.bytes or 0) if weights else 0
    moved = step.move_ns(float((case.bytes or 0) * count) - shared) / MEMORY
    return max(count * compute / MATMUL, moved, own, SHORTEST_NS)


FEWEST, LEFT = 16, 4
GROUP_ORDER = "group by value in one op (index_add_, scatter_reduce, bincount)"
GROUP_RISK = "each round may do no more than reduce its rows"
SELECTS = ("aten::index", "aten::masked_select", "aten::nonzero", "aten::where")


@fix("Group rows by their value at once", steps="cpu")
def value_masks(step: CpuStep) -> Proposals:
    """Group rows by their value at once.

    What it looks for: on a CPU, at least 16 comparisons of a tensor with numbers that follow each
    other (`x == 0`, `x == 1`, ...), each of which selects rows: neighbours of a node, samples of a
    class, points of a cluster.

    What must hold: all compare tensors of one shape, and the op behind each indexes with a mask.

    What changes: `index_add_`, `scatter_reduce` or `bincount` passes over the rows once, whatever
    the number of values. Of the rounds four remain, at worst half of their time.
    """
    for masks, ops, size in _value_rounds(step):
        events = [*ops.tolist(), *step.backward(ops).tolist()]
        count, size_text = len(masks), plural(size, "element")
        why = f"{count} masks per step (x == 0, x == 1, ...), each of {size_text}"
        shares, stretches = (1 - LEFT / count, 1 - 1 / count, 0.5), step.together(events, LONG_NS)
        yield step.proposal(GROUP_ORDER, why, masks.tolist(), shares, GROUP_RISK, stretches)


def _value_rounds(step: CpuStep) -> list[tuple[Ints, Ints, int]]:
    """For each size of a mask: the ops that make masks, all ops of their loops, and the size."""
    ops, found = tops(step), []
    compared = {at: key for at in range(len(ops)) if (key := _compared(step, ops, at))}
    for size in dict.fromkeys(size for size, _ in compared.values()):
        mine = np.array([at for at, (each, _) in compared.items() if each == size], np.int64)
        values = np.array([compared[at][1] for at in mine.tolist()])
        follows = np.flatnonzero(np.diff(values) == 1)
        if len(follows) + 1 < FEWEST:
            continue
        # a round goes on to the next mask; the last of a loop is left out
        parts = [np.arange(mine[at], mine[at + 1]) for at in follows.tolist()]
        masks = np.union1d(mine[follows], mine[follows + 1])
        found.append((ops[masks], ops[np.concatenate(parts)], size))
    return found


def _compared(step: CpuStep, ops: Ints, at: int) -> tuple[int, int] | None:
    """How many elements this op compares with which number, where the next op selects by it."""
    if step.name(int(ops[at])) != "aten::eq" or at + 1 == len(ops):
        return None
    call = step.call(int(ops[at]))
    tensor, value = call.tensor(0), whole(call.concrete[1]) if len(call.concrete) > 1 else None
    selects = step.name(int(ops[at + 1])) in SELECTS
    return (tensor.elements, value) if tensor and value is not None and selects else None
