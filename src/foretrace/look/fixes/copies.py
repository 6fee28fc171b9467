"""Fixes for copies, between host and device and on the GPU, and for allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._step import (
    BEST,
    GAP_NS,
    LOADER,
    USUAL,
    WORST,
    CpuStep,
    HostCopy,
    Proposal,
    Proposals,
    Speed,
    Step,
    at_speeds,
    cast_in,
    copies,
    fix,
    host_copies,
    joined,
    link_rate,
    of_each,
    share,
    shown,
    tops,
    waited,
)
from foretrace.look.rules import LAYOUT
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange
from foretrace.work.costs import OpCall, Tensor, short_type
from foretrace.work.kernel_row import KernelRow

LOADER_RANGE = "enumerate(DataLoader)"
SLOW = 0.5  # of the link's speed, where a host does not reach it


@fix("Copy from pinned memory", "gpu shapes")
def pinned_copies(step: Step) -> Proposals:
    """Copy from pinned memory, without waiting.

    What it looks for: large copies from pageable memory of the host, which hold the host until the
    data is read, and large copies to it.

    What must hold: each step makes them, with tensors of recorded shapes. A copy to the host is
    waited for as before, because the host reads its result.

    What changes: the link moves the bytes at its own speed, and the host goes on at once, so that
    the copy runs while the GPU works on what came before. Pinning a tensor costs a copy on the
    host: a DataLoader does that in a thread of its own.
    """
    up = [each for each in host_copies(step, "HtoD") if each.pageable]
    if up:
        loaded = step.trace.host.named(lambda name: name.startswith(LOADER_RANGE)) & step.inside
        pin = "DataLoader(pin_memory=True)" if loaded.any() else "x.pin_memory() once"
        yield _pinned(step, up, f"{pin}, then .to('cuda', non_blocking=True)", "from")
    down = [each for each in host_copies(step, "DtoH") if each.pageable]
    if down:
        yield _pinned(step, down, "copy into a pinned buffer (buffer.copy_(x))", "to")


def _pinned(step: Step, copies: list[HostCopy], order: str, way: str) -> Proposal:
    size = bytes_text(sum(each.bytes for each in copies))
    what = plural(len(copies), "copy", "copies")
    free = step.waits_below([each.op for each in copies if way == "from"])

    def at(rate: float) -> GraphChange:
        new = {each.row: min(step.ns([each.row]), each.bytes / rate * 1e9) for each in copies}
        return GraphChange(length=new, unwaited=free)

    why = f"the host waits in {what} per step {way} pageable memory ({size})"
    change, worst = at(link_rate(step)), at(SLOW * link_rate(step))
    events = step.events([each.row for each in copies])
    return Proposal(order, why, change, worst=worst, events=events)


REPEATED_TENSORS = 3
_RANDOM = "rand randn randint randperm rand_like randn_like randint_like normal bernoulli"
_FILLED = "arange linspace logspace zeros ones full eye zeros_like ones_like full_like"
_MAKING = "empty lift_fresh detach_ detach to _to_copy fill_ scalar_tensor arange from_numpy alias"
RANDOM, FILLED, MAKING = (
    frozenset(f"aten::{name}" for name in names.split()) for names in (_RANDOM, _FILLED, _MAKING)
)
BEHIND = frozenset({"aten::lift_fresh", "aten::detach_", "detach_"})  # a copy, in torch.tensor

ONCE, HERE = "make this tensor once on the GPU, before the loop", 'make it with device="cuda"'


class HostTensor(Struct, frozen=True):
    """The ops that make a tensor, its copy last, from where the host begins to make it to the next
    op; the memcpy, and whether its values come from ops.
    """

    ops: list[int]
    stretch: tuple[int, int]
    row: int
    computed: bool


@fix("Make tensors on the GPU", "gpu")
def small_copies(step: Step) -> Proposals:
    """Make a tensor on the GPU, where it is used.

    What it looks for: tensors that the host makes in a step and copies to the GPU: with ops that
    make numbers of nothing (`arange`, `zeros`, `randn`) and what is computed from them, as position
    tables, masks and noise are; or several small ones of one size (`torch.tensor(list)`).

    What must hold: the copy comes from pageable memory or waits, and the ops before it launch
    nothing. A tensor that no such op begins must be of at most 64 kB, and there are three of its
    size: other copies are data. So is what a DataLoader makes, random crops included.

    What changes: the copies go, with their waits, and so do the ops that make the tensor on the
    host, with the Python around them. What is made three times or more is made once, before the
    loop. Random numbers and what is made once per step are then made on the GPU: one launch for
    each op.
    """
    found, sizes = list(_host_tensors(step)), step.trace.gpu.bytes
    often = {size: sum(sizes[each.row] == size for each in found) for size in sizes[step.rows]}
    found = [
        each
        for each in found
        if each.computed
        or (sizes[each.row] <= 65_536 and often[sizes[each.row]] >= REPEATED_TENSORS)
    ]
    if found:
        names = {step.name(op) for each in found for op in each.ops}
        once = (
            all(often[sizes[each.row]] >= REPEATED_TENSORS for each in found) and not names & RANDOM
        )
        yield _made_on_gpu(step, found, once)


def _made_on_gpu(step: Step, found: list[HostTensor], once: bool) -> Proposal:
    rows = np.array([each.row for each in found], np.int64)
    calls = step.calls_below(np.array([each.ops[-1] for each in found], np.int64))
    waits = len(np.intersect1d(calls, step.waiting))
    size = bytes_text(int(np.median(step.trace.gpu.bytes[rows])))
    waiting = f", {plural(waits, 'wait')}" if waits else ""
    launches = 0 if once else sum(max(len(each.ops) - 1, 1) for each in found)
    change, worst = (_without_copies(step, found, times * launches, calls) for times in (1, 3))
    order, risk = (ONCE, "holds where the values are the same each time") if once else (HERE, "")
    why = f"{plural(len(found), 'copy', 'copies')} of {size} from the host per step{waiting}"
    return Proposal(order, why, change, worst=worst, risk=risk, events=step.events(rows))


def _host_tensors(step: Step) -> Iterator[HostTensor]:
    """Every tensor that the host makes and copies, with a wait or from pageable memory."""
    ops, gpu = tops(step), step.trace.gpu
    names, place = [step.name(op) for op in ops.tolist()], {op: at for at, op in enumerate(ops)}
    loaded = step.trace.host.nearest(ops, step.trace.host.named(LOADER.fullmatch)) >= 0
    calling, before = set(step.callers(step.graph.calls).tolist()), -1
    computed = False
    launch = step.trace.gpu.launch
    rows, pageable = (copies(step, tops(step), way) for way in ("HtoD", "Pageable"))
    rows = rows[step.trace.gpu.bytes[rows] >= 0]
    plain = waited(step, distinct(step.makers(launch[rows])))
    slow: Ints = rows[np.isin(rows, pageable) | np.isin(step.makers(launch[rows]), plain)]
    for row in slow.tolist():
        at = place.get(int(step.callers(gpu.launch[[row]])[0]), -1)
        if at <= before:
            continue
        reach = range(max(at - 24, before + 1), at)  # ops that make one tensor
        quiet = next((each + 1 for each in reversed(reach) if ops[each] in calling), reach.start)
        made = [
            each for each in range(quiet, at) if names[each] in RANDOM | FILLED and not loaded[each]
        ]
        computed = bool(made) or (computed and before >= 0 and quiet == before + 1)
        first = made[0] if made else quiet if computed else at
        while not computed and first > quiet and names[first - 1] in MAKING:
            first -= 1
        yield HostTensor(
            ops[first : at + 1].tolist(), _ops_around(step, ops, first, at), row, computed
        )
        before = at


def _ops_around(step: Step, ops: Ints, first: int, last: int) -> tuple[int, int]:
    """The host time of these ops, with the Python code on both sides."""
    host = step.trace.host
    while last + 1 < len(ops) and step.name(int(ops[last + 1])) in BEHIND:
        last += 1
    begin = int(host.end[ops[first - 1]]) if first else step.span.start_ns
    end = int(host.end[ops[last]])
    behind = int(host.start[ops[last + 1]]) if last + 1 < len(ops) else end
    return max(begin, step.span.start_ns), min(behind, end + GAP_NS)


def _without_copies(step: Step, found: list[HostTensor], launches: int, calls: Ints) -> GraphChange:
    """The step without these tensors, or with so many launches that make them."""
    removed, rows = tuple(each.stretch for each in found), [each.row for each in found]
    if not launches:
        return GraphChange(removed, gone=frozenset(rows), unwaited=frozenset(calls.tolist()))
    length = {row: step.move_ns(float(step.trace.gpu.bytes[row])) + 2_000 for row in rows}
    left = share(step, removed, launches * step.plain_ns)
    return GraphChange(removed, left, length, unwaited=frozenset(calls.tolist()))


WIDTHS = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2}
COLORS = 3
IMAGE_READERS = ("aten::conv2d", "aten::convolution", "aten::conv3d")
# Of the bandwidth: a kernel that reads bytes and writes floats loads one value at a time (0.25 on
# an H200; at best 1, at worst half of it), the scaling after it is vectorized.
CONVERT, SCALE = (0.25, 1.0, 0.125), 0.8
BYTES_ORDER = "copy uint8 images, convert on the GPU (x.float().div(255))"
BYTES_RISK = "holds where the images were bytes before a transform"


@fix("Copy images as bytes", "gpu shapes")
def bytes_not_floats(step: Step) -> Proposals:
    """Copy images as bytes, and convert them on the GPU.

    What it looks for: a copy from the host of images in a floating type, `[N, 3, H, W]` or `[N, H,
    W, 3]`, that a convolution takes, as they are or after a cast.

    What must hold: images that were read from files had a byte per value before a transform made
    floats of them. The trace cannot show that: the user must check.

    What changes: the copy moves a byte per value. The GPU then converts and scales: two kernels,
    which read and write the images once each.
    """
    taken = convolved(step)
    copies = [
        each
        for each in host_copies(step, "HtoD")
        if each.tensor.type in WIDTHS and each.tensor.dims in taken
    ]
    if not copies or step.device is None:
        return
    first = copies[0].tensor
    size = bytes_text(sum(each.bytes for each in copies))
    why = f"each step copies {size} of {short_type(first.type)} images, {list(first.dims)}"
    changes = of_each(partial(_as_bytes, step, copies), CONVERT)
    events = step.events([each.row for each in copies])
    yield Proposal(BYTES_ORDER, why, *changes, risk=BYTES_RISK, events=events)


def convolved(step: Step) -> dict[tuple[int, ...], str]:
    """Shapes of images that convolutions take, and their types; channels may have been last."""
    found: dict[tuple[int, ...], str] = {}
    for event in step.ops(*IMAGE_READERS).tolist():
        tensor = step.tensor(event)
        if tensor and len(tensor.dims) == 4 and tensor.dims[1] == COLORS:
            count, colors, height, width = tensor.dims
            if min(height, width) >= 32 and tensor.type in WIDTHS:  # pixels
                found |= {tensor.dims: tensor.type, (count, height, width, colors): tensor.type}
    return found


def _as_bytes(step: Step, copies: list[HostCopy], speed: float) -> GraphChange:
    """Less to copy, and two kernels more, which the graph has as part of the copy. The first one
    writes the type that the convolution takes, so a cast to it goes.
    """
    length, taken = {}, convolved(step)
    made = {(*each.key, taken[each.tensor.dims]) for each in copies}

    def is_cast(case: KernelRow) -> bool:
        if not (pair := cast_in(case)):
            return False
        source, target = pair
        return source.dims == target.dims and (source.dims, source.type, target.type) in made

    for each in copies:
        width, values = WIDTHS[taken[each.tensor.dims]], each.tensor.elements
        ns = step.move_ns((1 + width) * values) / speed + step.move_ns(2 * width * values) / SCALE
        now = float(step.trace.gpu.length[each.row])
        length[each.row] = now / WIDTHS[each.tensor.type] + ns
    return GraphChange(length=length, gone=frozenset(step.rows_where(is_cast).tolist()))


# Ops that take a weight: the places of their input, weight and bias.
WEIGHT_READERS = {
    **dict.fromkeys(("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"), (0, 1, 2)),
    **dict.fromkeys(("aten::matmul", "aten::mm"), (0, 1, None)),
    "aten::addmm": (1, 2, 0),
    "aten::convolution": (0, 1, 2),
}
Kind = tuple[tuple[int, ...], str]  # a shape and a type
SURE = 3  # copies of a shape that inputs have too: no batch has so many parts
ROOM = 0.6  # of the GPU's memory that weights may take
NEAR_ADDING = 3  # ops from a copy to the one that adds it
FOREACH_SPEED = 0.6  # of the memory's bandwidth that a `_foreach` call reaches


@fix("Keep the weights on the GPU", "gpu shapes")
def keep_on_gpu(step: Step) -> Proposals:
    """Keep the weights on the GPU, and what each step adds to.

    What it looks for: large tensors that each step copies from the host, and that a matmul or a
    convolution then takes as its weight. Tensors that each step copies to pageable host memory,
    where an in-place CPU op adds them to one of their shape: a moving average of the weights.

    What must hold: the tensor has the shape and type of a weight or its bias, not that of an input;
    a shape that both have counts where a step copies three or more of it. An op that adds on the
    CPU launches nothing and follows the copy on its thread. Every step copies as many. All of them
    fit into the GPU's memory.

    What changes: the copies go, with the host time of their calls and the waits in them. The CPU
    ops go too, for one `_foreach` call on the GPU that reads both tensors and writes one.
    """
    yield from _loaded(step)
    found = list(_adding(step, list(host_copies(step, "DtoH", 1))))
    copies = [copy for copy, _ in found]
    if not _worth(step, copies):
        return
    size, last = sum(each.bytes for each in copies), copies[-1].row
    events = np.unique([at for copy, ops in found for at in (copy.op, *ops)])
    removed = step.with_gaps(events)
    change = replace(
        step.without(events, removed),
        left=share(step, removed, step.plain_ns),
        length={last: 3 * step.move_ns(size) / FOREACH_SPEED},
        gone=frozenset(each.row for each in copies if each.row != last),
    )
    name, held = step.name(found[-1][1][-1]).removeprefix("aten::"), bytes_text(size)
    order = "keep it on the GPU and update it there, without .cpu()"
    tensors = plural(len(copies), "tensor")
    why = f"each step copies {tensors} to the host ({held}) for {name} on the CPU"
    told = (*step.events([each.row for each in copies]), *shown(events))
    yield Proposal(order, why, change, risk=f"{held} of GPU memory", events=told)


def _loaded(step: Step) -> Proposals:
    copies = _copied(step)
    if not _worth(step, copies):
        return
    events = np.unique([each.op for each in copies])
    every = np.concatenate((events, step.backward(events)))
    order = "keep the weights on the GPU (model.to('cuda') once)"
    size = bytes_text(sum(each.bytes for each in copies))
    why = f"each step copies {plural(len(copies), 'weight')} from the host ({size})"
    change, told = step.without(every, step.with_gaps(every)), step.events(step.below(every))
    yield Proposal(order, why, change, risk=f"{size} of GPU memory", events=told)


def _worth(step: Step, copies: list[HostCopy]) -> bool:
    """Whether these copies are large together, fit into the GPU's memory and come in each step:
    nothing is loaded just once.
    """
    size = sum(each.bytes for each in copies)
    memory = (step.device.memory_bytes if step.device else None) or float("inf")
    gpu, spans = step.trace.gpu, step.trace.spans
    rows = np.flatnonzero(gpu.is_memcpy & np.isin(gpu.bytes, [each.bytes for each in copies]))
    counts = Counter(spans.step_of_work()[rows].tolist())
    worked = [counts[span.index] for span in spans.steps if len(span.work)]
    steady = len(worked) < 2 or min(worked) >= len(copies)
    return 65_536 <= size <= ROOM * memory and steady  # bytes of the copies together


def _adding(step: Step, copies: list[HostCopy]) -> Iterator[tuple[HostCopy, list[int]]]:
    """Copies that a CPU op adds in place to a tensor of their shape, each with this op at last, and
    with the ops before the copy that change the same tensor.
    """
    ops = tops(step)
    place = {op: at for at, op in enumerate(ops.tolist())}
    launching = set(step.callers(step.graph.calls).tolist())

    def changes(op: int, copy: HostCopy) -> bool:
        """Whether an op computes in place on a tensor of this shape."""
        name, first = step.name(op), step.tensor(op)
        in_place = name.startswith("aten::") and name.endswith("_") and name != "aten::copy_"
        return in_place and first is not None and first.dims == copy.tensor.dims

    for copy in copies:
        at = place.get(copy.op)
        if at is None or not copy.pageable:
            continue
        near = [
            *ops[max(at - NEAR_ADDING, 0) : at].tolist(),
            *ops[at + 1 : at + 1 + NEAR_ADDING].tolist(),
        ]
        mine = [op for op in near if op not in launching and changes(op, copy)]
        behind = [op for op in mine if place[op] > at]
        taken = [[each.dims for each in step.tensors(op)[1:2]] for op in behind]
        last = [op for op, dims in zip(behind, taken, strict=True) if dims == [copy.tensor.dims]]
        if last:
            yield copy, [*(op for op in mine if place[op] < at), last[0]]


def _copied(step: Step) -> list[HostCopy]:
    """Copies of weights, and those of their biases."""
    found: tuple[set[Kind], set[Kind], set[Kind]] = set(), set(), set()
    for event in step.ops(*WEIGHT_READERS).tolist():
        data, weight, bias = WEIGHT_READERS[step.name(event)]
        given, taken = step.tensor(event, data), step.tensor(event, weight)
        added = step.tensor(event, bias) if bias is not None else None
        if taken and given and len(taken.dims) > 1:
            found[0].update(_either_way(taken))
            found[1].update(_either_way(given))
            found[2].update(_either_way(added) if added and len(added.dims) == 1 else ())
    wanted, inputs, biases = found
    copies = list(host_copies(step, "HtoD", 1))
    count = Counter(each.key for each in copies)
    sure = {kind for kind in wanted if kind not in inputs or count[kind] >= SURE}
    if not any(each.key in sure for each in copies):
        return []
    return [each for each in copies if each.key in sure | (biases - inputs)]


def _either_way(tensor: Tensor) -> set[Kind]:
    """A tensor's shape, and that of its transpose where it has two dimensions."""
    found = {(tensor.dims, tensor.type)}
    return found | {(tensor.dims[::-1], tensor.type)} if len(tensor.dims) == 2 else found


MALLOC = frozenset({"cudaMalloc", "hipMalloc", "cuMemCreate", "cuMemMap"})
FREE = frozenset({"cudaFree", "hipFree", "cuMemUnmap", "cuMemRelease"})
# Calls around `cudaFree` that wait for the GPU: `empty_cache` makes them outside of ops.
DEVICE_SYNC = frozenset({"cudaDeviceSynchronize", "hipDeviceSynchronize"})
NEAR_MALLOC_NS = 50_000


@fix("Allocate GPU memory once", "gpu")
def allocator(step: Step) -> Proposals:
    """Allocate GPU memory once, not in each step.

    What it looks for: steps that call `cudaMalloc` and `cudaFree`: PyTorch keeps the memory that it
    was given, so a steady step has neither. Either the program gives it back
    (`torch.cuda.empty_cache()`), or the memory is full or in pieces, and PyTorch frees before it
    allocates.

    What must hold: most steps have such calls. `cudaFree` outside of an op comes from
    `empty_cache`; inside of one it comes from the allocator.

    What changes: these calls go, and the wait of `cudaFree` for all work of the GPU.
    """
    host, names = step.trace.host, (FREE, MALLOC, DEVICE_SYNC)
    freeing, allocating, waits = (np.flatnonzero(step.named(each)) for each in names)
    # most steps free memory: the first ones of a program do so too
    freed = host.start[np.flatnonzero(host.named(FREE.__contains__) & host.is_call)]
    edges = [(each.start_ns, each.end_ns) for each in step.trace.spans.steps]
    usual = [bool(((freed >= begin) & (freed < end)).any()) for begin, end in edges]
    if not len(freeing) or not len(allocating) or 2 * sum(usual) <= len(usual):
        return
    by_user = int((step.makers(freeing) < 0).sum())
    # waits right before a `cudaFree` on its thread belong to it
    after = host.start[freeing][None, :] - host.end[waits][:, None]
    waits = waits[((after >= 0) & (after < NEAR_MALLOC_NS)).any(axis=1)]
    calls = np.concatenate((freeing, allocating, waits))
    order = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    if 2 * by_user >= len(freeing):
        order = "remove torch.cuda.empty_cache() from the step"
    why = f"{plural(len(allocating), 'cudaMalloc')} and {plural(len(freeing), 'cudaFree')} per step"
    change, worst = step.without(calls), step.without(freeing)
    yield Proposal(order, why, change, worst=worst, events=shown(calls))


CONTIGUOUS = "aten::contiguous"
MATMULS = frozenset({"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::addmm"})
ATTENTION_CALL = "aten::scaled_dot_product_attention"
NEAR_READERS = (
    4  # ops behind the copy among which its reader must be: keys and values are copied too
)
STRIDED_ON_CPU = (0.8, 1.0, 0.3)  # of the copy's time goes


@fix("Leave out copies of strided tensors", "gpu shapes", steps="any")
def contiguous(step: Step) -> Proposals:
    """Leave out `.contiguous()` where the next op takes strides.

    What it looks for: `.contiguous()` that copies, right before a matmul of two or three dimensions
    or fused attention.

    What must hold: the strides of the source are recorded, and the next op can take them: one of
    the last two dimensions has stride 1 for a matmul, the last one for attention. The next ops take
    a tensor of that shape.

    What changes: the copy goes, and the host time of the call. What a matmul loses by reading
    across the rows is not known; at worst half of the copy's time comes back, on a CPU 70% of it.
    """
    if isinstance(step, CpuStep):
        working = step.computing[step.named({"aten::copy_"})[step.computing]]
    else:
        working = step.trace.gpu.launch[step.rows]
    # the calls of `.contiguous()` that copy and can go
    ops = step.outermost(step.inside & step.trace.host.is_op)
    copying = set(step.trace.host.nearest(working, step.named({CONTIGUOUS})).tolist())
    readers = {
        event: reader
        for place, event in enumerate(ops.tolist())
        if event in copying and (reader := _reader(step, event, ops[place + 1 :]))
    }
    if not readers:
        return
    order = f"drop .contiguous() before {min(readers.values()).removeprefix('aten::')}"
    count, them = plural(len(readers), "copy", "copies"), "them" if len(readers) > 1 else "it"
    why = f"{count} per step, and the op behind {them} takes strides"
    if isinstance(step, CpuStep):
        yield step.proposal(order, why, [*readers], STRIDED_ON_CPU)
        return
    rows, removed = step.below([*readers]), step.with_gaps(np.array([*readers], np.int64))
    change = GraphChange(removed, gone=frozenset(rows.tolist()))
    worst = GraphChange(removed, length=step.shorter(rows, 0.5).length)
    yield Proposal(order, why, change, worst=worst, events=step.events(rows))


def _reader(step: Step, event: int, behind: Ints) -> str:
    """The op that takes the copied tensor, if it could take the source too; else ""."""
    source = step.tensor(event)
    if source is None or source.strides is None or len(source.strides) != len(source.dims):
        return ""
    others = [each for each in behind[: 4 * NEAR_READERS].tolist() if step.name(each) != CONTIGUOUS]
    for each in others[:NEAR_READERS]:
        name, taken = step.name(each), [(have.dims, have.type) for have in step.tensors(each)]
        if (source.dims, source.type) in taken:
            matrix = len(source.strides) in (2, 3) and 1 in source.strides[-2:]
            fits = (
                source.strides[-1:] == (1,)
                if name == ATTENTION_CALL
                else matrix and name in MATMULS
            )
            return name if fits else ""
    return ""


SLOWER = ("aten::group_norm", "aten::native_group_norm", "aten::instance_norm")
CONVOLUTION = "conv"
CPU_CONVOLUTIONS = frozenset({"mkldnn_convolution", "_slow_conv2d_forward"})
LAYOUT_ON_CPU = (0.2, 0.5, 0.0)
NORMS = (
    "aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm",
    "aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward",
    "aten::batch_norm_backward",
)  # fmt: skip
PASSES, PASSES_BACK = 3, 5  # of a training step: statistics first, then the result
CHANNELS = 8  # a multiple that tensor cores take as it is
NORM_SHARE = 0.8  # of what a plain kernel moves in the same time
CONVOLUTION_KINDS = {"f32": "tf32", "tf32": "tf32", "f16": "fp16"}  # others count as bf16


def _layout_on_cpu(step: CpuStep) -> Proposals:
    calls = step.arguments.items()
    found = [event for event, call in calls if _is_nchw(call, step.bare(event))]
    if found and not len(step.ops("aten::convolution_backward")):
        why = f"{plural(len(found), 'convolution')} of tensors in NCHW"
        order = "model and input .to(memory_format=torch.channels_last)"
        yield step.proposal(order, why, found, LAYOUT_ON_CPU)


def _is_nchw(call: OpCall, name: str) -> bool:
    """Whether a convolution of a CPU has a dense input with channels ahead of rows."""
    data = call.tensor(0) if name in CPU_CONVOLUTIONS else None
    if data is None or len(data.dims) != 4 or not data.strides or len(data.strides) != 4:
        return False
    _, channels, height, width = data.dims
    return channels > 1 and height * width > 1 and data.strides[3] == 1 < data.strides[1]


@fix("Convolutions in channels_last", "gpu", on_cpu=_layout_on_cpu)
def channels_last(step: Step) -> Proposals:
    """Convolutions in channels_last.

    What it looks for: kernels that change the layout between NCHW and NHWC around convolutions.
    cuDNN computes in NHWC on tensor cores; tensors in NCHW are converted before and after each
    convolution, forward and backward.

    What must hold: no group norm or instance norm stands between the convolutions: those are slower
    in channels_last than the conversions that it saves.

    What changes: the changes of layout are gone, but those of an image with three channels, which
    cuDNN pads. Batch norm's kernels for channels_last read along the channels, and take the usual
    time of three passes over the tensor (backward: five). Convolutions stay as they are; at best,
    they reach the usual share of the peak. On a CPU oneDNN reorders dense NCHW tensors: 20% of the
    convolutions' time goes, in inference alone. Training steps took 0.9 to 1.9 times as long (seven
    small nets).
    """
    rows = step.rows_where(lambda case: case.id.get("op") == LAYOUT and CONVOLUTION in case.op)
    if not len(rows) or len(step.ops(*SLOWER)):
        return
    why = f"{plural(len(rows), 'kernel')} per step change NCHW to NHWC or back for cuDNN"
    order = "use memory_format=torch.channels_last for model and input"
    changes = at_speeds(lambda speed: _layout_change(step, rows, speed))
    yield Proposal(order, why, *changes, events=step.events(rows))


def _layout_change(step: Step, rows: Ints, speed: Speed) -> GraphChange:
    def is_narrow(case: KernelRow) -> bool:
        """Whether a convolution has a number of channels that cuDNN pads: an image's three."""
        tensors = case.call.every_tensor() if case.call else ()
        return any(len(each.dims) > 3 and each.dims[1] % CHANNELS for each in tensors)

    def price(case: KernelRow, _: Speed) -> float:
        kind = CONVOLUTION_KINDS.get(str(case.id.get("dtype_in")), "bf16")
        return step.arithmetic_ns(USUAL.conv, case.flops or 0, kind)

    narrow = frozenset(step.rows_where(is_narrow).tolist()) if speed is not BEST else frozenset()
    gone = GraphChange(gone=frozenset(rows.tolist()) - narrow)
    if speed is WORST:
        return gone
    faster = joined(_norm_change(step, event, speed) for event in step.ops(*NORMS).tolist())
    if speed is USUAL:
        return joined([gone, faster])
    convs = step.rows_where(lambda case: case.role == CONVOLUTION and bool(case.flops))
    return joined([gone, faster, step.repriced(convs, price)[1]])


def _norm_change(step: Step, event: int, speed: Speed) -> GraphChange:
    """The kernels of a batch norm, all shorter by the same share."""
    rows = step.below([event])
    tensors = [each for each in step.tensors(event) if len(each.dims) > 3]
    if not tensors or not len(rows):
        return GraphChange()
    passes = PASSES_BACK if "backward" in step.name(event) else PASSES
    ns = step.memory_ns(speed, passes * (tensors[0].bytes or 0) / NORM_SHARE)
    return step.shorter(rows.tolist(), min(ns / max(step.ns(rows), 1.0), 1.0))
