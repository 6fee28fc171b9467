"""Which kernel of an op carries which part of the op's cost, when the op launched several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from foretrace.model.costs._call import Cost, Launch, OpCall
from foretrace.model.costs._cub import cub_part
from foretrace.model.costs._lists import CHUNK, element_type
from foretrace.model.costs._names import after
from foretrace.model.costs._types import SIZES

# The roles that carry out a matrix product; everything else an op launches beside one is help (a
# split-K reduction, a transpose around a convolution, the conversion of an accumulator).
MAIN = frozenset({"gemm", "gemv", "conv", "attention"})
# Parts are told by patterns that may read a name once for each of its pieces; real names end before
# 4 kB.
LONGEST_NAME = 4096

# `BinaryOpScalarFunctor<T, depth, r_args_depth, res_arg_index>`: reads r_args_depth lists, writes
# one.
_FUNCTOR = re.compile(r"\wFunctor<([\w: ]{1,60}), (\d{1,9}), (\d{1,9}), (\d{1,9})>")


def attribute(
    call: OpCall,
    roles: Sequence[str],
    durations: Sequence[int],
    *,
    names: Sequence[str] = (),
    blocks: Sequence[int] = (),
) -> list[Cost | None]:
    """The cost of each kernel that one call launched, given their roles and durations in launch
    order.

    Leave memsets and copies out: they have costs of their own. A lone kernel carries the whole
    cost. Of several, the longest one with the role of a matrix product carries the FLOP; where a
    call makes two equal products (a convolution's backward) the two longest carry half each. The
    op's bytes belong to none of them alone, and what one hands to the next is not recorded: a
    kernel whose name tells its part gets what that part moves at the least.

    `names` and `blocks` (threadblocks in the grid) are optional and tell those parts, the element
    type of lists, and, for chunked multi-tensor kernels, at most how much each one moved.
    """
    from foretrace.model.costs import believable, cost

    names = [name[:LONGEST_NAME] for name in names]
    if names and not call.list_type:
        call = replace(call, list_type=element_type(names[0]))
    whole = cost(call)
    if whole is None or (len(roles) == 1 and whole.bytes is not None):
        return [whole] * len(roles)
    split = _split(whole, roles, durations) if len(roles) > 1 else [whole] * len(roles)
    filled = zip_longest(names[: len(roles)], roles, blocks[: len(roles)])
    launches = [Launch(name or "", role, count or 0) for name, role, count in filled]
    told = [
        _told(call, launch, launches, each, whole.note)
        for launch, each in zip(launches, split, strict=True)
    ]
    return [believable(each) for each in told]


def _split(whole: Cost, roles: Sequence[str], durations: Sequence[int]) -> list[Cost]:
    """The FLOP of each kernel, and why its bytes are not known: no estimate and no bound of the
    op's bytes holds for it.
    """
    main = sorted(
        (index for index, role in enumerate(roles) if role in MAIN),
        key=lambda index: -durations[index],
    )
    carriers = set(main[: whole.products]) if len(main) >= whole.products else set()
    share = None if whole.flops is None else whole.flops // whole.products
    note = f"one of {len(roles)} kernels of the op, whose bytes cannot be told apart"
    kept = "" if whole.note.startswith("estimate") else whole.note.removeprefix("at least: ")
    joined = "; ".join(part for part in (kept, note) if part)
    return [
        Cost(share if index in carriers else None, None, None, joined)
        for index in range(len(roles))
    ]


def _told(
    call: OpCall, kernel: Launch, kernels: Sequence[Launch], share: Cost, flops_note: str
) -> Cost:
    """The bytes that the kernel's name tells, with its share of the FLOP; the share as it is where
    the name tells none.
    """
    from foretrace.model.costs import share_of

    chunk = multi_tensor(kernel.name, kernel.blocks)
    if chunk is not None:
        return chunk
    found = share_of(call, kernel, kernels) or cub_part(kernel)
    if found is None or found.bytes is None:
        return share
    notes = (found.note, flops_note if share.flops is not None else "")
    return replace(found, flops=share.flops, note="; ".join(note for note in notes if note))


def multi_tensor(kernel_name: str, blocks: int) -> Cost | None:
    """What one chunked multi-tensor kernel moves at most, from its name and the number of its
    blocks.

    Every block takes one chunk of 65,536 elements of one tensor; the last chunk of a tensor may be
    shorter, so this is an upper bound, close for tensors that are much larger than a chunk. None
    for any other kernel.
    """
    found = after(kernel_name, "multi_tensor_apply_kernel<", _FUNCTOR)
    size = SIZES.get(found[1]) if found else None
    if found is None or size is None or blocks <= 0:
        return None
    elements = blocks * CHUNK
    note = f"at most: {blocks} whole chunks of {CHUNK:,} elements"
    return Cost(elements, int(found[3]) * elements * size, elements * size, note)
