"""Matrix products with a dimension that does not fit the card's loads.

What it shows: products whose kernel could load only 1, 2 or 4 elements at a time where 16 bytes
would be usual, with the dimension that causes it, and the generation of the kernel against that of
the card.

Why it matters: the fast kernels of a card demand that rows begin at multiples of 16 bytes (8
elements of a 16-bit type). One odd dimension, such as a vocabulary of 50257 or an image grid of
5185, drops a Hopper card back to kernels written for Ampere or Turing. Padding the dimension to a
multiple of 8 (64 is safest) brings the fast ones back.

How it is computed: from the alignment that CUTLASS kernels state in their names, and from the op's
shapes: the dimensions that run along memory in some operand and are no multiple of 16 bytes. The
saving is at most the time of these kernels less the time their arithmetic takes at the card's peak.

When it is wrong: a kernel family that does not name its alignment (nvjet, xmma) is not judged. A
product that is bound by memory gains less from a faster kernel than the peak suggests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from foretrace.analyses._common import LISTED, each, generation, listing, per, product_ns, together
from foretrace.analyses._products import product
from foretrace.model.order import Case
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

# the widest load of one thread up to Hopper, and what the TMA unit demands of row starts
LOAD_BYTES = 16
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "e4m3": 1, "e5m2": 1, "i8": 1, "f64": 8}


def check(trace: Trace) -> Iterator[Finding]:
    whole = together(trace, [case for case in trace.order.cases if misaligned(case)])
    if whole is None:
        return
    kernels = [_entry(trace, case) for case in whole.cases]
    least = sum((product_ns(trace, case) or 0.0) * case.count for case in whole.cases)
    saved = max(whole.ns - trace.order.per_step(least), 0)
    culprits = sorted({size for entry in kernels for size in entry["dimensions"].values()})
    products = f"{plural(whole.count, 'product')} {per(trace)}"
    unnamed = "" if trace.has("shapes") else " (record_shapes=True would name the dimension)"
    title = f"{products} with narrow loads{unnamed}"
    if culprits:
        verb, unit = "is" if len(culprits) == 1 else "are", kernels[0]["multiple_of"]
        title = (
            f"{listing([str(size) for size in culprits[:4]])} {verb} no multiple of {unit}: "
            f"{products} on slow kernels"
        )
    detail = (
        f"{_older(trace, kernels)}They take {time_text(whole.ns)} {per(trace)}, "
        f"{percent_text(whole.share)} of kernel "
        f"time; at the card's peak the same arithmetic would save at most {time_text(saved)}. Pad "
        "the dimension."
    )
    evidence = {
        "count": whole.count,
        "ns": whole.ns,
        "share": whole.share,
        "dimensions": culprits,
        "kernels": kernels[:LISTED],
    }
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events, saved)


def misaligned(case: Case) -> bool:
    """Whether a tensor-core product loads less than 16 bytes at a time."""
    align, size = case.id.get("align_elems"), SIZES.get(str(case.id.get("dtype_in")))
    return (
        case.role == "gemm"
        and case.id.get("tensor_core") is True
        and isinstance(align, int)
        and size is not None
        and align * size < LOAD_BYTES
    )


def _entry(trace: Trace, case: Case) -> dict[str, Any]:
    unit = LOAD_BYTES // SIZES[str(case.id.get("dtype_in"))]
    shape = product(case.call)
    wrong = (
        {
            name: size
            for name, size in (("m", shape.m), ("n", shape.n), ("k", shape.k))
            if name in shape.contiguous and size % unit
        }
        if shape
        else {}
    )
    return {
        "kernel": case.id.short,
        "name": case.name,
        "arch": case.id.get("arch"),
        "align": case.id.get("align_elems"),
        "multiple_of": unit,
        "product": shape.text if shape else None,
        "dimensions": wrong,
        "count": each(trace, case.count),
        "ns": trace.order.per_step(case.ns),
    }


def _older(trace: Trace, kernels: list[dict[str, Any]]) -> str:
    card = generation(trace.about.arch)
    old = sorted(
        {entry["arch"] for entry in kernels if card and (generation(entry["arch"]) or card) < card}
    )
    return (
        f"The kernels were written for {listing(old)}, the card is {trace.about.arch}. "
        if old
        else ""
    )


RULE = Rule(
    name="misaligned_products",
    title="Matrix products with a dimension that does not fit the card's loads",
    check=check,
    needs=frozenset({"gpu"}),
)
