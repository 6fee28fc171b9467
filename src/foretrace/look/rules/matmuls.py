"""Whether a matmul runs as fast as the card allows, and what runs beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import counted
from foretrace.base.units import bytes_text, flops_text, listing, percent_text, plural, time_text
from foretrace.look.rules import (
    BACKWARD,
    LISTED,
    Facts,
    Found,
    Group,
    Seen,
    bandwidth_ns,
    bare,
    generation,
    matmul_ns,
    rule,
    shapes_text,
)
from foretrace.work.costs import OpCall, Tensor
from foretrace.work.costs.limits import occupancy, traffic_ns
from foretrace.work.kernel_row import KernelRow

# The setting that allows TF32, by the role of the kernels.
TF32_SETTINGS = {
    "gemm": 'torch.set_float32_matmul_precision("high")',
    "conv": "torch.backends.cudnn.allow_tf32 = True",
}
ROLE_WORDS = ("matmul", "convolution")  # in that order


@rule(
    "Float32 matmuls that leave the tensor cores idle",
    "gpu",
    fixes="tf32 float16",
    example="llama_train_eager",
)
def float32_matmuls(seen: Seen) -> Found:
    """Float32 matmuls that leave the tensor cores idle.

    What it shows: matmuls and convolutions in float32 whose kernels run on the plain cores.

    Why it matters: on an A100 the tensor cores multiply float32 (as TF32) eight times as fast, on
    an H100 seven times. `torch.set_float32_matmul_precision("high")` allows it for matmuls, with 10
    bits of mantissa. bf16 is twice as fast again. A V100 has float16 alone, eight times as fast as
    float32.

    How it is computed: kernels whose name states float32 operands and no tensor-core instruction.
    Where other matmuls, or other convolutions, of the trace use TF32, it is allowed already: then
    the library chose these kernels. What TF32 saves is predicted by the fix `tf32`, and what
    float16 saves on a card without it by `float16`.

    When it is wrong: float32 may be intended, since TF32 rounds the operands. Memory-bound matmuls
    gain little.
    """
    matmuls = [case for case in seen.cases if case.role in TF32_SETTINGS]
    plain = [case for case in matmuls if is_plain(case)]
    allowed = {case.role for case in matmuls if is_tf32(case)}
    slow = [case for case in plain if case.role not in allowed]
    whole = seen.together(slow or plain)
    if whole is None:
        return
    device, roles = seen.device, {case.role for case in whole.cases}
    faster = device is None or "tf32" in device.peak_flops
    advice = "This card's tensor cores take 16-bit types only"
    if faster and slow:
        allowing = ", ".join(setting for role, setting in TF32_SETTINGS.items() if role in roles)
        advice = f"TF32 ({allowing}) or bf16 would use the tensor cores"
    elif faster:
        advice = "TF32 is allowed, others use it: the library chose these kernels"
    words = [word for role, word in zip(TF32_SETTINGS, ROLE_WORDS, strict=True) if role in roles]
    many = f"float32 {'s and '.join(words)}"
    title = f"{plural(whole.count, many, f'{many}s')} {seen.per} without tensor cores"
    detail = (
        f"Total: {time_text(whole.ns)} {seen.per}, {percent_text(whole.share)} of "
        f"kernel time. {advice}."
    )
    kernels = seen.facts(whole.cases, "kernel name op shapes count ns tflops")
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    yield seen.found(title, detail, evidence, whole.events)


def is_tf32(case: KernelRow) -> bool:
    """Whether a float32 matmul or convolution ran on tensor cores."""
    kind = case.id.get("dtype_in")
    return kind == "tf32" or (kind == "f32" and case.id.get("tensor_core") is True)


def is_plain(case: KernelRow) -> bool:
    """Whether a float32 matmul or convolution ran without tensor cores."""
    return case.id.get("dtype_in") == "f32" and case.id.get("tensor_core") is False


# the widest load of one thread up to Hopper, and what the TMA unit demands of row starts
LOAD_BYTES = 16
# Matmuls by the place of their first factor.
PLAIN_MATMULS = frozenset(
    {"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::_scaled_mm", "aten::_int_mm"}
)
ADDING_MATMULS = frozenset(
    {"aten::addmm", "aten::addmm_", "aten::_addmm_activation", "aten::baddbmm", "aten::baddbmm_"}
)
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "e4m3": 1, "e5m2": 1, "i8": 1, "f64": 8}


@rule("Matmuls with a dimension that does not fit the card's loads", "gpu", fixes="aligned_sizes")
def misaligned_matmuls(seen: Seen) -> Found:
    """Matmuls with a dimension that does not fit the card's loads.

    What it shows: matmuls whose kernel could load only 1, 2 or 4 elements at a time where 16 bytes
    would be usual, the dimension that causes it, and the generation of the kernel against that of
    the card.

    Why it matters: the fast kernels of a card require that rows begin at multiples of 16 bytes (8
    elements of a 16-bit type). One odd dimension, such as a vocabulary of 50257 or an image grid of
    5185, makes a Hopper card use kernels written for Ampere or Turing. Padding the dimension to a
    multiple of 8 (64 is safest) brings the fast ones back.

    How it is computed: from the alignment that CUTLASS kernels state in their names, and from the
    op's shapes: the dimensions that run along memory in some operand and are no multiple of 16
    bytes. What padding saves is predicted by the fix `aligned_sizes`.

    When it is wrong: a kernel family that does not state its alignment (nvjet, xmma) is not judged.
    """
    whole = seen.where(misaligned)
    if whole is None:
        return
    kernels = [_misaligned_entry(seen, case) for case in whole.cases]
    costly = dict.fromkeys(size for entry in kernels for size in entry["dimensions"].values())
    matmuls = f"{plural(whole.count, 'matmul')} {seen.per}"
    unnamed = "" if seen.trace.has("shapes") else " (record_shapes=True would name the dimension)"
    title = f"{matmuls} with narrow loads{unnamed}"
    if costly:
        sizes = listing([str(size) for size in list(costly)[:4]])
        verb = "is not a multiple" if len(costly) == 1 else "are not multiples"
        title = f"{sizes} {verb} of {kernels[0]['multiple_of']}: {matmuls} with narrow loads"
    arch = seen.trace.about.arch
    card = generation(arch)
    old = {each["arch"] for each in kernels if card and (generation(each["arch"]) or card) < card}
    written = f"Kernels written for {listing(sorted(old))} run on an {arch} card. " if old else ""
    detail = (
        f"{written}Total: {time_text(whole.ns)} {seen.per}, "
        f"{percent_text(whole.share)} of kernel time."
    )
    evidence: Facts = {"count": whole.count, "ns": whole.ns, "share": whole.share}
    evidence |= {"dimensions": sorted(costly), "kernels": kernels[:LISTED]}
    yield seen.found(title, detail, evidence, whole.events)


def misaligned(case: KernelRow) -> bool:
    """Whether a tensor-core matmul loads less than 16 bytes at a time."""
    align, size = case.id.get("align_elems"), ELEMENT_BYTES.get(str(case.id.get("dtype_in")))
    return (
        case.role == "gemm"
        and case.id.get("tensor_core") is True
        and isinstance(align, int)
        and size is not None
        and align * size < LOAD_BYTES
    )


def _misaligned_entry(seen: Seen, case: KernelRow) -> dict[str, Any]:
    shape = matmul(case.call)
    return {
        "kernel": case.id.short,
        "name": case.name,
        "arch": case.id.get("arch"),
        "align": case.id.get("align_elems"),
        "multiple_of": LOAD_BYTES // ELEMENT_BYTES[str(case.id.get("dtype_in"))],
        "matmul": shape.text if shape else None,
        "dimensions": odd_sizes(case),
        "count": seen.each(case.launches),
        "ns": seen.step(case.ns),
    }


def odd_sizes(case: KernelRow) -> dict[str, int]:
    """Sizes along memory that are no multiple of 16 bytes, by dimension."""
    shape, unit = matmul(case.call), LOAD_BYTES // ELEMENT_BYTES[str(case.id.get("dtype_in"))]
    sizes = {at: getattr(shape, at) for at in "mnk" if at in shape.contiguous} if shape else {}
    return {at: size for at, size in sizes.items() if size % unit}


class Matmul(Struct, frozen=True):
    """M rows, N columns, K summed; `contiguous`: the dimensions that run along memory somewhere."""

    m: int
    n: int
    k: int
    contiguous: frozenset[str]

    @property
    def text(self) -> str:
        """`8192x768 by 768x3072`."""
        return f"{self.m}x{self.k} by {self.k}x{self.n}"


def matmul(call: OpCall | None) -> Matmul | None:
    """The matmul that a call computes; None for other ops and for calls without shapes."""
    if call is None or call.name not in PLAIN_MATMULS | ADDING_MATMULS:
        return None
    first = 1 if call.name in ADDING_MATMULS else 0
    left, right = call.tensor(first), call.tensor(first + 1)
    if not left or not right or min(len(left.dims), len(right.dims)) < 2:
        return None
    if call.name == "aten::linear":  # its weight is [N, K]
        right = Tensor(right.dims[::-1], right.type, right.strides and right.strides[::-1])
    m, k, n = left.dims[-2], left.dims[-1], right.dims[-1]
    return Matmul(m, n, k, frozenset({_along(left, "m", "k"), _along(right, "k", "n"), "n"}))


def _along(tensor: Tensor, row: str, column: str) -> str:
    """The dimension whose neighbours are neighbours in memory: in a plain matrix the columns."""
    strides = tensor.strides
    if not strides or len(strides) != len(tensor.dims):
        return column
    return row if strides[-2] == 1 and strides[-1] != 1 else column


DATED_ROLES = frozenset({"gemm", "conv", "attention"})


@rule(
    "Kernels of an older generation than the card", "gpu", example="llama_decode_cuda_graph_2layers"
)
def old_kernels(seen: Seen) -> Found:
    """Matmuls and attention on kernels of an older generation than the card.

    What it shows: kernels written for an earlier generation (`sm80` on an H100), with their share
    of the time. Those that a misaligned dimension explains are in `misaligned_matmuls`, float32
    matmuls on the plain cores in `float32_matmuls`.

    Why it matters: they run, but without what the newer card brought (on Hopper: wgmma, TMA,
    clusters). For small matmuls the library chooses them on purpose, because a large tile would
    leave most of the card idle. For large ones, find out why.

    How it is computed: the generation in the kernel's name against that of the card. The saving is
    at most their time, less the time of the arithmetic at the card's peak, for those whose FLOP are
    known.

    When it is wrong: the number in a name is the oldest card that the code runs on. A kernel
    without a number is not judged. FlashAttention 2, written for sm80, carries no number and is not
    listed.
    """
    about = seen.trace.about
    card = generation(about.arch) or 0

    def older(case: KernelRow) -> bool:
        # float32 on the plain cores has no newer kernels; `float32_matmuls` tells what to do
        told = misaligned(case) or is_plain(case)
        return (
            case.role in DATED_ROLES
            and not told
            and (generation(case.id.get("arch")) or card) < card
        )

    whole = seen.where(older)
    if whole is None:
        return
    made = listing(sorted({str(case.id.get("arch")) for case in whole.cases}))
    first = whole.cases[0]
    shape = f" ({shapes_text(first.call)})" if first.call else ""
    count = f"{plural(whole.count, 'kernel')} {seen.per}"
    title = f"{count} written for {made} on an {about.arch} card"
    detail = (
        f"Total: {time_text(whole.ns)} {seen.per}, {percent_text(whole.share)} of kernel "
        f"time. The largest is {first.id.short}{shape}. For small matmuls the library chooses "
        "such kernels on purpose."
    )
    kernels = seen.facts(whole.cases, "kernel name arch shapes count ns tflops")
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    # a matmul of unknown FLOP among the others counts in full: the bound must hold
    pairs = [(case, matmul_ns(seen.device, case)) for case in whole.cases]
    beyond = sum(max(case.ns - (ns or 0.0) * case.launches, 0.0) for case, ns in pairs)
    known = any(ns is not None for _, ns in pairs)
    yield seen.found(title, detail, evidence, whole.events, seen.step(beyond) if known else None)


OCCUPANCY_LIMITS = {
    "compute": "It is compute-bound all the same",
    "memory": "It is memory-bound all the same",
    "l2": "Its data comes from L2",
}
# Warps explain nothing where the size of the work or the links to other GPUs limit a kernel.
EXPLAINED_LIMITS = ("latency", "comms")
WARPS_SHOWN = 0.32  # half a percent of the 64 warps that an SM holds


@rule("Kernels that keep few warps on each SM", "gpu footprint", example="mlp_eager")
def low_occupancy(seen: Seen) -> Found:
    """Kernels that keep few warps on each SM.

    What it shows: the kernels that take most of the time with less than a quarter of the warps that
    an SM could hold, whether registers or shared memory limit them, and how near they come to the
    roofline all the same. The profiler reports an occupancy of 0 where it did not measure one;
    there it is computed from registers, shared memory and block size.

    Why it matters: few warps hide little latency. LOW OCCUPANCY DOES NOT MEAN SLOW: the fastest
    matrix matmuls and attention kernels run at 12 to 25% on purpose, because large tiles in
    registers and shared memory avoid more memory traffic than more warps could hide. Look at the
    roofline first; occupancy explains a kernel that is near neither roof.

    How it is computed: kernels with at least 5% of the kernel time, those too small for the GPU and
    collectives aside; the profiler's estimate, else the theoretical occupancy of the footprint
    (`work/costs/limits.py`). No saving is claimed.

    When it is wrong: the profiler's figure is an estimate from the grid, the other one a limit for
    an unlimited grid. Traces of AMD cards carry no footprint.
    """
    order = seen.order
    whole = max(int(order.length[order.counts].sum()), 1)
    large = [case for case in seen.cases if case.ns >= 0.05 * whole]
    large = [case for case in large if case.bound not in EXPLAINED_LIMITS]
    places = [int(np.flatnonzero(order.case == case.number)[0]) for case in large]
    pairs = zip(large, places, strict=True)
    known = [_occupancy_entry(seen, case, place, case.ns / whole) for case, place in pairs]
    shares = [entry["occupancy"] for entry in known]
    low = [at for at, share in enumerate(shares) if share is not None and share < 0.25]
    if not low:
        return
    low.sort(key=lambda at: (-large[at].ns, large[at].name))
    first, unmeasured = known[low[0]], sum(entry["source"] == "footprint" for entry in known)
    bound = OCCUPANCY_LIMITS.get(first["bound"], "Its bound is unknown")
    title = f"{plural(len(low), 'kernel')} with low occupancy, which does not mean slow"
    detail = (
        f"{first['kernel']} holds {percent_text(first['occupancy'])} of the warps that an SM could "
        f"({first['registers']} registers per thread, {first['threads']} threads and "
        f"{first['shared_bytes']:,} bytes of shared memory per block). {bound}."
    )
    if unmeasured:
        detail += (
            f" The profiler reported 0 (not measured) for {plural(unmeasured, 'kernel')}: the "
            "occupancy is computed from registers, threads and shared memory."
        )
    evidence = {"kernels": [known[at] for at in low[:LISTED]], "unmeasured": unmeasured}
    yield seen.found(title, detail, evidence, (order.event[places[at]] for at in low))


def _occupancy_entry(seen: Seen, case: KernelRow, place: int, of_time: float) -> dict[str, Any]:
    kernels = seen.trace.kernels
    at = int(np.searchsorted(kernels["id"].to_numpy(), seen.order.event[place]))
    launch = kernels.row(at, named=True)
    threads = math.prod(launch["block"]) if launch["block"] else 0
    share, source = _occupancy(seen, launch, threads)
    return {
        "kernel": case.id.short,
        "occupancy": None if share is None else round(share, 4),
        "source": source,
        "registers": launch["registers"],
        "shared_bytes": launch["shared_memory"] or 0,
        "threads": threads,
        "time_share": round(of_time, 4),
        "bound": case.bound,
    }


def _occupancy(seen: Seen, launch: dict[str, Any], threads: int) -> tuple[float | None, str]:
    """(share of warps, where it comes from) of one launch."""
    written, arch = launch["occupancy"], (seen.trace.about.arch or "").replace("sm", "sm_")
    # rounded to 0 rather than unknown
    small_grid = (launch["warps_per_sm"] or WARPS_SHOWN) < WARPS_SHOWN
    if written or small_grid:
        return (written or 0) / 100, "trace"
    if launch["registers"] is None:
        return None, "none"
    shared = launch["shared_memory"] or 0
    return occupancy(launch["registers"], shared, threads, arch), "footprint"


REDUCERS = frozenset({"splitk_reduce", "conv_wgrad_reduce"})


@rule(
    "Matmuls that were split along K",
    "gpu",
    example="train_step_compiled_4x512x4x768x12x3072x32000_bf16",
)
def split_k(seen: Seen) -> Found:
    """Matmuls that were split along K.

    What it shows: matmuls whose sum was cut into slices that different blocks compute, and the
    kernels that add the slices up.

    Why it matters: the library splits when M x N gives too few tiles to fill the card and K is
    long. The split itself is a gain. Its price is the extra kernel and the memory traffic of the
    partial sums, and one op launches two kernels.

    How it is computed: `splitKreduce` kernels, and matmuls whose name states split-K. The saving is
    at most the time of the reducing kernels: a larger M x N (a larger batch) would need none.

    When it is wrong: older cuBLAS and CUTLASS names do not state the split. There only the reducing
    kernel shows it.
    """
    reducing = [case for case in seen.cases if case.launches and case.id.get("op") in REDUCERS]
    split = [case for case in seen.cases if case.id.get("splitk") is True]
    whole, every = seen.together(reducing or split), seen.together([*reducing, *split])
    if whole is None or every is None:
        return
    spent = seen.step(sum(case.ns for case in reducing))
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op})[:4])
    convolves = {"conv" in case.op or case.role == "conv" for case in whole.cases}
    what = "op" if len(convolves) > 1 else "convolution" if True in convolves else "matmul"
    more = " and more" if len(whole.cases) > 1 else ""
    shape = f" ({shapes_text(whole.cases[0].call)}{more})" if whole.cases[0].call else ""
    after = "The names show no separate kernel that adds the slices"
    if reducing:
        after = f"Adding the slices takes {time_text(spent)} {seen.per}"
    title = f"{plural(whole.count, what)} {seen.per} split along K"
    why = "A library splits K where M x N alone gives too few tiles to fill the card."
    detail = f"{ops}{shape}. {after}. {why}" if ops else f"{after}. {why}"
    kernels = seen.facts(whole.cases, "kernel op shapes count ns")
    evidence = {"count": whole.count, "reduce_ns": spent, "kernels": kernels}
    yield seen.found(title, detail, evidence, every.events, spent or None)


# A smaller matmul takes a few microseconds and its kernel says little: 2 GFLOP is 3 us on an H200.
SMALL_FLOPS = 1_000_000_000


@rule("Matmuls of equal size on different kernels", "gpu shapes", example="mlp_eager")
def gemm_choice(seen: Seen) -> Found:
    """Matmuls of equal size on different kernels.

    What it shows: matmuls that need the same number of FLOP: which of them share a kernel, which
    run another one, and how fast each is.

    Why it matters: the library chooses a kernel by shape, layout and alignment, not by the amount
    of work. In a gated MLP the gate and up projections have the same shape and share one kernel.
    The down projection has as many FLOP the other way round, runs another kernel and may be faster
    or slower. A kernel's name alone does not identify a layer.

    How it is computed: matmuls by FLOP and data type, where at least two kernels share the work.

    When it is wrong: the names are certain. Differences of speed below a few percent are noise
    unless the trace has many launches.
    """
    sizes: dict[tuple[Any, Any], list[KernelRow]] = {}
    for case in seen.cases:
        if case.launches and case.role == "gemm" and (case.flops or 0) >= SMALL_FLOPS:
            sizes.setdefault((case.flops, case.id.get("dtype_in")), []).append(case)
    # Names that differ in nothing a reader sees are one kernel to them.
    groups = [cases for cases in sizes.values() if len({case.id.short for case in cases}) > 1]
    whole = seen.together([case for cases in groups for case in cases])
    if whole is None:
        return
    for cases in groups:
        cases.sort(key=lambda case: (-case.launches, case.name))
    groups.sort(key=lambda cases: (-sum(case.ns for case in cases), cases[0].name))
    first, steps, when = groups[0], max(seen.order.steps, 1), seen.per
    if any(case.launches % steps for case in first):
        # where steps differ in shapes, no count holds for each of them
        steps, when = 1, "in all steps together"

    def words(case: KernelRow) -> str:
        count = case.launches // steps
        use, every = ("uses", "") if count == 1 else ("use", " each")
        return (
            f"{plural(count, 'matmul')} {shapes_text(case.call)} {use} {case.id.short} "
            f"({time_text(case.median_ns)}{every})"
        )

    def facts(cases: list[KernelRow]) -> list[dict[str, Any]]:
        told = seen.facts(cases, "kernel name shapes count median_ns tflops")
        known = (each["tflops"] for each in told)
        rates = [None if each is None else round(each, 1) for each in known]
        return [each | {"tflops": rate} for each, rate in zip(told, rates, strict=True)]

    count = plural(sum(case.launches for case in first) // steps, "matmul")
    kinds = plural(len({case.id.short for case in first}), "different kernel")
    title = f"{count} of {flops_text(first[0].flops)} {when} on {kinds}"
    listed = "; ".join(map(words, first[:4]))
    detail = f"{listed}. The work is equal; the library chooses by shape and layout."
    shown = [{"flops": cases[0].flops, "kernels": facts(cases)} for cases in groups[:LISTED]]
    yield seen.found(title, detail, {"groups": shown}, whole.events)


WEIGHT_PLACE = {"aten::mm": 1, "aten::addmm": 2}
WEIGHT_ROLES = frozenset({"gemm", "gemv"})
WEIGHT_KINDS = {"c10::Half": "fp16", "float": "tf32"}  # others count as bf16
# Weights of twice the L2 cache cannot stay there from one step to the next; those that a loop reads
# again and again can, up to half of it: what else a step moves takes its place too.
CACHES, LOOPED = 2, 0.5
# Share of the matmuls' time that must have recorded weights; the rest may be attention.
NEARLY_ALL = 0.9
HIDDEN_MATMULS = frozenset(
    {"mm", "addmm", "linear", "mv"}
)  # a generated kernel may hold the matmul itself
# Below this the step is near its floor, and there is nothing to tell.
FAR_ABOVE = 1.5


@rule("Reading the weights as a floor", "gpu shapes")
def weights_floor(seen: Seen) -> Found:
    """Reading the weights as the floor of a decoding step.

    What it shows: how many bytes of weights the matmuls of a step read, the time of that at the
    card's full bandwidth, and how far the GPU time is above it.

    Why it matters: with few tokens a matmul does little arithmetic on each weight. The step cannot
    be shorter than one pass over the weights. GPU time far above that floor is in small kernels, in
    matmuls with too few blocks to reach the bandwidth, or in the cache. Smaller weights (fp8, int4)
    or more sequences per step lower the floor per token.

    How it is computed: `mm` and `addmm` in traces without a backward pass; the weight is the second
    operand, as it is stored. They must be 90% of the time of all matmuls. It is told when their
    arithmetic at the card's peak takes less time than their weights at full bandwidth, when the
    weights are at least twice the L2 cache, and when the GPU time is at least 1.5 times the floor.
    The saving is at most the GPU time less the weights beyond the L2 cache at full bandwidth.

    When it is wrong: a weight that two matmuls of a step read counts twice, as a step of two calls
    reads each weight twice. A trace has sizes, not addresses: matmuls of one size may read one
    weight, as a loop over samples or time steps does. Where one weight of each size takes less than
    half of the L2 cache, they may all come from there, and nothing is told.
    """
    device, spans = seen.device, seen.trace.spans
    if device is None or any(name.startswith(BACKWARD) for name in seen.host.names):
        return
    weights = [(case, weight) for case in seen.cases if case.launches and (weight := _weight(case))]
    whole = seen.together([case for case, _ in weights])
    if whole is None or not _all_have_weights(seen, whole):
        return
    steps, cache = max(seen.order.steps, 1), device.l2_bytes or 0
    size = sum((weight.bytes or 0) * case.launches for case, weight in weights) / steps
    times = [
        (matmul_ns(device, case, WEIGHT_KINDS.get(weight.type, "bf16")) or 0.0) * case.launches
        for case, weight in weights
    ]
    busy = spans.median_busy(spans.steps) or float(seen.gpu.busy(seen.gpu.usable))
    full = size / device.bytes_per_s * 1e9
    least = sum({(weight.dims, weight.type): weight.bytes or 0 for _, weight in weights}.values())
    if size < CACHES * cache or least < LOOPED * cache:
        return
    if sum(times) / steps > full or busy < FAR_ABOVE * full:
        return
    title = (
        f"Weights read: {bytes_text(size)}, {time_text(full)} at {bytes_text(device.bytes_per_s)}"
        f"/s; GPU work is {busy / full:.1f}x this floor"
    )
    detail = (
        f"{plural(whole.count, 'matmul')}, {time_text(whole.ns)} {seen.per}; all GPU work "
        f"takes {time_text(busy)}. A step cannot be shorter than one pass over its weights; at "
        f"most {bytes_text(cache)} of them can come from L2."
    )
    evidence: Facts = {"weight_bytes": round(size), "floor_ns": round(full), "busy_ns": round(busy)}
    evidence |= {"matmuls": whole.count, "matmul_ns": whole.ns}
    saved = round(busy - max(size - cache, 0) / device.bytes_per_s * 1e9)
    yield seen.found(title, detail, evidence, whole.events, saved)


def _weight(case: KernelRow) -> Tensor | None:
    """The second operand of a matmul, where the trace has its size."""
    if case.call is None or case.op not in WEIGHT_PLACE or case.role not in WEIGHT_ROLES:
        return None
    weight = case.call.tensor(WEIGHT_PLACE[case.op])
    return weight if weight is not None and weight.bytes else None


def _all_have_weights(seen: Seen, whole: Group) -> bool:
    """Whether these are nearly all matmuls: others, as in a graph, read weights that we miss."""
    inside = any(
        case.id.family.startswith("inductor")
        and HIDDEN_MATMULS.intersection(case.id.get("ops") or ())
        for case in seen.cases
    )
    every = seen.where(lambda case: case.role in WEIGHT_ROLES)
    return not inside and every is not None and whole.ns >= NEARLY_ALL * every.ns


# ATen's kernel tries the tanh form first: the first lambda of this function is it, the second the
# error function.
TANH_GELU = "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}"
RELU = frozenset({"aten::relu", "aten::relu_", "aten::clamp_min", "aten::clamp_min_"})


@rule("An activation that the matmul could apply", "gpu shapes", realised=0.5)
def activation_epilogue(seen: Seen) -> Found:
    """An activation that the matmul before it could apply.

    What it shows: ReLU and tanh GELU kernels directly after a matmul with a bias, of the same
    result.

    Why it matters: the kernel reads and writes the whole result again. cuBLASLt applies both
    functions in the matmul's epilogue, before the result leaves the chip. Measured on an H200
    (torch 2.11, bf16, six sizes from 1024 x 1024 x 1024 to 8192 x 4096 x 16384): with ReLU in the
    epilogue the matmul takes 0.98 to 1.02 of its time alone, with GELU 1.02 to 1.12. The kernel of
    its own adds 9 to 50%.

    How it is computed: an `addmm` with a bias vector, and as the next launch on the stream `relu`,
    or `gelu` with the tanh approximation (by the kernel's name), on as many bytes as the matmul
    writes. The saving is at most the time of the activation's kernel. `torch._addmm_activation` is
    the op; `torch.compile` does it with `mode="max-autotune"` if its own matmuls win the
    measurement.

    When it is wrong: a training step needs the values before GELU. A trace with a backward pass is
    passed over, and so are cards that cuBLASLt does not run on. The trace shows sizes and order,
    not that it is the same tensor. GELU without the approximation has no epilogue.
    """
    backward = any(name.startswith(BACKWARD) for name in seen.host.names)
    if backward or not (seen.trace.about.arch or "").startswith("sm"):
        return
    rows = seen.following(1, _is_activation_of)
    if not len(rows):
        return
    numbers, counts = counted(seen.order.case[rows])
    ns, count = seen.step(int(seen.order.length[rows].sum())), seen.each(len(rows))
    kinds = [seen.cases[number] for number in numbers]
    words = listing(sorted(set(map(_activation, kinds))))
    title = f"{words} after {plural(count, 'matmul')} {seen.per} could be in the epilogue"
    detail = (
        f"The activation reads and writes the matmul's result again: {time_text(ns)} "
        f"{seen.per}. The trace shows sizes and order, not that it is the same tensor."
    )
    kernels = [
        {"activation": _activation(case), "shapes": shapes_text(case.call), "count": seen.each(of)}
        for case, of in zip(kinds, counts.tolist(), strict=True)
    ][:LISTED]
    evidence = {"activations": count, "ns": ns, "kernels": kernels}
    fix = "apply the activation in the matmul (torch._addmm_activation)"
    events = seen.order.events_of(np.union1d(rows, rows - 1))
    yield seen.found(title, detail, evidence, events, ns, fix)


def _is_activation_of(left: KernelRow, right: KernelRow) -> bool:
    """Whether the second applies an activation to a tensor of the size of the first's result."""
    bias = left.call.tensor(0) if left.call and left.op == "aten::addmm" else None
    vector = left.role == "gemm" and bias is not None and len(bias.dims) == 1
    result = right.call.tensor(0) if right.call else None
    sized = result is not None and left.bytes_written and result.bytes == left.bytes_written
    return bool(vector and sized and _activation(right))


def _activation(case: KernelRow) -> str:
    """`ReLU` or `GELU`, where the kernel does nothing else; "" otherwise."""
    if case.role != "pointwise":
        return ""
    if case.id.family == "inductor_triton":
        return "ReLU" if list(case.id.get("ops") or ()) == ["relu"] else ""
    if case.op == "aten::gelu":
        return "GELU" if TANH_GELU in case.name else ""
    zero = case.op in ("aten::relu", "aten::relu_") or (case.call and case.call.text(1) == "0")
    return "ReLU" if case.op in RELU and zero else ""


ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm"})
ACTIVATIONS = frozenset({"relu", "gelu", "swiglu", "silu"})


@rule("A bias added inside a matmul", "gpu ops", example="linear_compiled")
def bias_epilogue(seen: Seen) -> Found:
    # Cases whose op launched only this kernel (a memset may be the library's own counter).
    """A bias (and an activation) added inside a matmul.

    What it shows: matmuls whose kernel adds the bias vector in its epilogue, and applies the
    activation where the name says so. There is no add kernel, and the result is written to memory
    once.

    Why it matters: this is what `nn.Linear` should do, and worth checking. The alternative writes
    the matmul, reads it back and writes it again: the finding says how many bytes that is, and the
    least time that memory takes for them. It also costs a launch, of which the trace holds no time.

    How it is computed: either the kernel's name states a bias (`bias`, `gelubias` in nvjet names),
    or an `addmm` with a one-dimensional bias launched this one kernel and no copy, so that nothing
    else can have added it. A name that only says that the epilogue could apply ReLU proves nothing
    and does not count.

    When it is wrong: in the first case never, as far as the names are understood (checked on an
    H200 and a B200). In the second case only if the trace lost a GPU event, which the ledger would
    say.
    """
    order, call = seen.order, seen.trace.origins.call
    busy = call[(call >= 0) & ~seen.gpu.is_memset]
    launched = np.bincount(busy, minlength=int(call.max(initial=0)) + 1)
    shared = launched[np.maximum(call[order.row], 0)] != 1
    excluded = order.case[shared | (order.op < 0)].tolist()
    alone, device = frozenset(range(len(seen.cases))) - frozenset(excluded), seen.device
    matmuls = [case for case in seen.cases if case.role == "gemm" and case.launches]
    proofs = {case.number: _bias_proof(case, alone) for case in matmuls}
    whole = seen.together([case for case in matmuls if proofs[case.number]])
    if whole is None:
        return
    activations = sorted(
        ACTIVATIONS & {word for case in whole.cases for word in _epilogue_words(case)}
    )
    count = f"{plural(whole.count, 'matmul')} {seen.per}"
    title = f"{listing(['Bias', *activations])} in the epilogue of {count}: no add kernel"
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op}))
    where = "The matmul adds it before its result leaves the chip."
    detail = f"{where} {ops} launched no kernel for it." if ops else where
    # an add of its own reads the result and writes it again
    again = [(2 * (case.bytes_written or 0), case.launches) for case in whole.cases]
    moved = seen.step(sum(size * times for size, times in again))
    spent = sum(traffic_ns(device, size, size) * times for size, times in again) if device else 0
    least = seen.step(round(spent))
    if moved:
        time = f", at least {time_text(least)}" if least else ""
        more = f"{bytes_text(moved)} more memory traffic {seen.per}"
        detail += f" An add of its own: {more}{time} and a launch."
    kernels = [
        {"kernel": case.name, **told, "proof": proofs[case.number]}
        for case, told in zip(
            whole.cases[:LISTED], seen.facts(whole.cases, "op shapes count"), strict=True
        )
    ]
    evidence = {"matmuls": whole.count, "activations": activations, "kernels": kernels}
    evidence |= {"avoided_bytes": moved, "avoided_ns": least} if moved else {}
    yield seen.found(title, detail, evidence, whole.events)


def _bias_proof(case: KernelRow, alone: frozenset[int]) -> str:
    if "bias" in _epilogue_words(case):
        return "the name says so"
    bias = case.call.tensor(0) if case.call and case.op in ADDING else None
    vector = bias is not None and len(bias.dims) == 1
    return "the only kernel of an op with a bias vector" if vector and case.number in alone else ""


def _epilogue_words(case: KernelRow) -> list[str]:
    return list(case.id.get("epilogue") or ())


MATMULS = frozenset({"gemm", "gemv", "conv"})
VECTOR, MATRIX = "a bias vector", "a whole matrix"
ADDITIONS = frozenset({"aten::add", "aten::add_"})


@rule(
    "An addition after a matmul, in a kernel of its own",
    "gpu shapes",
    realised=0.5,
    example="llama_train_eager",
)
def bias_separate(seen: Seen) -> Found:
    """An addition after a matmul, in a kernel of its own.

    What it shows: matmuls whose result the very next kernel reads back: an addition of a bias
    vector or of a whole matrix (a residual, a two-dimensional bias). Also matmuls whose library ran
    its epilogue as a separate kernel.

    Why it matters: the matmul could add it before its result leaves the chip. Now the result is
    written, read and written again. A vector fits any GEMM's epilogue (`nn.Linear` with its bias,
    `addmm`). A matrix can be added as beta times C, which in PyTorch today costs a copy of that
    matrix first (see `addmm_copy`): measure before you change it.

    How it is computed: in launch order on one stream, an `add` that follows a matmul directly and
    has one operand of exactly the matmul's size. The saving is at most the time of the additions,
    less the time to read the added matrix.

    When it is wrong: a trace records shapes, not which tensor is which. An addition of another
    tensor of the same size looks the same. A matmul whose result is also needed without the sum
    cannot drop it.
    """
    order, cases = seen.order, seen.cases
    second = seen.following(1, lambda left, right: _addition_kind(left, right) != "")
    if not len(second):
        return
    both = np.stack((order.case[second - 1], order.case[second]))
    pairs, counts = np.unique(both, axis=1, return_counts=True)
    known = [
        (cases[left], cases[right], count)
        for left, right, count in zip(*pairs.tolist(), counts.tolist(), strict=True)
    ]
    known.sort(key=lambda entry: (-entry[1].ns, entry[1].name))
    moved = seen.step(sum(2 * (left.bytes_written or 0) * count for left, _, count in known))
    # what reading the added operand takes at the least stays
    added = [case.call.tensor(1) if case.call else None for case in cases]
    least = np.array([bandwidth_ns(seen.device, other.bytes if other else 0) for other in added])
    beyond = np.maximum(order.length[second] - least[order.case[second]], 0)
    saved, total = seen.step(float(beyond.sum())), seen.each(len(second))
    kinds = sorted({_addition_kind(left, right) for left, right, _ in known})
    additions = f"{plural(total, 'addition')} {seen.per}"
    title = f"{additions} in a kernel after the matmul: {listing(kinds)}"
    copied = " PyTorch's addmm copies a whole matrix before it adds to it." * (MATRIX in kinds)
    detail = (
        f"Each writes the result again. If the matmul added it: {bytes_text(moved)} less memory "
        f"traffic {seen.per}, which saves at most {time_text(saved)}. The trace shows sizes and "
        f"order, not that it is the same tensor.{copied}"
    )

    def entry(matmul: KernelRow, addition: KernelRow, count: int) -> dict[str, Any]:
        told = {"addition": shapes_text(addition.call), "kind": _addition_kind(matmul, addition)}
        spent = {"count": seen.each(count), "median_ns": addition.median_ns}
        return {"matmul": matmul.id.short} | told | spent

    shown = [entry(*each) for each in known[:LISTED]]
    evidence = {"additions": total, "kinds": kinds, "bytes": moved, "pairs": shown}
    fix = "give the bias to the matmul (nn.Linear, addmm)" if VECTOR in kinds else ""
    yield seen.found(title, detail, evidence, np.sort(order.event[second]), saved, fix)


def _addition_kind(matmul: KernelRow, addition: KernelRow) -> str:
    """What the second adds to the first: a vector, a matrix, the library's epilogue; else ""."""
    if matmul.role not in MATMULS:
        return ""
    if addition.id.get("op") == "epilogue":
        return "the library's own epilogue"
    if addition.op not in ADDITIONS or addition.call is None or not matmul.bytes_written:
        return ""
    left, right = addition.call.tensor(0), addition.call.tensor(1)
    if left is None or right is None:
        return ""
    small, large = sorted((left, right), key=lambda tensor: tensor.elements)
    if large.bytes != matmul.bytes_written:
        return ""
    if small.bytes == matmul.bytes_written:
        return MATRIX
    # one value per row, column or channel: `[64]`, `[1, 64, 1, 1]`
    sized = [(at, size) for at, size in enumerate(reversed(small.dims)) if size != 1]
    fits = len(sized) == 1 and sized[0][0] < len(large.dims)
    return VECTOR if fits and large.dims[-1 - sized[0][0]] == sized[0][1] else ""
