"""What an op must compute and move at the least, from the shapes and types that the trace recorded.

    call = OpCall("aten::mm", dims=[[8192, 768], [768, 3072]], types=["c10::BFloat16"] * 2)
    cost(call)          # Cost(flops=38654705664, bytes_read=17301504, bytes_written=50331648)

Conventions: a matrix product counts 2*M*N*K FLOP; arithmetic element by element counts one per
result element; bytes are each distinct input read once plus each output written once, by the size
of their types, a broadcast or expanded operand at the size it has in memory. So `bytes` is what a
perfect kernel would move: caches can make the memory see less, and real kernels can move more. What
cannot be known is None, and `note` says why; a note that begins with "at least" marks a lower
bound, "estimate" a count that may err either way.

Each file of this package prices one kind of op: it declares `KIND = Kind(prices, examples)` and
nothing else needs to know of it. A kind whose ops launch several kernels also says what each of
them moves at the least (`shares`). Other packages bring theirs through the entry point group
`foretrace.costs`, and win over these. Ask only for ops that launched something: a view costs
nothing, and no price list says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

from foretrace import plugins
from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    total,
    unknown,
)
from foretrace.model.costs._lists import element_type
from foretrace.model.costs._share import attribute, multi_tensor
from foretrace.model.costs.occupancy import occupancy
from foretrace.model.costs.roofline import Roofline, peak_flops, position

__all__ = [
    "Cost", "Kind", "Launch", "OpCall", "Price", "Roofline", "Share", "Tensor", "attribute", "believable", "cost",
    "element_type", "kinds", "multi_tensor", "occupancy", "peak_flops", "position", "share_of",
]  # fmt: skip

GENERAL = "estimate: this op has no price; each tensor argument counted once"
Entry = TypeVar("Entry")
# no GPU comes near it; a damaged or hostile trace can, and tables hold 64-bit integers
LARGEST = 2**63 - 1


def cost(call: OpCall) -> Cost | None:
    """The cost of one call; None when the trace recorded no shapes for it.

    An op without a price, or a call that its price cannot make sense of, gets the general estimate:
    every tensor argument touched once. Results that are no arguments are missing from it, arguments
    used in part are too much in it, and reads cannot be told from writes.
    """
    price = _price(call.name) or (
        _price("triton_") if call.kwargs.get("kernel_backend") == "triton" else None
    )
    found = (price(call) if price else None) or _general(call)
    return None if found is None else believable(found)


def believable(found: Cost) -> Cost:
    """The cost, unless no GPU could have it."""
    if max(found.flops or 0, found.bytes or 0) > LARGEST:
        return unknown("the recorded shapes exceed any memory")
    return found


def share_of(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """What one of the kernels of a call moves at the least; None where its name does not tell."""
    share = _share(call.name)
    return share(call, kernel, kernels) if share else None


def _general(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    return Cost(None, None, None, GENERAL, touched=total(tensors)) if tensors else None


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of op that has prices."""
    import foretrace.model.costs as here

    return tuple(plugins.declared(here, "KIND", Kind, "foretrace.costs"))


@cache
def _prices() -> dict[str, Price]:
    return {name: price for kind in kinds() for name, price in kind.prices.items()}


@cache
def _shares() -> dict[str, Share]:
    return {name: share for kind in kinds() for name, share in kind.shares.items()}


@cache
def _price(name: str) -> Price | None:
    return _entry(_prices(), name)


@cache
def _share(name: str) -> Share | None:
    return _entry(_shares(), name)


def _entry(table: Mapping[str, Entry], name: str) -> Entry | None:
    """The entry of an op by its name, else the longest `*` entry that fits."""
    starts = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
    return table.get(name) or (table[max(starts, key=len)] if starts else None)
