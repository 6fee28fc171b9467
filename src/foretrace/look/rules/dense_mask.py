"""Attention with a mask written out in compiled code.

What it shows: attention calls of a compiled program that read a whole mask, one number for each
pair of a query and a key, and the generated kernels that write it. Also key and value heads that a
generated kernel copies to the number of query heads.

Why it matters: a kernel that is told `is_causal=True` skips the half of the scores above the
diagonal and reads no mask. With `enable_gqa=True` it reads each key head once. A model library can
choose this in eager mode and write a mask under `torch.compile`, because it decides by values that
are not known while tracing. On an H200 (torch 2.11, transformers' Llama, batch 4, 16 query and 4
key heads, 1024 tokens, head size 128) one call takes 48.7 us in eager mode and 116 us compiled. The
same model written with `is_causal=True` takes 49.0 us compiled.

How it is computed: attention ops whose recorded mask has as many rows as there are queries and
columns as there are keys, where a kernel of Inductor has a tensor of this shape and is named after
positions and a comparison (`arange`, `le`) or a triangle (`tril`). Copied heads: a kernel of
Inductor whose last tensor has the shape of the keys, and whose largest other tensor is smaller by a
whole factor. The saving is at most the time of all these kernels, less the time of half the FLOPs
at the card's peak.

When it is wrong: the mask may hold more than a causal mask (padding, packed sequences, a window).
Then it is needed, in whole or as `flex_attention`. A trace does not hold the values of a mask.
"""

from __future__ import annotations

from foretrace.base.units import bytes_text, time_text, times_text
from foretrace.look.finding import Finding
from foretrace.look.rules._seen import Found, Group, Seen, matmul_ns, rule
from foretrace.trace.kernels import Case
from foretrace.work.costs import Tensor

# The argument that is the mask.
MASKS = {"aten::_cudnn_attention_forward": 3, "aten::_efficient_attention_forward": 3}
COMPARISONS = frozenset({"le", "lt", "ge", "gt"})
POSITIONS, TRIANGLES = frozenset({"arange", "iota"}), frozenset({"tril", "triu"})
HALVES = "bf16"  # fused attention takes 16-bit inputs, and both types have one peak
HEADS = 1  # the dimension of the heads in cuDNN's layout


@rule("A mask written out in compiled code", "gpu shapes", realised=0.5, example="llama_compiled")
def _check(seen: Seen) -> Found:
    cases = [case for case in seen.cases if case.count]
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
        yield _finding(seen, largest, whole, forward, len(copies) and max(fewer))


def _finding(seen: Seen, mask: Tensor, whole: Group, calls: Group, heads: int) -> Finding:
    first, device = calls.cases[0], seen.device
    query = first.call.tensor(0) if first.call else None
    every = query.dims[HEADS] if query else 0
    least = sum((matmul_ns(device, case, HALVES) or 0.0) / 2 * case.count for case in calls.cases)
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


def _mask(case: Case) -> Tensor | None:
    """The mask of an attention call: a number for every query and key, of several queries."""
    if case.call is None or case.op not in MASKS or case.role != "attention":
        return None
    mask, query = case.call.tensor(MASKS[case.op]), case.call.tensor(0)
    if mask is None or query is None or len(mask.dims) < 2 or len(query.dims) < 3:
        return None
    rows, columns = mask.dims[-2:]
    return mask if rows == columns > 1 and rows in query.dims else None


def _makes(case: Case, dims: tuple[int, ...]) -> bool:
    ops = frozenset(case.id.get("ops") or ())
    compares = ops & TRIANGLES or (ops & POSITIONS and ops & COMPARISONS)
    return bool(compares) and dims in _shapes(case)


def _shapes(case: Case) -> set[tuple[int, ...]]:
    return {tensor.dims for tensor in case.call.every_tensor()} if case.call else set()


def _shared(copy: Case, call: Case) -> int:
    """How many key heads this kernel copies to those of the call; 0 if it copies none."""
    keys = call.call.tensor(1) if call.call else None
    tensors = copy.call.every_tensor() if copy.call else ()
    if keys is None or len(tensors) < 2 or tensors[-1].dims != keys.dims:
        return 0
    times, rest = divmod(keys.elements, max(tensor.elements for tensor in tensors[:-1]) or 1)
    whole = times > 1 and not rest and keys.dims[HEADS] % times == 0
    return keys.dims[HEADS] // times if whole else 0
