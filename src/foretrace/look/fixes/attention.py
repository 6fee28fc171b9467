"""Fixes for attention, its masks and its cache of keys and values."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from msgspec import Struct

from foretrace.base.units import plural
from foretrace.look.fixes._step import (
    USUAL,
    WORST,
    Changes,
    CpuStep,
    NewTimes,
    Proposal,
    Proposals,
    Speed,
    Step,
    at_speeds,
    dense,
    fix,
    joined,
    replacing,
    shown,
)
from foretrace.look.rules.attention import FALLBACK, between, by_hand
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange
from foretrace.work.costs import OpCall, Tensor
from foretrace.work.kernel_row import KernelRow

ATTENTION = "aten::scaled_dot_product_attention"
# The kernels of the memory-efficient path; the public op records no shapes in some versions.
INNER = ("aten::_efficient_attention_forward", "aten::_scaled_dot_product_efficient_attention")
WIDE = frozenset({"float", "double"})
WORKING = ("attention", "gemm")
CONVERTED = 1.5  # bytes that a conversion to 16 bit moves for each byte that it reads
BACKWARD = 2.5  # times the arithmetic of the forward pass


@fix("Attention in bf16", "gpu shapes")
def attention_dtype(step: Step) -> Proposals:
    """Attention in bf16 instead of float32.

    What it looks for: `scaled_dot_product_attention` on float32 tensors. The fast kernels (Flash,
    cuDNN) take 16-bit types only; float32 runs in the memory-efficient kernel or on the math path,
    without tensor cores.

    What must hold: the op's query is float32 or float64. A card without bf16 matrix units has no
    gain.

    What changes: the kernels below the call and below its backward node take the time of a 16-bit
    fused kernel for the same arithmetic. At worst, the queries, keys, values and the result are
    converted in kernels of their own.
    """
    wide = wide_attention(step)
    if not len(wide):
        return
    changes = attention_change(step, wide)
    why = f"{plural(len(wide), 'attention', 'attentions')} per step in float32: no tensor cores"
    order = "give scaled_dot_product_attention bf16 (q.bfloat16())"
    risk = "bf16 has 8 bits of precision: compare the loss or the output"
    yield Proposal(order, why, *changes, risk=risk, events=shown(wide))


def wide_attention(step: Step) -> Ints:
    """Calls of attention whose query is float32 or wider, here or in the op that does the work."""

    def is_wide(call: OpCall) -> bool:
        query = call.tensor(0) if "attention" in call.name else None
        return query is not None and len(query.dims) >= 3 and query.type in WIDE

    def calls(event: int) -> list[OpCall]:
        cases = filter(None, map(step.case, step.below([event]).tolist()))
        return [step.call(event), *(case.call for case in cases if case.call)]

    found = step.ops(ATTENTION, *INNER).tolist()
    return np.array([event for event in found if any(map(is_wide, calls(event)))], np.int64)


def attention_change(step: Step, events: Ints, share: float = 1.0) -> Changes:
    """These calls and their nodes in bf16, one kernel for each, with a share of the arithmetic."""
    return replacing([_bf16_call(step, event, share) for event in events.tolist()])


def _bf16_call(step: Step, event: int, share: float) -> tuple[GraphChange, NewTimes]:
    rows, behind = step.below([event]), step.below(step.backward([event]))
    flops = share * step.total(rows, lambda case: case.flops if case.role in WORKING else 0)
    if not len(rows) or not flops:
        return GraphChange(), {}
    size = CONVERTED * step.total(rows[:1], lambda case: case.bytes)

    def price(part: Ints, back: bool, speed: Speed) -> float:
        """A fused kernel; at worst, with conversions around it."""
        extra = step.memory_ns(speed, size) if speed is WORST else 0.0
        work = step.attention_ns(speed, (BACKWARD if back else 1.0) * flops, back)
        return min(work + extra, step.ns(part))

    parts = [(part, back) for part, back in ((rows, False), (behind, True)) if len(part)]
    times: NewTimes = {int(part[0]): partial(price, part, back) for part, back in parts}
    return joined(step.one_kernel(part, 0.0) for part, _ in parts), times


_INNER = ("flash", "efficient", "cudnn", "fused")
MASKED_OPS = (
    "aten::scaled_dot_product_attention",
    *(f"aten::_scaled_dot_product_{name}_attention" for name in _INNER),
)
CAUSAL_ORDER = "pass is_causal=True to SDPA instead of attn_mask"
CAUSAL_RISK = "holds where the mask is causal: a window or packing needs flex_attention"


@fix("Causal attention without a mask", "gpu shapes")
def causal_mask(step: Step) -> Proposals:
    """Causal attention that is told so, without a mask.

    What it looks for: `scaled_dot_product_attention` with a mask that has a number for each pair of
    tokens, and is the same for all sequences and heads.

    What must hold: as many queries as keys, at least 128. A mask that differs between sequences
    (padding) or heads (a bias) says more than `is_causal=True` does. A trace has no values: whether
    the mask is causal, the user must know.

    What changes: half of the scores need no work. The kernels below the call and below its backward
    node, the conversion of the mask among them, become one fused kernel each.
    """
    calls = step.ops(*MASKED_OPS).tolist()
    masks = {event: mask for event in calls if (mask := shared_mask(step.call(event)))}
    if not masks:
        return
    size = next(iter(masks.values())).dims[-1]
    events, count = np.array([*masks], np.int64), plural(len(masks), "attention", "attentions")
    why = f"{count} per step read a mask of {size} x {size}"
    changes = attention_change(step, events, 0.5)  # of the scores
    yield Proposal(CAUSAL_ORDER, why, *changes, risk=CAUSAL_RISK, events=shown(events))


def shared_mask(call: OpCall) -> Tensor | None:
    """The mask of an attention, if it is square and one for all sequences and heads."""
    query, key, mask = (call.tensor(at) for at in (0, 1, 3))  # the argument, of all of them
    if query is None or key is None or mask is None or query.type in WIDE or len(mask.dims) < 2:
        return None
    tokens = query.dims[-2]
    if tokens < 128 or (tokens, tokens) != mask.dims[-2:] or key.dims[-2] != tokens:
        return None
    # an expanded dimension repeats elements
    pairs = zip(mask.dims, mask.strides or (1,) * len(mask.dims), strict=False)
    different = math.prod(size for size, stride in pairs if stride)
    return mask if different == tokens * tokens else None


SDPA = "F.scaled_dot_product_attention"
INSIDE_ATTENTION = ("aten::scaled_dot_product_attention", "aten::_native_multi_head_attention")
TRIANGLES = ("aten::triu", "aten::tril", "aten::triu_", "aten::tril_")
PLAIN_SHARE = 0.45  # of the float32 peak
CALL_NS = 60_000  # of a call of attention, with the profiler; a plain matmul takes half of it
HEADED = 4  # dimensions that fused kernels take
ATTEND = "call nn.MultiheadAttention with need_weights=False"
FLAT = "give SDPA 4-D tensors: [batch, heads, tokens, size]"
IS_CAUSAL = 5  # the argument of the math path
SOFTMAX_REACH = 6  # ops that compute, from a matmul of a CPU to the softmax and on
TRAINED, MASKED, PLAINLY = (0.3, 0.6, 0.1), (0.55, 0.7, 0.3), (0.4, 0.6, 0.1)  # of the time goes
FUSED_RISK = "a fused kernel adds in another order: compare an output"
RANDOM = frozenset({"dropout", "native_dropout", "bernoulli"})


class WrittenAttention(Struct, frozen=True):
    """The ops of one attention, whether in float32, whether causal, and its query's dimensions."""

    events: Ints
    wide: bool
    causal: bool
    dims: int = 4


def _attention_on_cpu(step: CpuStep) -> Proposals:
    rows = [at for at, each in enumerate(step.computing.tolist()) if step.bare(each) == "_softmax"]
    found = [events for at in rows if len(events := _in_order(step, at))]
    if not found:
        return
    triangles = step.ops(*TRIANGLES)
    order, why = _attention_texts(step, len(found), bool(len(triangles)))
    events = step.distinct_rows([*found, *(step.backward(each) for each in found)])
    shares = TRAINED if step.trains else MASKED if len(triangles) else PLAINLY
    yield step.proposal(order, why, events.tolist(), shares, FUSED_RISK)


def _in_order(step: CpuStep, at: int) -> Ints:
    """The outermost ops from the matmul before this softmax to that after it; none with dropout."""
    ops, call = step.computing, step.arguments.get(int(step.computing[at]))
    size = scores.elements if call and (scores := call.tensor(0)) else 0
    before, after = ops[max(at - SOFTMAX_REACH, 0) : at], ops[at + 1 : at + 1 + SOFTMAX_REACH]
    writes = [each for each in before.tolist() if _score_matmul(step, each, 0) == size > 1]
    reads = [each for each in after.tolist() if _score_matmul(step, each, 1) == size > 1]
    if not writes or not reads:
        return ops[:0]
    among = ops[np.searchsorted(step.trace.host.start[ops], step.trace.host.start[writes[-1]]) :]
    among = among[step.trace.host.start[among] <= step.trace.host.start[reads[0]]]
    random = any(step.bare(each) in RANDOM for each in among.tolist())
    if random or step.under(among, step.ops(*INSIDE_ATTENTION)).any():
        return ops[:0]
    return step.distinct_rows([step.callers(among)])


def _score_matmul(step: CpuStep, event: int, read: int) -> int:
    """The elements that a batched matmul writes, or reads as its first factor; 0 for other ops."""
    added = step.bare(event) == "baddbmm"  # to a mask, the first argument
    call = step.arguments.get(event) if added or step.bare(event) == "bmm" else None
    left, right = (call.tensor(added), call.tensor(added + 1)) if call else (None, None)
    if left is None or right is None or not right.dims:
        return 0
    return left.elements if read else left.elements // max(left.dims[-1], 1) * right.dims[-1]


def _attention_texts(step: Step, count: int, causal: bool) -> tuple[str, str]:
    matrices = plural(count, "score matrix", "score matrices")
    why = f"matmul, softmax and matmul write out {matrices}"
    softmax, mean = (
        [tensors[0] for event in step.ops(name).tolist() if (tensors := step.tensors(event))]
        for name in ("aten::_softmax", "aten::mean")
    )
    sizes = {scores.elements for scores in softmax}
    # `nn.MultiheadAttention` computes the mean of the scores over the heads
    if any(each.elements in sizes and len(each.dims) == HEADED for each in mean):
        return ATTEND, f"{why}, and the mean over the heads is computed"
    return f"call {SDPA}(q, k, v{', is_causal=True' * causal})", why


@fix("Attention in one kernel", "gpu shapes", on_cpu=_attention_on_cpu)
def fused_attention(step: Step) -> Proposals:
    """Attention in one kernel instead of matmul, softmax and matmul.

    What it looks for: a softmax between two batched matmuls of its size (scale, mask, cast and
    dropout may lie between), and calls of `scaled_dot_product_attention` that took the math path.

    What must hold: the first matmul writes as many scores as the softmax reads, and the second
    reads them again (the detection of the rule `attention_math`). A mask made with `triu` or
    `tril`, or one of the size of one score matrix (without batch and heads), is causal. Tensors
    without a dimension for heads take the math path. Where the mean of the scores over the heads is
    computed as well, `nn.MultiheadAttention` returns it: that module takes the fused kernel with
    `need_weights=False`. What PyTorch's own ops write out (`_native_multi_head_attention`) is no
    code of the program.

    What changes: the ops between the two matmuls, and the nodes of the backward pass that they
    made, become one call each. A fused kernel takes the arithmetic of the two matmuls (backward:
    2.5 times that, half of it with a causal mask) at the share of the peak that cuDNN's reach on an
    H200. In float32 it runs without tensor cores. On a CPU 0.4 of the time goes, 0.55 with a causal
    mask and 0.3 in training (one core, 32 to 1,024 tokens: 0.1 to 0.7). Dropout takes the math path
    there: with it nothing is proposed.
    """
    fallback = _launching(step, [_on_math_path(step, at) for at in step.ops(FALLBACK).tolist()])
    if fallback:
        flat = all(each.dims < HEADED for each in fallback)
        order = FLAT if flat else "let scaled_dot_product_attention use a fused kernel"
        count = plural(len(fallback), "attention", "attentions")
        yield _proposal(step, fallback, order, f"{count} on the math path, not in one kernel")
    mine = set(step.rows.tolist()) - set(step.below(step.ops(FALLBACK, *INSIDE_ATTENTION)).tolist())
    pairs = [pair for pair in by_hand(step.trace) if pair[0] in mine and pair[1] in mine]
    owners = [step.owners(between(step.trace, [pair])) for pair in pairs]
    found = _launching(step, [_written_change(step, events) for events in owners])
    if found:
        causal = all(each.causal for each in found)
        yield _proposal(step, found, *_attention_texts(step, len(found), causal))


def _on_math_path(step: Step, event: int) -> WrittenAttention:
    query, causal = step.tensor(event), bool(step.call(event).flag(IS_CAUSAL))
    parts = step.in_order(np.flatnonzero(step.inside & (step.trace.host.parent == event)))
    if query is None:
        return WrittenAttention(parts, False, causal, HEADED)
    return WrittenAttention(parts, query.type in WIDE, causal, len(query.dims))


def _launching(step: Step, found: list[WrittenAttention]) -> list[WrittenAttention]:
    """Those whose GPU work is part of the step."""
    return [each for each in found if len(each.events) and len(step.below(each.events))]


def _written_change(step: Step, events: Ints) -> WrittenAttention:
    """Causal where there are triangles, or an op takes the scores and a mask that is the same for
    each of their matrices.
    """
    causal = bool(len(step.ops(*TRIANGLES)))
    for event in events.tolist():
        tensors = [each for each in step.tensors(event) if each.dims]
        size = math.prod(tensors[0].dims[-2:]) if tensors else 0
        masked = any(each.elements == size for each in tensors[1:])
        causal |= masked and 1 < size < tensors[0].elements
    cases = _matmuls(step, step.below(events))
    wide = any(case.id.get("dtype_in") in ("f32", "tf32") for case in cases)
    return WrittenAttention(events, wide, causal)


def _matmuls(step: Step, rows: Ints) -> list[KernelRow]:
    return [case for row in rows.tolist() if (case := step.case(row)) and case.role == "gemm"]


def _proposal(step: Step, found: list[WrittenAttention], order: str, why: str) -> Proposal:
    changes = replacing([_fused(step, each) for each in found])
    events = shown(np.concatenate([each.events for each in found]))
    return Proposal(order, why, *changes, risk=FUSED_RISK, events=events)


def _fused(step: Step, found: WrittenAttention) -> tuple[GraphChange, NewTimes]:
    """What is gone of one attention and its backward pass, and the kernels instead."""
    events, nodes = found.events, step.backward(found.events)
    rows, behind = step.below(events), step.below(nodes)
    matmuls = _matmuls(step, rows)
    share = 0.5 if found.causal else 1.0  # of the scores that a causal mask leaves
    flops, rest = share * sum(case.flops or 0 for case in matmuls), 0.0
    if len(matmuls) > 1:  # queries, keys, values and the result: all that moves but the scores
        scores = 2 * (matmuls[0].bytes_written or 0)
        rest = max(sum(case.bytes or 0 for case in matmuls) - scores, 0.0)

    def price(part: Ints, back: bool, speed: Speed) -> float:
        plain, amount = (
            PLAIN_SHARE * speed.attention / USUAL.attention,
            flops * (BACKWARD if back else 1),
        )
        work = step.attention_ns(speed, amount, back)
        if found.wide:
            work = step.arithmetic_ns(plain, amount, "fp32", False)
        return min(max(work, step.memory_ns(speed, 2 * rest if back else rest)), step.ns(part))

    kept = (0,) if step.trace.host.length[events[0]] > CALL_NS else (0, -1)
    changes = [step.one_for_many(events, rows, 0.0, kept)]
    times: NewTimes = {int(rows[0]): partial(price, rows, False)}
    if len(behind):
        changes.append(step.one_for_many(nodes, behind, 0.0))
        times[int(behind[0])] = partial(price, behind, True)
    return joined(changes), times


FITTING = ("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention")
REPEAT_REACH = 16  # ops between the copy and the attention
FLASH_TYPES = frozenset({"c10::BFloat16", "c10::Half"})


@fix("Keys and values without repeats", "gpu shapes")
def grouped_queries(step: Step) -> Proposals:
    """Keys and values that are not repeated for grouped queries.

    What it looks for: copies of an expanded tensor (a dimension of stride 0: `repeat_interleave`,
    or `expand` and `reshape`) with as many elements as the keys or values of the next
    `scaled_dot_product_attention`.

    What must hold: the attention runs in a kernel that takes fewer heads of keys than of queries
    (Flash, cuDNN): so 16-bit types, and not the memory-efficient kernel.

    What changes: the copies are gone, forward and backward, with their host time.
    """
    repeats = step.rows_where(lambda case: expanded(case.call) is not None)
    made = {
        event: tensor
        for row, event in zip(repeats.tolist(), step.owner(repeats).tolist(), strict=True)
        if event >= 0 and (case := step.case(row)) and (tensor := expanded(case.call))
    }
    found = set()
    calls = step.trace.host.nearest(step.ops(*FITTING), step.named([ATTENTION]))
    for call in {int(at) for at in calls if at >= 0}:
        sizes = {each.elements for at in (1, 2) if (each := step.tensor(call, at))}
        near = [op for op in step.near(call, before=REPEAT_REACH) if op in made]
        found |= {op for op in near if made[op].elements in sizes}
    events = np.array(sorted(found), np.int64)
    if not len(events):
        return
    change = step.without(np.concatenate((events, step.backward(events))))
    copies = plural(len(events), "copy", "copies")
    why = f"{copies} per step of keys and values repeated for groups of queries"
    order = "pass enable_gqa=True to SDPA instead of repeating k and v"
    yield Proposal(order, why, change, events=shown(events))


def expanded(call: OpCall | None) -> Tensor | None:
    """The source of a copy that writes a tensor repeated along a dimension in the middle."""
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if (
        source is None
        or not source.strides
        or source.type not in FLASH_TYPES
        or len(source.dims) < 5
    ):
        return None
    pairs = list(zip(source.dims, source.strides, strict=False))[1:-1]
    return source if any(stride == 0 and size > 1 for size, stride in pairs) else None


_READERS = "scaled_dot_product_attention matmul bmm baddbmm einsum"
CACHE_READERS = frozenset(f"aten::{name}" for name in _READERS.split())
TIMES_LONGER = 4  # times the part that is new


@fix("A cache that is written in place", "gpu shapes")
def cache_by_cat(step: Step) -> Proposals:
    """A cache of keys and values that is written in place.

    What it looks for: `torch.cat` of a long tensor and a short one, at least 4 to 1 in the
    dimension that grows, whose result is a factor of the attention (or batched matmul) that
    follows.

    What must hold: the two differ in this dimension alone, and in a step or over the step's calls
    the same cat runs for keys and for values.

    What changes: the copy of the whole cache becomes a write of the short part into a tensor that
    was made once, long enough. The host time stays: a slice and a copy.
    """
    cats = [event for event in step.ops("aten::cat").tolist() if _grows(step, event)]
    if len(cats) < 2:  # keys and values
        return
    changes = at_speeds(lambda speed: joined(_in_place(step, event, speed) for event in cats))
    why = f"{plural(len(cats), 'torch.cat', 'torch.cat')} per step copy a cache to add a token"
    order = "write into a preallocated cache: cache[:, :, t] = k"
    yield Proposal(order, why, *changes, events=shown(cats))


def _in_place(step: Step, event: int, speed: Speed) -> GraphChange:
    """A write of the part that is new."""
    rows, parts = step.below([event]), step.call(event).tensors(0)
    if not len(rows) or not parts:
        return GraphChange()
    share = parts[1].elements / max(parts[0].elements + parts[1].elements, 1)
    moved = share * step.total(rows, lambda case: case.bytes)
    return step.one_kernel(rows, step.memory_ns(speed, moved))


def _grows(step: Step, event: int) -> bool:
    """Whether this cat adds little to much, for an attention."""
    made = grown(step.call(event))

    def can_be(dims: tuple[int, ...]) -> bool:
        """Whether these can be one tensor, transposed or with heads and batch in one dimension."""
        flat = len(dims) == 3 and sorted(dims[-2:]) == sorted((made or ())[-2:])
        return flat or sorted(dims) == sorted(made or ())

    near = step.near(event, after=16) if made else []
    readers = (op for op in near if step.name(op) in CACHE_READERS)
    return any(can_be(each.dims) for op in readers for each in step.tensors(op))


def grown(call: OpCall) -> tuple[int, ...] | None:
    """The shape that a cat makes of one long and one short tensor; None for any other."""
    parts = call.tensors(0)
    if not parts or len(parts) != 2 or len(parts[0].dims) != len(parts[1].dims):
        return None
    long, short = (each.dims for each in parts)
    differs = [at for at, (one, two) in enumerate(zip(long, short, strict=True)) if one != two]
    if len(differs) != 1 or len(long) < 3 or long[differs[0]] < TIMES_LONGER * short[differs[0]]:
        return None
    at = differs[0]
    return (*long[:at], long[at] + short[at], *long[at + 1 :])


SCORES = "aten::softmax"
SHORTEST_SEQUENCE, FEWEST_LENGTHS, EXPECTED_SAVING, WORST_SAVING = 16, 3, 0.9, 0.5


@fix("Keep keys and values while a sequence grows", steps="cpu")
def kv_cache(step: CpuStep) -> Proposals:
    """Keep keys and values while a sequence grows.

    What it looks for: on a CPU, without a backward pass, attention of a sequence with itself that
    has one token more each time: 134, then 135, then 136. All tokens are computed again for the
    last one.

    What must hold: queries and keys have the same length, at least 16, in at least three lengths
    that follow each other. With a cache there is one query.

    What changes: an op with the length of the sequence in its shapes works on the new token alone.
    Nine tenths of that are expected, at worst half of its time: weights are read all the same.
    """
    if step.nodes.is_node.any():
        return
    lengths = _lengths(step)
    if len(lengths) < FEWEST_LENGTHS or set(np.diff(lengths).tolist()) != {1}:
        return
    # the number of all tokens, or of those of a batch, is in a shape of an op
    sizes = {
        event: {size for each in dense(call) for size in each.dims[:-1] if size}
        for event, call in step.arguments.items()
    }
    events = [at for at, own in sizes.items() if any(s % n == 0 for s in own for n in lengths)]
    goes = 1 - 1 / lengths[-1]
    if events:
        order = "keep the keys and values of earlier tokens (a KV cache)"
        why = f"all {lengths[-1]} tokens are computed again for each new one"
        shares = (EXPECTED_SAVING * goes, goes, WORST_SAVING)
        yield step.proposal(order, why, events, shares, "holds for causal attention")


def _lengths(step: CpuStep) -> list[int]:
    """Each length of a sequence that attends to itself, in order; none where one does not."""
    host, found = step.trace.host, list[int]()
    events = np.flatnonzero(host.is_op & host.named(lambda name: name in (ATTENTION, SCORES)))
    for event in step.in_order(events).tolist():
        length = _own_length(step.call(event))
        if length is not None and length < SHORTEST_SEQUENCE:
            return []
        found += [length] if length and found[-1:] != [length] else []
    return found


def _own_length(call: OpCall) -> int | None:
    """The length of queries and keys, 0 where they differ; None where nothing attends."""
    query, key = call.tensor(0), call.tensor(1)
    if query is None or len(query.dims) < 3:
        return None
    first, second = query.dims[-2:]
    if call.name == ATTENTION:
        second = key.dims[-2] if key and len(key.dims) > 2 else 0
    return first if first == second else 0


@fix("Join parts once", steps="cpu")
def grown_by_cat(step: CpuStep) -> Proposals:
    """Collect parts in a list, and join them once.

    What it looks for: at least 8 calls of `torch.cat` in a step of a CPU, each of which takes what
    the one before it made, and adds to it.

    What must hold: the first tensor of a call has as many elements as all tensors of the call
    before.

    What changes: all calls but the last go, which copies everything once.
    """
    made, chain, best = -1, list[int](), list[int]()
    for event in step.ops("aten::cat").tolist():
        sizes = [each.elements for each in step.tensors(event)]
        grows = len(sizes) > 1 and sizes[0] == made
        chain, made = chain if grows else [], sum(sizes)
        chain.append(event)
        best = max(best, chain, key=len)
    if len(best) >= 8:
        why = f"{len(best)} torch.cat per step, and each copies what the one before it made"
        order = "append the parts to a list, and torch.cat(parts) once"
        gone = 1 - step.took_ns(best[-1:]) / step.took_ns(best)
        yield step.proposal(order, why, best, (gone, gone, gone / 2))


SPATIAL = "spatialsoftmax"
MOST_PERCENT = 10.0  # of the nearest roof
SOFTMAX_SPEED = 0.55  # of what other kernels move: a softmax reads its rows more than once


@fix("Softmax over the last dimension", "gpu shapes")
def strided_softmax(step: Step) -> Proposals:
    """Softmax over the dimension that is contiguous in memory.

    What it looks for: softmax kernels for a dimension that is not the last one. They walk through
    memory in strides, and are far below the memory's bandwidth.

    What must hold: the kernel is the spatial one, and has less than a tenth of the bandwidth.

    What changes: the kernel takes the time of one over the last dimension. Where the dimension has
    stride 1 (the tensor is a transposed view), the copy that PyTorch makes before is gone too: the
    softmax can be taken before the transpose. Where it has not, the tensor is transposed before and
    after, in two copies.
    """
    rows = step.rows_where(
        lambda case: SPATIAL in case.name.lower() and (case.roof_percent or 100.0) < MOST_PERCENT
    )
    if not len(rows):
        return
    calls = [case.call for row in rows.tolist() if (case := step.case(row))]
    view = all(_contiguous(call) for call in calls)
    over = "softmax over the last dimension"
    order = f"take {over}, then transpose" if view else f"transpose, then {over}"
    why = f"{plural(len(rows), 'softmax', 'softmaxes')} per step over a dimension with strides"
    changes = at_speeds(
        lambda speed: joined(_contiguous_softmax(step, row, speed) for row in rows.tolist())
    )
    yield Proposal(order, why, *changes, events=step.events(rows))


def _contiguous(call: OpCall | None) -> bool:
    """Whether the dimension of a softmax has stride 1; for a backward op, of the output."""
    tensor = call.tensor(0) if call else None
    dim = call.integer(2 if "backward" in call.name else 1) if call else None
    if tensor is None or dim is None or not tensor.dims or not tensor.strides:
        return False
    known = len(tensor.strides) == len(tensor.dims)
    return known and tensor.strides[dim % len(tensor.dims)] == 1


def _contiguous_softmax(step: Step, row: int, speed: Speed) -> GraphChange:
    case = step.case(row)
    if case is None or case.bytes is None:
        return GraphChange()
    ns, gone = step.memory_ns(speed, case.bytes / SOFTMAX_SPEED), list[int]()
    if _contiguous(case.call):  # the copies that the op of this kernel makes
        op = step.makers(step.trace.gpu.launch[[row]])
        below = step.below(op[op >= 0]).tolist()
        gone = [each for each in below if (of := step.case(each)) and of.role == "copy"]
    else:
        ns += 2 * step.memory_ns(speed, case.bytes / 0.35)  # a transposing copy of a strided tensor
    return GraphChange(length={row: min(ns, step.ns([row]))}, gone=frozenset(gone))
