"""What several rules need: what counts, the least time of an operation, copies, and words.

`traffic_of` says what one kernel in place of several must still move: operands from outside and
results for outside. A trace records the sizes of operands, not which tensor is which. Where two
tensors can be one, they count as one, so that the traffic is the least there can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import coded
from foretrace.base.units import bytes_text, time_text
from foretrace.model.arguments import made, operands
from foretrace.model.costs import OpCall, Tensor, peak_flops, short_type
from foretrace.model.costs.matmul import OPERANDS
from foretrace.model.costs.roofline import cache_rate, memory_rate, traffic_ns
from foretrace.model.intervals import Bools, Ints, innermost, split_by
from foretrace.model.metadata import device_of
from foretrace.model.order import Case, Order
from foretrace.model.trace import Trace
from foretrace.schema.compiler import CompiledLaunch
from foretrace.schema.device import Device
from foretrace.schema.tables import NONE

# A finding names at most this many events, enough to jump to; the evidence holds the count.
EVENTS = 50
# A finding lists at most this many kinds of a thing, the most expensive first.
LISTED = 8
# A tensor that is written and read in less: a kernel takes as long to start.
SHORTEST_TOLD_NS = 1000
# Ops that add their first argument to the matmul of the next two.
ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addmv"})


def per(trace: Trace) -> str:
    """What the totals of the rules are for."""
    return "per step" if trace.order.steps else "in the whole recording"


def ids(values: Ints | Iterable[int]) -> tuple[int, ...]:
    """The first of these event ids."""
    return tuple(int(value) for value in islice(values, EVENTS))


def inside_steps(trace: Trace, rows: Ints) -> Ints:
    """Of these host events those that lie in a step; all, where there are no steps."""
    steps = trace.spans.steps
    if not trace.order.steps:
        return rows
    edges = np.array([(span.start_ns, span.end_ns) for span in steps])
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    return rows[innermost(edges[:, 0], edges[:, 1], trace.host.start[rows]) >= 0]


def counted(trace: Trace) -> Bools:
    """Which rows of `gpu` count: all, or those in steps where there are steps."""
    return trace.spans.step_of_work() >= 0 if trace.order.steps else np.ones(len(trace.gpu), bool)


def costliest_groups(trace: Trace, rows: Ints, most: int = 3) -> list[str]:
    """The groups that have most of the time of these rows: `RMSNorm`, `RoPE`."""
    names, place = coded(trace.work_groups[rows])
    time = np.bincount(place.reshape(-1), weights=trace.gpu.length[rows], minlength=len(names))
    return [str(names[at]) for at in np.argsort(-time, kind="stable")[:most]]


def bare(op: str) -> str:
    """`aten::gelu` -> `gelu`."""
    return op.removeprefix("aten::")


def listing(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shortened(words: Sequence[str], most: int = 6) -> str:
    """`a, b, c and 12 more`: no more than fit a line."""
    more = len(words) - most
    return listing([*words[:most], f"{more} more"] if more > 1 else words)


def amount_text(entry: dict[str, Any]) -> str:
    """`277 us, 204.5 MB` of an entry with `ns` and `bytes`; the time alone without bytes."""
    size = entry["bytes"]
    return time_text(entry["ns"]) + ("" if size is None else f", {bytes_text(size)}")


def each(trace: Trace, count: float) -> float:
    """A count per step, whole where it is whole."""
    share = count / max(trace.order.steps, 1)
    return int(share) if float(share).is_integer() else round(share, 1)


def shapes_text(call: OpCall | None) -> str:
    """The shapes of the tensor arguments, `[8192, 768] x [768, 3072]`; a result that is passed in
    is left out. What a matmul is added to comes last: `[8192, 768] x [768, 3072] + [3072]`.
    """
    tensors = call.every_tensor() if call else ()
    if call and call.name in OPERANDS:
        tensors = tensors[: OPERANDS[call.name]]
    texts = [f"[{', '.join(str(size) for size in tensor.dims)}]" for tensor in tensors]
    if call and call.name in ADDING and len(texts) == 3:
        return f"{texts[1]} x {texts[2]} + {texts[0]}"
    return " x ".join(texts)


def bandwidth_ns(device: Device | None, count: int | None) -> float:
    """The least time to move this many bytes; 0 if unknown or if the cache may hold them."""
    if device is None or not count or count <= (device.l2_bytes or 0):
        return 0.0
    return count / device.bytes_per_s * 1e9


def in_cache_text(trace: Trace, size: int, working_set: int) -> str:
    """What L2 makes of writing and reading a tensor, where it holds all that a kernel moves."""
    device = device_of(trace.about)
    if device is None or not cache_rate(device) or not 0 < working_set <= (device.cache_bytes or 0):
        return ""
    cached = traffic_ns(device, 2 * size, working_set)
    memory = 2 * size / memory_rate(device) * 1e9
    if memory < SHORTEST_TOLD_NS:
        return ""
    return f"It fits in L2: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM. "


def matmul_ns(device: Device | None, case: Case, kind: str = "") -> float | None:
    """The least time of one launch's arithmetic at the card's peak for `kind`, or its own type."""
    top = peak_flops(device, kind or _peak_key(case), True)
    return None if top is None or case.flops is None else case.flops / top * 1e9


def _peak_key(case: Case) -> str:
    stated = case.id.get("dtype_in") or ""
    return {"f16": "fp16", "f32": "tf32", "tf32": "tf32"}.get(stated, stated)


def faster_by(trace: Trace, cases: Sequence[Case], kind: str = "") -> int | None:
    """Time per step beyond the least for the arithmetic of these matmuls; None if unknown.

    A matmul of unknown FLOP among the others counts in full: the bound must hold.
    """
    device = device_of(trace.about)
    least = [matmul_ns(device, case, kind) for case in cases]
    if all(ns is None for ns in least):
        return None
    pairs = zip(cases, least, strict=True)
    beyond = sum(max(case.ns - (ns or 0.0) * case.count, 0.0) for case, ns in pairs)
    return trace.order.per_step(beyond)


def facts(trace: Trace, cases: Sequence[Case], wanted: str) -> list[dict[str, Any]]:
    """What the evidence says of the first of these cases: the facts that `wanted` names."""
    return [_facts(trace, case, wanted) for case in cases[:LISTED]]


def _facts(trace: Trace, case: Case, wanted: str) -> dict[str, Any]:
    known = {
        "kernel": case.id.short,
        "name": case.name,
        "op": case.op,
        "arch": case.id.get("arch"),
        "shapes": shapes_text(case.call),
        "count": each(trace, case.count),
        "ns": trace.order.per_step(case.ns),
        "tflops": case.tflops,
    }
    return {word: known[word] for word in wanted.split()}


class Group(Struct, frozen=True):
    """Cases, the most expensive first: launches and time per step, their share of kernel time."""

    cases: list[Case]
    count: float
    ns: int
    share: float
    events: tuple[int, ...]


def together(trace: Trace, cases: Sequence[Case]) -> Group | None:
    """These cases as one; None when none of them was launched where it counts."""
    order = trace.order
    seen = [case for case in cases if case.count]
    if not seen:
        return None
    seen.sort(key=lambda case: (-case.ns, case.name, case.number))
    ns, every = sum(case.ns for case in seen), max(int(order.length[order.counts].sum()), 1)
    rows = np.flatnonzero(order.counts & np.isin(order.case, [case.number for case in seen]))
    count = each(trace, sum(case.count for case in seen))
    return Group(seen, count, order.per_step(ns), round(ns / every, 4), ids(order.events_of(rows)))


def within(trace: Trace, at: Ints, wanted: Callable[[str], bool]) -> Ints:
    """The nearest range of a wanted name around each of these events of `origins`, or -1."""
    host = trace.origins.host
    return host.nearest(at, host.named(wanted))


@cache
def generation(arch: str | None) -> int | None:
    """`sm90` -> 9, `sm100f` -> 10; None for other cards than NVIDIA's."""
    if not arch or not arch.startswith("sm"):
        return None
    digits = "".join(letter for letter in arch if letter.isdigit())
    return int(digits) // 10 if digits else None


def following(order: Order, distance: int, test: Callable[[int, int], bool]) -> Ints:
    """Places of launches whose case, with that of the launch `distance` before, passes the test.

    Both lie on one stream and in one step, and both count. The test runs once per pair of cases.
    """
    size = len(order.row)
    if size <= distance:
        return np.empty(0, np.int64)
    left, right = slice(0, size - distance), slice(distance, size)
    together = (
        (order.lane[left] == order.lane[right])
        & (order.step[left] == order.step[right])
        & order.counts[right]
    )
    base = len(order.cases)
    codes = order.case[left] * base + order.case[right]
    found, inverse = coded(codes)
    passes = np.array([test(code // base, code % base) for code in found.tolist()], bool)
    return np.flatnonzero(together & passes[inverse]) + distance


MAKERS = frozenset({"aten::copy_", "aten::clone"})
LAYOUT = "layout_transform"  # what the families call a change between NCHW and NHWC


def cast_of(case: Case) -> str:
    """`bf16 -> f32` for a kernel that changes the type, else ""."""
    if case.role != "copy":
        return ""
    call = case.call if case.op == "aten::copy_" else None
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    if target and source:
        return (
            f"{short_type(source.type)} -> {short_type(target.type)}"
            if target.type != source.type
            else ""
        )
    named = case.id.get("src_dtype"), case.id.get("dst_dtype")
    return f"{named[0]} -> {named[1]}" if all(named) and named[0] != named[1] else ""


def plain_copies(trace: Trace) -> Ints:
    """Rows of `gpu` that copy within one device and keep the type."""
    gpu, order = trace.gpu, trace.order
    copies = [case for case in order.cases if case.role == "copy" and not cast_of(case)]
    made = [case for case in copies if case.op in MAKERS or case.id.get("op") == LAYOUT]
    chosen = np.zeros(len(gpu), bool)
    chosen[order.row[np.isin(order.case, [case.number for case in made])]] = True
    on_device = trace.host.named(lambda name: name.startswith(("Memcpy DtoD", "Memcpy PtoP")))
    return np.flatnonzero((chosen | (gpu.is_memcpy & on_device[gpu.id])) & counted(trace))


def by_op_path(trace: Trace, rows: Ints) -> list[tuple[Ints, tuple[str, ...]]]:
    """These rows of `gpu` by the path of ops above them."""
    host, op = trace.origins.host, trace.origins.op[rows]
    groups = split_by(host.op_paths.numbers(op), np.arange(len(rows)))
    return [(rows[group], host.op_chain(int(op[group[0]]))) for group in groups]


def moved_bytes(trace: Trace, rows: Ints) -> int | None:
    """Bytes that these rows read and write together; None where one of them is not known."""
    gpu = trace.gpu
    total = np.full(len(gpu), np.nan)
    total[gpu.is_kernel] = trace.kernels["bytes"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    engine = ~gpu.is_kernel
    passes = np.where(gpu.is_memset[engine], 1, 2)  # a fill only writes
    total[engine] = np.where(gpu.bytes[engine] == NONE, np.nan, gpu.bytes[engine]) * passes
    amount = total[rows].sum()
    return None if np.isnan(amount) else int(amount)


class Traffic(Struct, frozen=True):
    """What one kernel for a group must move, and the largest tensor that it need not."""

    least: int
    largest: int
    name: str


def traffic_of(cases: Sequence[Case], matmuls: Counter[int]) -> Traffic:
    """`matmuls` counts the matmuls that wrote a tensor of some size before the group.

    Operands of one shape from outside count as one tensor, or as many as matmuls made of it. A
    slice counts as part of the largest.
    """
    inside: Counter[int] = Counter()
    outside: Counter[tuple[Any, ...]] = Counter()
    read: dict[int, Tensor] = {}  # what is made and read inside, by size
    pairs = [(case, made(case)) for case in cases]
    for case, result in pairs:
        taken: Counter[int] = Counter()
        for tensor, size in operands(case):
            if inside[size] > taken[size]:
                taken[size] += 1
                read[size] = tensor
            else:
                outside[tensor.dims, tensor.type, _is_slice(tensor), size] += 1
        inside[result] += 1
    largest = max((size for *_, size in outside), default=0)
    least = sum(
        size * min(times, matmuls[size] or 1)
        for (*_, part, size), times in outside.items()
        if size == largest or not part
    )
    final = sum(case.bytes_written or 0 for case, result in pairs if result not in read)
    size = max(read, default=0)
    maker = next((bare(case.op) for case, result in pairs if result == size), "")
    name = f"The {bytes_text(size)} intermediate that {maker} makes"
    if (shown := read.get(size)) and shown.elements == shown.stored:
        name += f" ({shown.text})"
    return Traffic(least + max(final, cases[-1].bytes_written or 0), size, name)


def _is_slice(tensor: Tensor) -> bool:
    """Whether it may be part of a tensor that is read anyway: half of a head, an item of a list."""
    return not tensor.type or has_gaps(tensor)


def has_gaps(tensor: Tensor) -> bool:
    """Whether its elements span more memory than they fill: it is part of a larger tensor."""
    pairs = zip(tensor.dims, tensor.strides or (), strict=False)
    return 1 + sum((size - 1) * abs(stride) for size, stride in pairs) > tensor.stored


def compiled_launches(trace: Trace, case: Case) -> list[CompiledLaunch]:
    """The distinct calls of compiled code that launched a case; none without records."""
    if not trace.compiled:
        return []
    events = trace.kernel_cases["kernels"][case.number].to_list()
    found = (trace.compiled.get(event) for event in events)
    return list({id(each.call): each for each in found if each is not None}.values())


def compiled_ops(trace: Trace, case: Case) -> list[str]:
    """The ops of the program that a case performs, at least in part, by the alphabet."""
    found = compiled_launches(trace, case)
    if not found:
        return []
    from foretrace.model.compiled.program_ops import begun, performed

    return sorted(frozenset().union(*(performed(each) | begun(each) for each in found)))


def compiled_lines(trace: Trace, case: Case) -> list[str]:
    """The lines of the user's code that a case comes from: `model.py:41`."""
    found = {line for each in compiled_launches(trace, case) for line in each.lines}
    return list(dict.fromkeys(line.place for line in sorted(found)))
