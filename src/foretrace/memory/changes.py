"""`foretrace memory A B --json`: what changed in the memory from A to B."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text, percent_text
from foretrace.memory import SCHEMA, DeviceMemoryDocument, MemoryDocument

SAME = 0.01  # of a part, or of the larger peak: two runs of one program differ by less
NAMED = 3  # parts that the verdict names
_PLACE = regex(r"([^:]+):(\d+) in (.+)")

Key = tuple[str, str]  # a line and its category


class HeldChange(Struct, frozen=True):
    """Bytes at the peak of each side: of a category, or of a line with its category.

    `change` is one of same, grew, shrank, new, gone. A line that only moved in its function is the
    same line, under its name in B.
    """

    name: str
    category: str
    a_bytes: int
    b_bytes: int
    change: str


class MemoryChanges(Struct, frozen=True):
    """Both peaks, the verdict in a sentence, and the parts, the largest change first."""

    a: str
    b: str
    a_peak_bytes: int
    b_peak_bytes: int
    a_reserved_bytes: int
    b_reserved_bytes: int
    a_growth_bytes: int
    b_growth_bytes: int
    verdict: str
    categories: list[HeldChange]
    lines: list[HeldChange]
    schema: int = SCHEMA


DOCUMENTS = {"memory_changes": MemoryChanges}


def memory_changes(a: MemoryDocument, b: MemoryDocument) -> MemoryChanges:
    """From A to B, of the devices with the highest peaks."""
    first, second = a.device, b.device
    peak = max(first.peak_bytes, second.peak_bytes)
    parts = [{(part.name, ""): part.bytes for part in each.categories} for each in (first, second)]
    categories, lines = _changes(parts[0], parts[1], peak), _changed_lines(first, second, peak)
    grown = [each.growth.bytes_per_step if each.growth else 0 for each in (first, second)]
    return MemoryChanges(
        *(a.path, b.path, first.peak_bytes, second.peak_bytes),
        *(first.reserved_bytes, second.reserved_bytes),
        *(grown[0], grown[1]),
        _verdict(first, second, categories),
        categories,
        lines,
    )


def _changed_lines(
    first: DeviceMemoryDocument, second: DeviceMemoryDocument, peak: int
) -> list[HeldChange]:
    a, b = (
        {(line.line, line.category): line.bytes for line in each.lines} for each in (first, second)
    )
    left, right = (
        _by_function([key for key in one if key not in other]) for one, other in ((a, b), (b, a))
    )
    moved = {
        old: new
        for place, olds in left.items()
        if len(olds) == len(right.get(place, ()))
        for old, new in zip(olds, right[place], strict=True)
    }
    return _changes({moved.get(key, key): size for key, size in a.items()}, b, peak)


def _by_function(keys: list[Key]) -> dict[tuple[str, str, str], list[Key]]:
    found: dict[tuple[str, str, str], list[tuple[int, Key]]] = defaultdict(list)
    for line, category in keys:
        if (place := _PLACE.match(line)) is not None:
            found[place[1], place[3], category].append((int(place[2]), (line, category)))
    return {place: [key for _, key in sorted(each)] for place, each in found.items()}


def _changes(a: dict[Key, int], b: dict[Key, int], peak: int) -> list[HeldChange]:
    found = []
    for key in dict.fromkeys((*b, *a)):
        before, after = a.get(key, 0), b.get(key, 0)
        word, change = "grew" if after > before else "shrank", abs(after - before)
        if change <= SAME * max(before, after) or change < SAME * peak / 10:
            word = "same"
        elif not before or not after:
            word = "gone" if before else "new"
        found.append(HeldChange(*key, before, after, word))
    return sorted(found, key=lambda each: (-abs(each.b_bytes - each.a_bytes), each.name))


def _verdict(
    first: DeviceMemoryDocument, second: DeviceMemoryDocument, parts: list[HeldChange]
) -> str:
    a, b = first.peak_bytes, second.peak_bytes
    peaks = f"{bytes_text(a)} to {bytes_text(b)}"
    if abs(b - a) <= SAME * max(a, b):
        text = f"the same peak, {peaks}"
    else:
        share = percent_text(abs(b - a) / max(a, 1))
        text = f"the peak {'rose' if b > a else 'fell'} by {share}, {peaks}"
        # what went the way of the peak, the most first
        named = [each for each in parts if (each.b_bytes > each.a_bytes) is (b > a)][:NAMED]
        said = [f"{each.name} {change_text(each)}" for each in named if each.change != "same"]
        text += f": {', '.join(said)}" if said else ""
    if bool(first.growth) is not bool(second.growth):
        text += "; B grows from step to step" if second.growth else "; B no longer grows"
    return text


def change_text(each: HeldChange) -> str:
    """`+1.20 GB` or `-300.0 MB`."""
    change = each.b_bytes - each.a_bytes
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{bytes_text(abs(change))}"
