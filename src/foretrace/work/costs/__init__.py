"""What an op must compute and move, from the shapes and types that the trace recorded.

    call = OpCall("aten::mm", dims=[[8192, 768], [768, 3072]], types=["c10::BFloat16"] * 2)
    cost(call)          # Cost(flops=38654705664, bytes_read=17301504, bytes_written=50331648)

Conventions: a matmul counts 2*M*N*K FLOP. Elementwise arithmetic counts one per result
element. Bytes are each distinct input read once plus each output written once; a broadcast or
expanded operand counts at the size it has in memory. So `bytes` is what a perfect kernel would
move: caches can make the memory see less, and real kernels can move more. What is not known is
None, and `note` says why. `certainty` says whether a number is exact, a lower bound or an estimate.

Each file of this package prices ops of one topic. It lists its `CostKind(prices, shares)` in
`KINDS`, and nothing else needs to know about it. Other packages add theirs through the entry point
group `foretrace.costs`; those take precedence. Price only ops that launched something: a view costs
nothing, and no price list says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest

from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.work.costs._cost import (
    Context,
    Cost,
    CostKind,
    Entry,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    Unpriced,
    cub_part,
    element_type,
    multi_tensor,
    short_type,
    unknown,
)
from foretrace.work.costs.limits import Roofline, Work, occupancy, peak_flops, position
from foretrace.work.kernel import Certainty

__all__ = [
    "Certainty", "Context", "Cost", "CostKind", "Launch", "OpCall", "Price", "Roofline", "Share",
    "Tensor", "Work", "attribute", "cost", "element_type", "exceeds_index", "kinds",
    "multi_tensor", "occupancy", "peak_flops", "position", "short_type", "wants_context",
]  # fmt: skip

UNPRICED = "this op has no cost model"
# No GPU comes near it. A damaged or hostile trace can, and tables hold 64-bit integers.
LARGEST = 2**63 - 1
# The roles that compute a matmul. The other kernels of such an op help (a split-K
# reduction, a transpose around a convolution, the conversion of an accumulator).
MAIN = frozenset({"gemm", "gemv", "conv", "attention"})
# PyTorch indexes with 32 bits: an elementwise op or reduction over more bytes runs in equal parts.
INDEXED = 2**31
_AMOUNTS = ("flops", "bytes_read", "bytes_written", "touched", "least")
IN_PARTS = ("elementwise_kernel", "reduce_kernel")
LONGEST_NAME = 4096  # real names end before; a pattern may read a name once for each of its parts


def cost(call: OpCall) -> Cost | None:
    """The cost of one call; None when the trace recorded no shapes for it.

    An op without a price has none, and neither has a call that its price cannot interpret: its
    arguments may be used in part (a key-value cache, an embedding table), and its results may not
    be among them.
    """
    price = _price(call.name)
    try:
        found = price(call) if price else None
    except Unpriced:
        found = None
    if found is None:
        return unknown(UNPRICED) if call.every_tensor() else None
    return _believable(found)


def _believable(found: Cost) -> Cost:
    amounts = (found.flops or 0, found.bytes_read or 0, found.bytes_written or 0, found.bytes or 0)
    if max(amounts) > LARGEST:
        return unknown("the recorded shapes exceed any memory")
    return unknown("a recorded size is negative") if min(amounts) < 0 else found


def attribute(
    call: OpCall,
    roles: Sequence[str],
    durations: Sequence[int],
    *,
    names: Sequence[str] = (),
    blocks: Sequence[int] = (),
) -> list[Cost | None]:
    """The cost of each kernel that one call launched, given roles and durations in launch order.

    Leave memsets and copies out: they have costs of their own. A lone kernel has the whole cost. Of
    several, the longest with the role of a matmul has the FLOP; where a call makes two
    equal matmuls (a convolution's backward) the two longest have half each. The op's bytes belong
    to none of them alone: a kernel gets what its name says that it moves at least.

    `names` and `blocks` (thread blocks in the grid) are optional. They identify those parts, the
    element type of lists, and the whole chunks of multi-tensor kernels.
    """
    names = [name[:LONGEST_NAME] for name in names]
    if names:
        list_type = call.list_type or element_type(names[0])
        call = replace(call, list_type=list_type, kernel=names[0])
    whole = cost(call)
    if whole is None or (len(roles) == 1 and whole.bytes is not None):
        return [whole] * len(roles)
    # one kernel, launched for each part of tensors that 32 bits cannot index
    alike = len(set(names)) == 1 and len(set(blocks)) <= 1
    if alike and any(each in names[0] for each in IN_PARTS) and exceeds_index(whole):
        return [_equal_part(whole, len(roles))] * len(roles)
    split = _split(whole, roles, durations) if len(roles) > 1 else [whole] * len(roles)
    filled = zip_longest(names[: len(roles)], roles, blocks[: len(roles)])
    launches = [Launch(name or "", role, count or 0) for name, role, count in filled]
    pairs = zip(launches, split, strict=True)
    return [_believable(_part(call, each, launches, share, whole.note)) for each, share in pairs]


def exceeds_index(whole: Cost) -> bool:
    """Whether an op moves more bytes than 32-bit offsets reach."""
    return (whole.bytes or 0) >= INDEXED


def _equal_part(whole: Cost, count: int) -> Cost:
    amounts = {name: getattr(whole, name) for name in _AMOUNTS}
    shares = {name: value // count for name, value in amounts.items() if value is not None}
    note = f"one of {count} equal parts: 32 bits cannot index the whole"
    return replace(whole, **shares, note=f"{whole.note}; {note}" if whole.note else note)


def _split(whole: Cost, roles: Sequence[str], durations: Sequence[int]) -> list[Cost]:
    """The FLOP of each kernel, and why its bytes are not known."""
    main = [index for index, role in enumerate(roles) if role in MAIN]
    main.sort(key=lambda index: -durations[index])
    carriers = set(main[: whole.matmuls]) if len(main) >= whole.matmuls else set()
    share = None if whole.flops is None else whole.flops // whole.matmuls
    note = f"one of {len(roles)} kernels of the op; the trace does not say which bytes it moves"
    if whole.note and (whole.certainty is not Certainty.ESTIMATE or whole.flops is not None):
        note = f"{whole.note}; {note}"
    places = range(len(roles))
    return [Cost(share if at in carriers else None, None, None, note) for at in places]


def _part(
    call: OpCall, kernel: Launch, kernels: Sequence[Launch], share: Cost, flops_note: str
) -> Cost:
    """The bytes that the kernel's name states, with its share of the FLOP."""
    chunk = multi_tensor(kernel, kernels)
    if chunk is not None:
        return chunk
    found = _share(call, kernel, kernels) or cub_part(kernel)
    if found is None or found.bytes is None:
        return share if found is None or share.flops is not None else found
    if found.flops is not None:
        return found
    notes = (found.note, flops_note if share.flops is not None else "")
    return replace(found, flops=share.flops, note="; ".join(note for note in notes if note))


def _share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    share = _entry(_shares(), call.name)
    try:
        return share(call, kernel, kernels) if share else None
    except Unpriced:
        return None


@cache
def kinds() -> tuple[CostKind, ...]:
    """Every kind of op that has prices."""
    import foretrace.work.costs as here

    own = [kind for module in plugins.modules(here) for kind in getattr(module, "KINDS", ())]
    return (*own, *plugins.entries(CostKind, "foretrace.costs"))


@cache
def wants_context(name: str) -> bool:
    """Whether the cost of this op depends on the requests of its step."""
    return any(kind.with_context and _entry(kind.prices, name) for kind in kinds())


@cache
def _price(name: str) -> Price | None:
    return _entry(_prices(), name)


@cache
def _prices() -> dict[str, Price]:
    return {name: price for kind in kinds() for name, price in kind.prices.items()}


@cache
def _shares() -> dict[str, Share]:
    return {name: share for kind in kinds() for name, share in kind.shares.items()}


def _entry(table: Mapping[str, Entry], name: str) -> Entry | None:
    """The entry of an op by its name, else the longest `*` entry that fits."""
    if name in table:
        return table[name]
    starts = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
    return table[max(starts, key=len)] if starts else None
