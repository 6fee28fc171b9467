"""Why a matmul changed its kernel: one of its sizes crossed a boundary of the card's map.

This is said only if both traces are of the map's card, the matmuls differ in one size, and the map
has exactly the kernels of the traces.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from foretrace.compare.sides import Kernel
from foretrace.work.gemms import table
from foretrace.work.gemms.documents import MatmulSize
from foretrace.work.gemms.table import crossed, differing, gemm_point


def crossing_lines(card: str | None, pairs: list[tuple[Kernel, Kernel]]) -> Iterator[str]:
    """A sentence for each pair of which one size crossed a boundary."""
    known = table.of_device(card)
    if known is None:
        return
    for a, b in pairs:
        before, after = matmul_of(a), matmul_of(b)
        if before is None or after is None:
            continue
        between = crossed(known, (before, a.name), (after, b.name))
        name = differing(before, after)
        if not between or not name:
            continue
        size, first = name.upper(), between[0]
        others = {each: getattr(before, each) for each in ("m", "n", "k") if each != name}
        fixed = ", ".join(f"{each.upper()} = {value}" for each, value in others.items())
        where = f"between {size} = {first.last} and {size} = {first.first}"
        if len(between) > 1:
            where = f"{len(between)} times on the way, first {where}"
        yield (
            f"The kernel changed ({a.short} to {b.short}) because {size} went from "
            f"{getattr(before, name)} to {getattr(after, name)}: for {fixed} the "
            f"map of the {known.facts.device} changes it {where}."
        )


def matmul_of(kernel: Kernel) -> MatmulSize | None:
    """The matmul that a kernel computed; None where the trace does not say."""
    if kernel.shapes is None:
        return None
    # sizes and types, as `sides.py` writes them: two JSON lists with a blank between
    at = kernel.shapes.find('] ["')
    try:
        dims = msgspec.json.decode(kernel.shapes[: at + 1], type=list[list[int]])
        types = msgspec.json.decode(kernel.shapes[at + 2 :], type=list[str])
    except msgspec.DecodeError:
        dims, types = [], []
    return gemm_point(kernel.op, dims, types, kernel.name)
