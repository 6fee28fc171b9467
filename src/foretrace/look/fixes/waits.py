"""Fixes for a host that waits for the GPU: for a number, a size, a mask or a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._step import (
    LONG_NS,
    CpuStep,
    HostCopy,
    Proposal,
    Proposals,
    Step,
    Stretches,
    both,
    copies,
    elements,
    fix,
    host_copies,
    of_each,
    shown,
    tops,
    waited,
)
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange
from foretrace.work.families import role_of_op

ORDERS = {
    "DeviceSynchronize": "delete torch.cuda.synchronize() from the step",
    "CtxSynchronize": "delete torch.cuda.synchronize() from the step",
    "EventSynchronize": "read CUDA events after the step, not in it",
    "StreamSynchronize": "delete stream.synchronize() from the step",
}


@fix("Do not wait for the GPU inside the step", "gpu")
def synchronize(step: Step) -> Proposals:
    """Do not wait for the GPU inside the step.

    What it looks for: `torch.cuda.synchronize()`, and the waits of a stream or an event, that no op
    makes: the program itself asks for them.

    What must hold: the GPU gets work after the wait, in this step or a later one; the profiler's
    own wait at the end of a recording has none after it.

    What changes: the calls go, and nothing waits for them.
    """
    host, waits = step.trace.host, step.waiting
    # without an op around them, and a launch follows
    waits = waits[host.is_wait[waits] & (step.makers(waits) < 0)]
    launches = np.flatnonzero(host.is_launch & host.lasting)
    last = int(host.start[launches].max()) if len(launches) else 0
    waits = waits[host.end[waits] <= last]
    names = [step.name(call) for call in waits.tolist()]
    most = max(sorted(set(names)), key=names.count, default="")
    order = next((text for end, text in ORDERS.items() if end in most), "")
    if order:
        why = f"{plural(len(waits), 'call')} of {most} per step"
        risk = "timings with time.time() then measure the launches only"
        yield Proposal(order, why, step.without(waits), risk=risk, events=shown(waits))


CHOOSES, MASKED = "aten::isfinite", "aten::masked_select"
_FORMATTING = """
isfinite ne __and__ masked_select reshape view abs to min max unbind select slice ceil is_nonzero
item div gt lt cat stack detach resolve_conj resolve_neg
"""
FORMATTING = frozenset(f"aten::{name}" for name in _FORMATTING.split())
PRINT_READS = ("aten::item", "aten::is_nonzero")
PRINT_ON_CPU = (0.9, 1.0, 0.6)  # of the time goes


@fix("Print every N steps", steps="cpu")
def printed_tensors(step: CpuStep) -> Proposals:
    """Print every N steps.

    What it looks for: tensors that a CPU turns into text in a step (`print`, an f-string, logging).
    PyTorch selects the finite values other than zero to choose a format (`isfinite`,
    `masked_select`) and then reads values one by one.

    What must hold: both ops are there, in this order, on tensors of floats. Text of integers, and
    text that Python makes of numbers, leaves no such ops: that time is `python_time`'s.

    What changes: these ops go, and the Python code among them. In one of N steps they remain.
    """
    if found := printed(step):
        names = [step.name(op) for op in found]
        tensors, reads = names.count(MASKED), sum(name in PRINT_READS for name in names)
        count, values = plural(tensors, "tensor"), plural(reads, "value")
        why = f"text of {count} per step (print, f-string, log): {values} read alone"
        stretches = step.together(found, LONG_NS)
        yield step.proposal("print every N steps", why, found, PRINT_ON_CPU, stretches=stretches)


def printed(step: Step) -> list[int]:
    """The ops that turn tensors into text, in order of time."""
    ops = tops(step).tolist()
    names, found, inside = [step.name(op) for op in ops], list[int](), False
    for at, (op, name) in enumerate(zip(ops, names, strict=True)):
        begins = name == CHOOSES and MASKED in names[at : at + 4]  # ops between the two
        inside = begins or (inside and name in FORMATTING)
        found += [op] * inside
    return found


REDUCING = """
argmax argmin max min amax amin aminmax sum mean nansum std var std_mean var_mean norm
linalg_vector_norm topk any all count_nonzero median nanmedian mode logsumexp multinomial bincount
histc nonzero _unique2 unique_consecutive
"""
REDUCTIONS = frozenset(f"aten::{name}" for name in REDUCING.split())
KERNEL_NS, COPY_NS, CALL_NS = 4_000.0, 2_000.0, 30_000.0  # least times of new GPU and host work
COLD_NS = 100_000  # of Python code before an op, when the caches are cold
FREE_RATE = 15e9  # bytes per second at which a host gives memory back, at least
REDUCTION_SPEED = 0.4  # of the memory's bandwidth that a reduction reaches
CHILLING_NS = 5_000_000  # CPU ops after which the caches are cold
WARM = 0.3  # of the host's other times that remain then


@fix("Reduce on the GPU, copy the result", "gpu shapes")
def reduce_on_gpu(step: Step) -> Proposals:
    """Reduce on the GPU, and copy the result.

    What it looks for: a large tensor that is copied to the host, where CPU ops take it: ops that
    launch nothing and have an operand of its shape.

    What must hold: the ops follow the copy on its thread, and the last of them makes the tensor
    smaller (`argmax`, `topk`, `mean`), or a copy brings a tensor of that shape back to the GPU.

    What changes: the reduction becomes kernels that read the tensor at the memory's speed, and the
    copy moves little. A cast to float32 right before the copy goes too: the GPU's reductions take
    16-bit types and add in float32. CPU ops of many milliseconds leave cold caches behind: without
    them the host's other calls take less time (0.15 of it on an H200's host).
    """
    if step.device is None:
        return
    up = list(host_copies(step, "HtoD"))
    for copy in host_copies(step, "DtoH"):
        ops, back = _reduced_on_cpu(step, copy, up)
        if ops:
            yield _reduction(step, copy, ops, back)


def _reduced_on_cpu(
    step: Step, copy: HostCopy, up: list[HostCopy]
) -> tuple[list[int], HostCopy | None]:
    """The CPU ops on the copied tensor, up to one that reduces it or a copy back; else none."""
    host, found = step.trace.host, list[int]()
    back = {each.op: each for each in up if each.tensor.dims == copy.tensor.dims}
    mine = host.track == host.track[copy.op]
    after = step.outermost(step.inside & host.is_op & mine & (host.start >= host.end[copy.op]))
    for event in after.tolist():
        if found and event in back:
            return found, back[event]
        takes = any(each.dims == copy.tensor.dims for each in step.tensors(event)[:2])
        if not takes or len(step.calls_below([event])):
            continue
        if host.length[event] >= 20_000:  # an op that takes less on the CPU is a view, or no work
            found.append(event)
        if step.name(event) in REDUCTIONS:
            return found, None
    return [], None


def _reduction(step: Step, copy: HostCopy, ops: list[int], back: HostCopy | None) -> Proposal:
    host, cast = step.trace.host, _cast(step, copy)
    rows, size = step.below(cast), copy.bytes
    if len(cast):  # the reduction reads what the cast read
        read = step.tensor(int(host.nearest_op(step.trace.gpu.launch[rows[:1]])[0]), 1)
        size = min(size, (read or copy.tensor).bytes or size)
    away = [back] if back else []
    calls = np.array([*ops, *cast.tolist(), *(each.op for each in away)])
    # after the last op the host frees what was copied
    last = int(host.end[ops[-1]])
    then = host.start[step.inside & (host.is_op | host.is_call) & (host.start >= last)]
    most = last + int(copy.bytes / FREE_RATE * 1e9)
    freed = last, min(int(then.min(initial=step.span.end_ns)), most)
    removed = (*step.with_gaps(calls, COLD_NS), freed)
    gone = frozenset([*rows.tolist(), *(each.row for each in away)])
    free = step.waits_below([copy.op, back.op]) if back else frozenset[int]()
    held = sum(end - start for start, end in removed)
    left = min(len(ops) * CALL_NS / max(held, 1), 1.0)
    # the call has little to move out of the driver's buffer then
    quick = ((step.stretches(step.calls_below([copy.op]).tolist()), 0.0),)
    # the host times before the copy
    began = step.graph.began[step.graph.began <= host.end[copy.op]].tolist()
    before = (
        list(zip([step.span.start_ns, *began], began, strict=False)) if held > CHILLING_NS else []
    )

    def changed(shares: tuple[float, float]) -> GraphChange:
        speed, warm = shares
        ns = len(ops) * max(step.move_ns(size) / speed, KERNEL_NS) + COPY_NS
        sooner = tuple((round(start + warm * (end - start)), end) for start, end in before)
        return GraphChange(removed + sooner, left, {copy.row: ns}, gone, free, quick)

    name = step.name(ops[-1]).removeprefix("aten::").removeprefix("linalg_")
    order = f"call {name}() on the GPU, {'without' if back else 'before'} .cpu()"
    why = f"{name} runs on the CPU after a copy of {bytes_text(copy.bytes)} to the host"
    changes = of_each(
        changed, ((REDUCTION_SPEED, WARM), (1.0, WARM / 2), (REDUCTION_SPEED / 2, 1.0))
    )
    return Proposal(order, why, *changes, events=(*step.events([copy.row]), *ops))


def _cast(step: Step, copy: HostCopy) -> Ints:
    """The op before the copy, where it makes the copied tensor from one of another type."""
    host = step.trace.host
    before = step.named({"aten::to"}) & (host.end <= host.start[copy.op])
    last = step.outermost(before)[-1:]
    rows = step.below(last)
    for made in host.nearest_op(step.trace.gpu.launch[rows[-1:]]).tolist():
        target, source = step.tensor(made), step.tensor(made, 1)
        same = target and source and (target.dims, target.type) == copy.key
        if same and source and source.type != copy.tensor.type:
            return last
    return last[:0]


NUMBER_READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
COPIES = ("aten::to", "aten::_to_copy", "aten::copy_")
SMALL = 4096  # bytes of a copy that a program reads as numbers
SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
INSIDE = ("aten::", "autograd::engine::evaluate_function")

TO_LIST = "aten::resolve_neg"  # the last op of .tolist()
MANY = 64  # reads of a loop on a CPU; fewer take microseconds
TINY_NS, NEAR_READ_NS = 100_000, 200_000  # an op of such a loop, and Python between two reads
READS_ON_CPU = (0.8, 0.95, 0.5)  # of the loop's time goes
Round = tuple[int, list[int]]  # a read, and the ops before it that compute


def _reads_on_cpu(step: CpuStep) -> Proposals:
    found: list[list[Round]] = [[]]
    for read, ops in _read_rounds(step):
        if _is_little(step, ops):
            found[-1].append((read, ops))
        else:
            found.append([(read, [])])
    for rounds in [loop for loop in found if len(loop) >= MANY]:
        reduced = Counter(step.bare(ops[-1]) for _, ops in rounds if _reduces(step, ops))
        order = "use tensor ops instead of this loop, and read their result once"
        calls = ".tolist()" if step.name(rounds[-1][0]) == TO_LIST else ".item(), float(), if"
        why = f"{plural(len(rounds), 'read')} of numbers per step, one by one ({calls})"
        if 2 * sum(reduced.values()) >= len(rounds):
            names = ", ".join(name for name, _ in reduced.most_common(2))
            order = "compute and read these numbers every N steps"
            why = f"{plural(len(rounds), 'number')} per step computed and read alone ({names})"
        events = [op for read, ops in rounds for op in (*ops, read)]
        stretches = step.together(events, NEAR_READ_NS)
        yield step.proposal(order, why, events, READS_ON_CPU, stretches=stretches)


def _read_rounds(step: CpuStep) -> Iterator[Round]:
    """Each read of a number that does not become text, with the computing ops before it."""
    text, ops = {*printed(step)}, list[int]()
    computing = {*step.callers(step.computing).tolist()} | text
    for op in tops(step).tolist():
        if step.name(op) in (*NUMBER_READS, TO_LIST) and op not in text:
            yield op, ops
            ops = []
        elif op in computing:
            ops.append(op)


def _is_little(step: CpuStep, ops: list[int]) -> bool:
    """Whether these ops are short, and take one element each or make one number together."""
    calls = [step.call(op) for op in ops if step.trace.host.length[op] < TINY_NS]
    alone = all(call.dims and elements(call) <= 1 for call in calls)
    return len(calls) == len(ops) and (alone or _reduces(step, ops))


def _reduces(step: CpuStep, ops: list[int]) -> bool:
    """Whether the last of these ops makes one number of many, and those before it are pointwise."""
    before = all(role_of_op(step.name(op)) == "pointwise" for op in ops[:-1])
    return bool(ops) and step.name(ops[-1]) in REDUCTIONS and before


@fix("Read numbers of the GPU every N steps only", "gpu", on_cpu=_reads_on_cpu)
def scalar_reads(step: Step) -> Proposals:
    """Read numbers of the GPU every N steps only.

    What it looks for: `.item()`, `float(tensor)`, `if tensor:`, `print(tensor)` and `.tolist()` of
    values on the GPU: a copy of a few bytes to the host, and a wait for all work before it.

    On a CPU nothing waits, but a loop that reads elements one by one costs microseconds for each.

    What must hold: the call waited. Reads that another op makes, those of a GradScaler (after its
    check for infinity) and those of autograd's anomaly mode have causes of their own and do not
    count. On a CPU at least 64 reads follow each other, with nothing between two of them but views,
    ops on one element, or short ops of which the last is a reduction. Text of tensors is
    `printed_tensors`'s.

    What changes: the reads go with their waits. In one of N steps they remain. On a CPU the loop
    goes, and part of it remains as Python code over a list.
    """
    host, found = step.trace.host, waited(step, step.ops(*NUMBER_READS, *COPIES))
    inner = host.named(lambda name: name.startswith(INSIDE))
    own = found[host.nearest(host.parent[found].astype(np.int64), inner) < 0]
    # a copy of a few bytes to the host
    sizes = [step.trace.gpu.bytes[copies(step, [event], "DtoH")] for event in own.tolist()]
    kept = own[[len(each) > 0 and int(each.max()) <= SMALL for each in sizes]]
    # the first one after each check of a GradScaler is the scaler's
    checks = np.sort(host.start[step.ops(SCALER)])
    after = kept[host.start[kept] > checks[-1]] if len(checks) else kept[:0]
    reads = kept[~np.isin(kept, after[:1])]
    if not len(reads):
        return
    order = "keep it on the GPU (.detach()), read it every N steps"
    if step.compiled:
        order = "take print and .item() out of the compiled code"
    names = {step.name(event) for event in reads.tolist()}
    words = [".item()"] * bool(names & {*NUMBER_READS})
    words += ["small copies to the host (.cpu(), .tolist())"] * bool(names & {*COPIES})
    why = f"{plural(len(reads), 'wait')} per step for {' and '.join(words)}"
    yield Proposal(order, why, step.without(reads), events=shown(reads))


MASK_READS = ("aten::index", "aten::masked_select")
MASK_WRITES = ("aten::index_put_", "aten::index_put", "aten::_index_put_impl_")
NONZERO = "aten::nonzero"
MEMORY, SHORTEST_NS = 0.8, 2_000.0
MASK_RISK = "with torch.where all rows are computed, not only those selected"


@fix("Write a boolean mask with torch.where", "gpu")
def boolean_mask(step: Step) -> Proposals:
    # ops that index with a mask, for which the host waits in `nonzero`
    """Write a boolean mask with torch.where.

    What it looks for: `x[mask]`, `x[mask] = y` and `masked_select` on the GPU. How many elements
    they select is known on the GPU only, so `nonzero` makes the host wait for it.

    What must hold: `nonzero` runs below the op that indexes, and waits. Indices that are numbers do
    not need it.

    What changes: the waits and the kernels of `nonzero` go. A read whose result is written back
    with a mask of the same shape goes too, with the clone of the tensor right before it; what runs
    between them works on all rows, not on those selected. The write, or a read alone, becomes one
    pointwise op that passes over the whole tensor.
    """
    inner, events = waited(step, step.ops(NONZERO)), step.ops(*MASK_READS, *MASK_WRITES)
    events = events[np.isin(events, step.trace.host.nearest(inner, step.marked(events)))]
    if not len(events):
        return
    # each write with the read before it, where both have a mask of the same shape
    pairs, last = list[tuple[int, int]](), -1
    for event in events.tolist():
        write = step.name(event) in MASK_WRITES
        if write and last >= 0 and _mask(step, last) == _mask(step, event) != ():
            pairs.append((last, event))
        last = -1 if write else event
    waits = step.waits_below(events)
    change = GraphChange(gone=frozenset(step.below(step.ops(NONZERO)).tolist()), unwaited=waits)
    for read, written in pairs:
        change = both(change, _without_read(step, read, written))
    for event in events[~np.isin(events, [read for read, _ in pairs])].tolist():
        ((start, end),) = step.stretches([event])
        removed = ((min(start + step.plain_ns, end), end),)
        rows = [row for row in step.below([event]).tolist() if row not in change.gone]
        tensor = step.tensor(event)
        if not rows or tensor is None or not step.device:
            pointwise = GraphChange(removed)
        else:
            ns = max(step.move_ns(3 * (tensor.bytes or 0)) / MEMORY, SHORTEST_NS)
            pointwise = GraphChange(removed, length={rows[-1]: ns}, gone=frozenset(rows[:-1]))
        change = both(change, pointwise)
    order = "write the mask with torch.where(mask, new, x)" if pairs else "torch.where, not x[mask]"
    why = f"{plural(len(waits), 'wait')} per step for nonzero(), which sizes x[mask]"
    yield Proposal(order, why, change, risk=MASK_RISK, events=shown(events))


def _mask(step: Step, event: int) -> tuple[int, ...]:
    """The shape of the mask: what `nonzero` looks at."""
    host, inner = step.trace.host, step.ops(NONZERO)
    mine = inner[(host.start[inner] >= host.start[event]) & (host.end[inner] <= host.end[event])]
    mask = step.tensor(int(mine[0])) if len(mine) else None
    return tuple(mask.dims) if mask else ()


def _without_read(step: Step, read: int, write: int) -> GraphChange:
    """Without the read, and the clone and Python before it; what follows works on all rows."""
    host, ops, values = step.trace.host, tops(step), step.tensor(read)
    # the clone of the whole tensor right before a read: torch.where makes a new tensor
    before = ops[host.start[ops] < host.start[read]][-1:].tolist()
    cloned = [step.tensor(op) for op in before if step.name(op) == "aten::clone"]
    same = values and any(each and each.dims == values.dims for each in cloned)
    away = [*before, read] if same else [read]
    before = ops[host.end[ops] <= host.start[away[0]]]
    begin = int(host.end[before[-1]]) if len(before) else int(host.start[away[0]])
    # kernels between a read and its write, on all rows
    mine = ops[(host.start[ops] >= host.end[read]) & (host.end[ops] <= host.start[write])]
    values, every = step.tensor(write, 2), float(np.prod(_mask(step, write)))
    ratio = every / values.dims[0] if values and values.dims and values.dims[0] else 1.0
    longer = step.shorter(step.below(mine).tolist(), max(ratio, 1.0)).length
    gone = frozenset(step.below(away).tolist())
    return GraphChange(((begin, int(host.end[read])),), length=longer, gone=gone)


UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
UPDATE = "aten::_amp_update_scale_"
RECIPROCAL, READ = "aten::reciprocal", "aten::item"
BF16 = ("sm_8", "sm_9", "sm_10", "sm_12", "gfx9")
NEAR_UNSCALE_NS = 2_000_000  # from the inverse of the scale to the division


@fix("Train without a GradScaler", "gpu")
def grad_scaler(step: Step) -> Proposals:
    """Train in bfloat16, without a GradScaler.

    What it looks for: the ops of a GradScaler: gradients are divided by a scale and searched for
    infinities, and the host reads whether one was found before it calls the optimizer.

    What must hold: the GPU computes in bfloat16 as fast as in float16: NVIDIA's from Ampere on,
    AMD's of the CDNA series. bfloat16 has the exponents of float32 and needs no scale.

    What changes: these ops go, with the wait, and with the Python code that visits each gradient
    before the division. The matmuls take as long in either type.
    """
    unscale, update, start = step.ops(UNSCALE), step.ops(UPDATE), step.trace.host.start
    arch = step.device.arch if step.device else ""
    if not len(unscale) or not len(update) or not arch.startswith(BF16):
        return
    # values that the host reads between the division and the new scale, waiting for the GPU
    between = (start >= start[unscale[0]]) & (start < start[update[-1]])
    reads = waited(step, step.outermost(step.named({READ}) & between))
    events = np.concatenate((unscale, update, reads))
    rows, free = step.below(events), step.waits_below(reads)
    host, inverse = step.trace.host, step.ops(RECIPROCAL)
    found = []
    for event in unscale.tolist():
        before = inverse[host.start[inverse] < host.start[event]][-1:]
        if len(before) and host.start[event] - host.start[before[0]] < NEAR_UNSCALE_NS:
            found.append((int(host.start[before[0]]), int(host.start[event])))
    removed = (*step.with_gaps(events), *tuple(found))
    change = GraphChange(removed, gone=frozenset(rows.tolist()), unwaited=free)
    order = "autocast in bfloat16, without a GradScaler"
    why = "each step unscales gradients, looks for infinities and waits for the answer"
    yield Proposal(order, why, change, risk="gradients in bfloat16", events=step.events(rows))


ENGINE = "autograd::engine::evaluate_function"
CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::item", "aten::is_nonzero")
TRACEBACK_NS = 5_000
ANOMALY_ORDER = "remove torch.autograd.detect_anomaly()"
CHECKS_ON_CPU = (1.0, 1.0, 0.8)  # of the time goes


@fix("Switch off anomaly detection", "gpu", steps="any")
def anomaly_mode(step: Step) -> Proposals:
    # the ops that check right below the engine, not in a node
    """Switch off anomaly detection.

    What it looks for: a check for NaN (`isnan`, `any`, `item`) after the nodes of the backward
    pass, made by the engine of autograd itself: `torch.autograd.detect_anomaly` is on.

    What must hold: three nodes at least have such checks.

    What changes: the checks go with their kernels and waits. In the forward pass every op that
    makes a node keeps its Python traceback; of the time before it does anything else, 5 us remain.
    On a CPU the trace does not part that time from the work of the op, and only the checks go.
    """
    host, checks = step.trace.host, step.ops(*CHECKS)
    engine = host.named(lambda name: name.startswith(ENGINE))
    above = host.parent[checks].astype(np.int64)
    checks = checks[(above >= 0) & engine[above]]
    count = sum(step.name(event) == CHECKS[0] for event in checks.tolist())
    if count < 3:
        return
    times, removed = plural(count, "check"), _checks_change(step, checks)
    if isinstance(step, CpuStep):
        why = f"{times} for NaN per step in the backward pass"
        yield step.proposal(ANOMALY_ORDER, why, checks.tolist(), CHECKS_ON_CPU, stretches=removed)
        return
    why = f"{times} for NaN in the backward pass, "
    why += f"{plural(len(step.waits_below(checks)), 'wait')} per step"
    change = step.without(checks, removed + _tracebacks(step))
    yield Proposal(ANOMALY_ORDER, why, change, events=shown(checks))


def _checks_change(step: Step, checks: Ints) -> Stretches:
    """The time of checks that follow each other in one node, until the engine leaves the node."""
    host = step.trace.host
    above = host.parent[checks]
    first = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
    last = checks[np.append(first[1:], len(checks)) - 1]
    # the engine leaves the node where nothing else happens in it after its last check
    below = np.flatnonzero(step.inside & (host.parent >= 0))
    final = np.zeros(host.count, np.int64)
    np.maximum.at(final, host.parent[below], host.start[below])
    leaves = final[host.parent[last]] <= host.start[last]
    until = np.where(leaves, host.end[above[first]], host.end[last])
    return tuple(zip(host.start[checks[first]].tolist(), until.tolist(), strict=True))


def _tracebacks(step: Step) -> Stretches:
    """The time from the start of ops that make nodes to what they call first."""
    host = step.trace.host
    made = np.flatnonzero(step.nodes.made[: host.count] & step.inside & host.is_op)
    first = np.full(host.count, np.iinfo(np.int64).max)
    below = np.flatnonzero(step.inside & (host.parent >= 0))
    np.minimum.at(first, host.parent[below], host.start[below])
    begin, until = host.start[made] + TRACEBACK_NS, np.minimum(first[made], host.end[made])
    pairs = zip(begin.tolist(), until.tolist(), strict=True)
    return tuple(pair for pair in pairs if pair[1] > pair[0])
