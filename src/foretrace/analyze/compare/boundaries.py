"""Matmuls whose kernel changed because a size crossed a boundary of the card's map.

It is only said where the map supports it: both traces are of the map's card, the matmuls differ in
one size alone, and the map gives both of them exactly the kernels of the traces.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from foretrace.analyze.compare.kernels import KernelPair
from foretrace.analyze.compare.launched import Kernel
from foretrace.names.gemms import table
from foretrace.names.gemms.table import Boundary, GemmMap, crossed, differing, gemm_point
from foretrace.schema.gemms import GemmPoint

MOST = 3  # sentences: more matmuls cross the same boundaries


def crossings(pairs: tuple[KernelPair, ...], a: str | None, b: str | None) -> list[str]:
    """Sentences about pairs that changed on devices of these names."""
    matmuls = [pair for pair in pairs if pair.a and pair.b and pair.a.role == pair.b.role == "gemm"]
    found = table.of_device(a) if a == b and matmuls else None
    return [] if found is None else list(dict.fromkeys(_said(found, matmuls)))[:MOST]


def _said(found: GemmMap, pairs: list[KernelPair]) -> Iterator[str]:
    for pair in pairs:
        assert pair.a
        assert pair.b
        before, after = matmul(pair.a), matmul(pair.b)
        if before is None or after is None or pair.a.name == pair.b.name:
            continue
        between = crossed(found, (before, pair.a.name), (after, pair.b.name))
        name = differing(before, after)
        if between and name:
            yield _sentence(name, (before, after), pair, between, found.facts.device)


def _sentence(
    name: str,
    points: tuple[GemmPoint, GemmPoint],
    pair: KernelPair,
    between: list[Boundary],
    device: str,
) -> str:
    old, new = (getattr(point, name) for point in points)
    size, (first, *_) = name.upper(), between
    others = {each: getattr(points[0], each) for each in ("m", "n", "k") if each != name}
    fixed = ", ".join(f"{each.upper()} = {value}" for each, value in others.items())
    kernels = f"{pair.a.short} to {pair.b.short}" if pair.a and pair.b else ""
    where = f"between {size} = {first.last} and {size} = {first.first}"
    if len(between) > 1:
        where = f"{len(between)} times on the way, first {where}"
    return (
        f"The kernel changed ({kernels}) because {size} went from {old} to {new}: for {fixed} the "
        f"map of the {device} changes it {where}."
    )


def matmul(kernel: Kernel) -> GemmPoint | None:
    """The matmul that a kernel computed; None where the trace does not say."""
    if kernel.shapes is None:
        return None
    return gemm_point(kernel.op, *_operands(kernel.shapes), kernel.name)


def _operands(text: str) -> tuple[list[list[int]], list[str]]:
    """Sizes and types, as `launched` writes them: two JSON lists with a blank between."""
    at = text.find('] ["')
    try:
        dims = msgspec.json.decode(text[: at + 1], type=list[list[int]])
        return dims, msgspec.json.decode(text[at + 2 :], type=list[str])
    except msgspec.DecodeError:
        return [], []
