"""Whether attention runs in the fastest kernel that the card has for it."""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, plural, time_text, times_text
from foretrace.look.documents import Finding
from foretrace.look.rules import Found, Group, Seen, matmul_ns, rule
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace
from foretrace.work.costs import Tensor
from foretrace.work.kernel_row import KernelRow

FALLBACK = "aten::_scaled_dot_product_attention_math"
BATCHED_MATMULS = frozenset({"aten::bmm", "aten::baddbmm", "aten::matmul"})
# Scale, mask, a cast and dropout may lie between the softmax and its matmul.
REACH = 5


@rule(
    "Attention computed step by step",
    "gpu ops",
    fixes="fused_attention",
    example="attention_inplace_8x16x1024x64_bf16",
)
def attention_math(seen: Seen) -> Found:
    """Attention computed step by step instead of in one kernel.

    What it shows: calls of `scaled_dot_product_attention` that fell back to the math path, and
    attention written out by hand: matmul, softmax, matmul. The whole score matrix lies in memory
    between them.

    Why it matters: a fused kernel (flash, memory-efficient, cuDNN) never writes the scores, which
    grow with the square of the sequence. Published for an A100 (batch 8, 16 heads, sequence 1024,
    bf16, causal): 7.2 ms and 20 kernels with the math path, 2.0 ms by hand, 0.15 ms with flash
    attention.

    How it is computed: GPU operations below `_scaled_dot_product_attention_math`. Also softmax
    kernels with a batched matmul shortly before that writes a tensor of the softmax's size, and one
    shortly after that reads one, with every kernel and copy that ran between the two matmuls. What
    one kernel saves is predicted by the fix `fused_attention`.

    When it is wrong: the trace does not tell why PyTorch fell back. An odd head size, a mask that
    the fused kernels do not take, or float32 scores can be the reason
    (`torch.nn.attention.sdpa_kernel` with one backend makes PyTorch say why). What runs between the
    two matmuls on the same stream is counted, whatever it is for.
    """
    origins = seen.trace.origins
    call = origins.calls(seen.within(origins.op, lambda name: name == FALLBACK))
    fallback = np.flatnonzero((call >= 0) & seen.counted)
    if len(fallback):
        what = "scaled_dot_product_attention fell back to the math path"
        yield _steps_finding(seen, fallback, len(distinct(call[fallback])), what)
    pairs = [pair for pair in by_hand(seen.trace) if call[pair[0]] < 0]
    if pairs:
        what = "Attention written out as matmul, softmax, matmul"
        yield _steps_finding(seen, between(seen.trace, pairs), len(pairs), what)


def _steps_finding(seen: Seen, rows: Ints, calls: int, what: str) -> Finding:
    count, kernels = seen.each(calls), seen.each(int(seen.gpu.is_kernel[rows].sum()))
    detail = (
        f"{plural(kernels, 'kernel')} and {time_text(seen.ns(rows))} {seen.per}, copies between "
        "them included. Fused attention is one kernel and writes no scores."
    )
    evidence = {"calls": count, "kernels": kernels, "ns": seen.ns(rows)}
    title = f"{what} {times_text(count)} {seen.per}"
    return seen.found(title, detail, evidence, seen.gpu.id[rows])


def by_hand(trace: Trace) -> list[tuple[int, int]]:
    """Rows of `gpu` of the two matmuls around each softmax."""
    order, cases = trace.order, trace.kernel_rows
    middle = np.array(
        [(case.role, case.op) == ("softmax", "aten::_softmax") for case in cases], bool
    )

    def reads(case: KernelRow, sizes: tuple[int, ...]) -> bool:
        left = case.call.tensor(0) if case.call else None
        return left is not None and left.bytes in sizes

    matmul = [case.role == "gemm" and case.op in BATCHED_MATMULS for case in cases]
    found: list[tuple[int, int]] = []
    for place in np.flatnonzero(middle[order.case] & order.counts).tolist():
        size = cases[order.case[place]].bytes_written
        sizes = (size, size // 2, size * 2) if size is not None else ()
        near = range(max(place - REACH, 0), min(place + REACH, len(order.case) - 1) + 1)
        around = [(at, cases[order.case[at]]) for at in near if matmul[order.case[at]]]
        before = [at for at, case in around if at < place and case.bytes_written in sizes][-1:]
        after = [at for at, case in around if at > place and reads(case, sizes)][:1]
        if before and after and order.lane[before[0]] == order.lane[after[0]]:
            found.append((int(order.row[before[0]]), int(order.row[after[0]])))
    return found


def between(trace: Trace, pairs: list[tuple[int, int]]) -> Ints:
    """All rows of `gpu` from the first to the second matmul on their stream."""
    lane = trace.gpu.lane  # rows are in time order
    rows = [first + np.flatnonzero(lane[first : last + 1] == lane[first]) for first, last in pairs]
    return distinct(np.concatenate(rows))


# The argument that is the mask.
MASKS = {"aten::_cudnn_attention_forward": 3, "aten::_efficient_attention_forward": 3}
COMPARISONS = frozenset({"le", "lt", "ge", "gt"})
POSITIONS, TRIANGLES = frozenset({"arange", "iota"}), frozenset({"tril", "triu"})
HALF = "bf16"  # fused attention takes 16-bit inputs, and both types have one peak
HEADS = 1  # the dimension of the heads in cuDNN's layout


@rule("A mask written out in compiled code", "gpu shapes", realised=0.5, example="llama_compiled")
def dense_mask(seen: Seen) -> Found:
    """Attention with a mask written out in compiled code.

    What it shows: attention calls of a compiled program that read a whole mask, one number for each
    pair of a query and a key, and the generated kernels that write it. Also key and value heads
    that a generated kernel copies to the number of query heads.

    Why it matters: a kernel that is told `is_causal=True` skips the half of the scores above the
    diagonal and reads no mask. With `enable_gqa=True` it reads each key head once. A model library
    can choose this in eager mode and write a mask under `torch.compile`, because it decides by
    values that are not known while tracing. On an H200 (torch 2.11, transformers' Llama, batch 4,
    16 query and 4 key heads, 1024 tokens, head size 128) one call takes 48.7 us in eager mode and
    116 us compiled. The same model written with `is_causal=True` takes 49.0 us compiled.

    How it is computed: attention ops whose recorded mask has as many rows as there are queries and
    columns as there are keys, where a kernel of Inductor has a tensor of this shape and is named
    after positions and a comparison (`arange`, `le`) or a triangle (`tril`). Copied heads: a kernel
    of Inductor whose last tensor has the shape of the keys, and whose largest other tensor is
    smaller by a whole factor. The saving is at most the time of all these kernels, less the time of
    half the FLOPs at the card's peak.

    When it is wrong: the mask may hold more than a causal mask (padding, packed sequences, a
    window). Then it is needed, in whole or as `flex_attention`. A trace does not hold the values of
    a mask.
    """
    cases = [case for case in seen.cases if case.launches]
    generated = [case for case in cases if case.id.family == "inductor_triton"]
    masks = {mask.dims: mask for case in cases if (mask := _mask(case))}
    makers = {dims: [case for case in generated if _makes(case, dims)] for dims in masks}
    written = {dims for dims, found in makers.items() if found}
    if not written:
        return
    calls = [case for case in cases if (mask := _mask(case)) and mask.dims in written]
    attention = [case for case in cases if case.role == "attention" and _shapes(case) & written]
    copies = {copy.number: copy for call in calls for copy in generated if _shared(copy, call)}
    writers = {case.number: case for dims in written for case in makers[dims]}
    whole = seen.together([*attention, *(writers | copies).values()])
    forward = seen.together(calls)
    if whole and forward:
        largest = max((masks[dims] for dims in written), key=lambda mask: mask.elements)
        fewer = {_shared(copy, call) for call in calls for copy in copies.values()} - {0}
        yield _mask_finding(seen, largest, whole, forward, len(copies) and max(fewer))


def _mask_finding(seen: Seen, mask: Tensor, whole: Group, calls: Group, heads: int) -> Finding:
    first, device = calls.cases[0], seen.device
    query = first.call.tensor(0) if first.call else None
    every = query.dims[HEADS] if query else 0
    least = sum((matmul_ns(device, case, HALF) or 0.0) / 2 * case.launches for case in calls.cases)
    saved = seen.step(max(sum(case.ns for case in whole.cases) - least, 0.0))
    size = f" ({bytes_text(mask.bytes)})" if mask.bytes else ""
    copied = f" Keys and values of {heads} heads are copied to {every}." if heads else ""
    title = f"Compiled attention reads a written-out mask {times_text(calls.count)} {seen.per}"
    detail = (
        f"A generated kernel compares positions and writes the mask {mask.text}{size}. "
        f"Attention computes every score and reads it: {time_text(first.median_ns)} a call, "
        f"{time_text(calls.ns)} {seen.per}.{copied} If the mask is causal and nothing else, "
        f"is_causal=True halves the scores and saves at most {time_text(saved)} {seen.per}."
    )
    evidence = {
        "mask": list(mask.dims),
        "calls": calls.count,
        "attention_ns": calls.ns,
        "ns": whole.ns,
        "key_heads": heads or None,
        "query_heads": every if heads else None,
    }
    fix = "call attention with is_causal=True instead of a mask"
    fix += ", and with enable_gqa=True" if heads else ""
    return seen.found(title, detail, evidence, whole.events, saved, fix)


def _mask(case: KernelRow) -> Tensor | None:
    """The mask of an attention call: a number for every query and key, of several queries."""
    if case.call is None or case.op not in MASKS or case.role != "attention":
        return None
    mask, query = case.call.tensor(MASKS[case.op]), case.call.tensor(0)
    if mask is None or query is None or len(mask.dims) < 2 or len(query.dims) < 3:
        return None
    rows, columns = mask.dims[-2:]
    return mask if rows == columns > 1 and rows in query.dims else None


def _makes(case: KernelRow, dims: tuple[int, ...]) -> bool:
    ops = frozenset(case.id.get("ops") or ())
    compares = ops & TRIANGLES or (ops & POSITIONS and ops & COMPARISONS)
    return bool(compares) and dims in _shapes(case)


def _shapes(case: KernelRow) -> set[tuple[int, ...]]:
    return {tensor.dims for tensor in case.call.every_tensor()} if case.call else set()


def _shared(copy: KernelRow, call: KernelRow) -> int:
    """How many key heads this kernel copies to those of the call; 0 if it copies none."""
    keys = call.call.tensor(1) if call.call else None
    tensors = copy.call.every_tensor() if copy.call else ()
    if keys is None or len(tensors) < 2 or tensors[-1].dims != keys.dims:
        return 0
    times, rest = divmod(keys.elements, max(tensor.elements for tensor in tensors[:-1]) or 1)
    whole = times > 1 and not rest and keys.dims[HEADS] % times == 0
    return keys.dims[HEADS] // times if whole else 0


NAMESPACE = "pytorch_flash::"
# cuDNN was measured with head sizes 64 and 128.
LARGEST_HEAD = 128
FEWEST_QUERIES = 128
# Batch, tokens, heads, head size; sequences packed into one batch have three dimensions.
DIMENSIONS, QUERIES = 4, 1
OTHER_OPTIONS = ("dropout", "alibi", "local", "softcap")
# The largest of the measured ratios, the backward of 4 x 32 heads x 2048 tokens x 128 (an H200,
# torch 2.11; tests/recorded/measured.json).
RATIO = 1.98


@rule(
    "Flash attention 2 on a Hopper card",
    "gpu shapes",
    realised=0.5,
    example="attention_flash_8x16x1024x64_bf16",
)
def flash2_on_hopper(seen: Seen) -> Found:
    """Flash attention 2 on a Hopper card.

    What it shows: attention in PyTorch's copy of flash attention 2 on an H100 or H200, where cuDNN
    computes the same.

    Why it matters: flash attention 2 was written for Ampere. It uses neither the asynchronous
    matmuls nor the bulk copies of Hopper; cuDNN's kernels do. Measured on an H200 (torch 2.11,
    bf16, the same inputs, 512 to 8192 tokens): flash attention 2 takes 1.2 to 1.6 times as long as
    cuDNN with head size 64, 1.5 to 1.9 times with head size 128, and its backward 1.5 to 2.0 times.
    With 128 tokens the forward takes 1.1 to 1.4 times as long.

    How it is computed: the time of the kernels in the namespace `pytorch_flash`, on a card of
    compute capability 9.0, with 16-bit inputs, a head size up to 128 and at least 128 queries.
    Calls with dropout, ALiBi, a window or a score cap are left out. The saving is at most half of
    that time: the largest ratio that we measured is 1.98.

    When it is wrong: cuDNN may refuse a call (`sdpa_kernel` with this backend alone then fails),
    and other sizes than those measured may gain less. cuDNN takes more host time: one decoding call
    (1 query, 4096 keys) took 92 us instead of 65 us, with 36.0 us on the GPU instead of 39.5 us. So
    a step that is host-bound becomes slower, and calls with few queries are left out.
    """
    hopper = seen.device is not None and seen.device.arch == "sm_90"
    whole = seen.where(_replaceable) if hopper else None
    if whole is None:
        return
    saved = round(whole.ns * (1 - 1 / RATIO))
    title = f"Flash attention 2 on a Hopper card: {plural(whole.count, 'kernel')} {seen.per}"
    detail = (
        f"Time: {time_text(whole.ns)} {seen.per}. On an H200 cuDNN's attention was 1.1 to 1.98 "
        f"times as fast on the same inputs, which would save at most {time_text(saved)}."
    )
    kernels = seen.facts(whole.cases, "kernel op shapes count ns")
    evidence = {"kernels": kernels, "count": whole.count, "ns": whole.ns}
    fix = "use cuDNN attention (sdpa_kernel(SDPBackend.CUDNN_ATTENTION))"
    yield seen.found(title, detail, evidence, whole.events, saved, fix)


def _replaceable(case: KernelRow) -> bool:
    head, query = case.id.get("head_dim"), case.call.tensor(0) if case.call else None
    return (
        case.role == "attention"
        and NAMESPACE in case.name
        and not any(case.id.get(word) for word in OTHER_OPTIONS)
        and (head is None or head <= LARGEST_HEAD)
        and query is not None
        and len(query.dims) == DIMENSIONS
        and query.dims[QUERIES] >= FEWEST_QUERIES
        and case.id.get("dtype_in") in (None, "bf16", "f16")
    )
