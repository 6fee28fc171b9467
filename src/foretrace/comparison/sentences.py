"""A comparison in plain sentences: the table that ends an article, with its numbers. Names are
given as the trace has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foretrace.comparison.measure import Measured
from foretrace.comparison.side import Copy
from foretrace.comparison.wording import (
    FEW,
    changed_kernels,
    fusions,
    joined,
    listed,
    lone_kernels,
    other_times,
    same_kernels,
)
from foretrace.units import bytes_text, count_text, percent_text, ratio_text, time_text

if TYPE_CHECKING:
    from foretrace.comparison.comparison import Comparison

COUNTED = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset", "launches": "launch"}
TOLD = 0.01  # three digits are shown: less of a sum than this cannot be missed in it


def changed(found: Comparison) -> tuple[str, ...]:
    """Everything that differs; empty for a trace compared with itself."""
    per, kernels = _per(found), found.kernels
    lines = _circumstances(found)
    for name, value in _times(found):
        if _differs(value):
            lines.append(_time(name, value, per))
            lines += _host_parts(found) if value is found.cpu_ns else []
    lines += _unlike_counts(found, per)
    lines += fusions(kernels.fusions, per, undone=False) + fusions(kernels.undone, per, undone=True)
    lines += changed_kernels(kernels.changed) + other_times(kernels.same, found.gpu_ns.a or 0)
    lines += lone_kernels(kernels.removed, "gone", per) + lone_kernels(kernels.added, "new", per)
    lines += _copies(found.a.copies, found.b.copies, per)
    return tuple(lines + _ops(found, per))


def unchanged(found: Comparison) -> tuple[str, ...]:
    """What stayed, and what changed by no more than the noise."""
    per = _per(found)
    lines = same_kernels(found.kernels.same, per)
    lines += [
        _time(name, value, per)
        for name, value in _times(found)
        if value.saved is not None and not _differs(value)
    ]
    alike = [_many(a, name) for name, a, b in _counts(found) if a == b and a]
    lines += [f"As many {per} in both: {joined(alike)}."] if alike else []
    if found.ops.same:
        lines.append(
            f"Called as often {per} in both: "
            f"{listed([(row.name, row.a) for row in found.ops.same])}."
        )
    return tuple(lines)


def _per(found: Comparison) -> str:
    return f"per {found.unit.word}"


def _times(found: Comparison) -> tuple[tuple[str, Measured], ...]:
    return (
        ("GPU time", found.gpu_ns),
        ("Host time", found.cpu_ns),
        ("Wall time", found.wall_ns),
        ("Wall time without the profiler", found.bare_wall_ns),
    )


def _differs(value: Measured) -> bool:
    """Larger than the noise; where the noise is not known any difference is told, though it is no
    verdict.
    """
    return value.saved not in (None, 0) and value.beyond is not False


def _time(name: str, value: Measured, per: str) -> str:
    ratio = value.ratio
    if ratio is None:
        return f"{name}: {time_text(value.a)} to {time_text(value.b)} {per}."
    numbers = f"{time_text(value.a)} to {time_text(value.b)} {per} ({ratio_text(ratio)}"
    if ratio == 1:
        return f"{name} is the same: {time_text(value.a)} {per}."
    if value.noise is None:
        return f"{name}: {numbers}), no verdict."
    if not value.beyond:
        return (
            f"{name}: {numbers}) lies inside the noise of {percent_text(value.noise)}, no verdict."
        )
    word = "falls" if ratio < 1 else "rises"
    return (
        f"{name} {word} by {percent_text(abs(ratio - 1))}: {numbers}, noise "
        f"{percent_text(value.noise)})."
    )


def _circumstances(found: Comparison) -> list[str]:
    """What makes two recordings unlike before the program is even looked at."""
    a, b, lines = found.a.trace.about, found.b.trace.about, []
    if (a.device, a.arch) != (b.device, b.arch):
        lines.append(
            f"The card is another: {a.device or 'not named'} to {b.device or 'not named'}; every "
            "ratio compares the "
            "cards as well as the programs."
        )
    if a.rank != b.rank:
        lines.append(f"The rank is another: {_known(a.rank)} to {_known(b.rank)}.")
    for option in ("record_shapes", "with_stack", "profile_memory"):
        if (option in a.options) != (option in b.options):
            lines.append(
                f"Only {'A' if option in a.options else 'B'} was recorded with {option}, which "
                "costs host time: host "
                "and wall times are not alike."
            )
    lone = [name for name, side in (("A", found.a), ("B", found.b)) if len(side.repeats.spans) == 1]
    if lone and any(value.noise is None and _differs(value) for _, value in _times(found)):
        lines.append(
            f"{joined(lone)} {'has' if len(lone) == 1 else 'have'} one repeat only: the noise is "
            "not known, and no "
            "time below is a verdict."
        )
    return lines


def _known(value: int | None) -> str:
    return "not stated" if value is None else str(value)


def _host_parts(found: Comparison) -> list[str]:
    """The net cost is what counts: what one part of the host lost, another may have gained. The
    parts told give the net.
    """
    gone = sum(row.a_ns - row.b_ns for row in found.ops.removed)
    come = sum(row.b_ns - row.a_ns for row in found.ops.added)
    net = found.cpu_ns.saved
    if not net or gone <= 0 or come <= 0:
        return []
    rest = net - gone + come
    told = (
        ", all else (other ops, launches, time between ops) "
        f"{'saves' if rest > 0 else 'costs'} {time_text(abs(rest))}"
    )
    return [
        f"That is net: ops called less often save {time_text(gone)}, what is called more often "
        f"costs {time_text(come)} "
        f"(callees not counted){told if abs(rest) > TOLD * max(gone, come) else ''}, and in all "
        "the host takes "
        f"{time_text(abs(net))} {'less' if net > 0 else 'more'}."
    ]


def _counts(found: Comparison) -> list[tuple[str, int, int]]:
    a, b = found.a, found.b
    return [
        ("kernels", len(a.kernels), len(b.kernels)),
        ("memcpys", a.memcpys, b.memcpys),
        ("memsets", a.memsets, b.memsets),
        ("launches", a.launches, b.launches),
    ]


def _unlike_counts(found: Comparison, per: str) -> list[str]:
    unlike = [f"{count_text(a)} to {_many(b, name)}" for name, a, b in _counts(found) if a != b]
    return [f"Counts {per}: {joined(unlike)}."] if unlike else []


def _many(count: int, name: str) -> str:
    return f"{count_text(count)} {COUNTED[name] if count == 1 else name}"


def _copies(a: Sequence[Copy], b: Sequence[Copy], per: str) -> list[str]:
    old, new = ({(copy.name, copy.bytes): copy for copy in side} for side in (a, b))
    lines = []
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        counts = before.count if before else 0, after.count if after else 0
        seen = after or before
        if counts[0] != counts[1] and seen is not None:
            what = f"{seen.name} of {bytes_text(seen.bytes)}"
            lines.append(f"{what}: {counts[0]} to {counts[1]} {per}, {time_text(seen.ns)} each.")
    more = (
        [f"{len(lines) - FEW} more kinds of memcpy and memset differ in number."]
        if len(lines) > FEW
        else []
    )
    return lines[:FEW] + more


def _ops(found: Comparison, per: str) -> list[str]:
    lines = []
    for rows, word in ((found.ops.removed, "disappear"), (found.ops.added, "appear")):
        for one, many, by_compiler in (
            ("op call", "op calls", False),
            ("row of torch.compile", "rows of torch.compile", True),
        ):
            chosen = [row for row in rows if row.by_compiler is by_compiler]
            count = sum(abs(row.a - row.b) for row in chosen)
            spent = abs(sum(row.a_ns - row.b_ns for row in chosen))
            names = (
                listed([(row.name, abs(row.a - row.b)) for row in chosen], few=3 * FEW)
                if chosen
                else ""
            )
            what = f"1 {one} {word}s" if count == 1 else f"{count_text(count)} {many} {word}"
            lines += (
                [f"{what} {per} ({time_text(spent)} of host time without callees): {names}."]
                if chosen
                else []
            )
    return lines
