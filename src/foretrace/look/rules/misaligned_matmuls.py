"""Matmuls with a dimension that does not fit the card's loads.

What it shows: matmuls whose kernel could load only 1, 2 or 4 elements at a time where 16 bytes
would be usual, the dimension that causes it, and the generation of the kernel against that of the
card.

Why it matters: the fast kernels of a card require that rows begin at multiples of 16 bytes (8
elements of a 16-bit type). One odd dimension, such as a vocabulary of 50257 or an image grid of
5185, makes a Hopper card use kernels written for Ampere or Turing. Padding the dimension to a
multiple of 8 (64 is safest) brings the fast ones back.

How it is computed: from the alignment that CUTLASS kernels state in their names, and from the op's
shapes: the dimensions that run along memory in some operand and are no multiple of 16 bytes. What
padding saves is predicted by the fix `aligned_sizes`.

When it is wrong: a kernel family that does not state its alignment (nvjet, xmma) is not judged.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import LISTED, Facts, Found, Seen, generation, listing, rule
from foretrace.trace.kernels import Case
from foretrace.work.costs import OpCall, Tensor

# the widest load of one thread up to Hopper, and what the TMA unit demands of row starts
LOAD_BYTES = 16
# Matmuls by the place of their first factor.
FIRST = frozenset(
    {"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::_scaled_mm", "aten::_int_mm"}
)
SECOND = frozenset(
    {"aten::addmm", "aten::addmm_", "aten::_addmm_activation", "aten::baddbmm", "aten::baddbmm_"}
)
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "e4m3": 1, "e5m2": 1, "i8": 1, "f64": 8}


@rule("Matmuls with a dimension that does not fit the card's loads", "gpu", fixes="aligned_sizes")
def _check(seen: Seen) -> Found:
    whole = seen.where(misaligned)
    if whole is None:
        return
    kernels = [_entry(seen, case) for case in whole.cases]
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


def misaligned(case: Case) -> bool:
    """Whether a tensor-core matmul loads less than 16 bytes at a time."""
    align, size = case.id.get("align_elems"), SIZES.get(str(case.id.get("dtype_in")))
    return (
        case.role == "gemm"
        and case.id.get("tensor_core") is True
        and isinstance(align, int)
        and size is not None
        and align * size < LOAD_BYTES
    )


def _entry(seen: Seen, case: Case) -> dict[str, Any]:
    shape = matmul(case.call)
    return {
        "kernel": case.id.short,
        "name": case.name,
        "arch": case.id.get("arch"),
        "align": case.id.get("align_elems"),
        "multiple_of": LOAD_BYTES // SIZES[str(case.id.get("dtype_in"))],
        "matmul": shape.text if shape else None,
        "dimensions": odd_sizes(case),
        "count": seen.each(case.count),
        "ns": seen.step(case.ns),
    }


def odd_sizes(case: Case) -> dict[str, int]:
    """Sizes along memory that are no multiple of 16 bytes, by dimension."""
    shape, unit = matmul(case.call), LOAD_BYTES // SIZES[str(case.id.get("dtype_in"))]
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
    if call is None or call.name not in FIRST | SECOND:
        return None
    first = 1 if call.name in SECOND else 0
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
