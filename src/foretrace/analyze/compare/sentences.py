"""A comparison in plain sentences. Names are given as the trace has them."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.analyze.compare.boundaries import crossings
from foretrace.analyze.compare.comparison import Comparison
from foretrace.analyze.compare.measure import Change
from foretrace.analyze.compare.ops import OpPair
from foretrace.analyze.compare.roofs import traffic_lines
from foretrace.analyze.compare.verdict import differs
from foretrace.analyze.compare.wording import FEW, joined, listed
from foretrace.base.units import (
    change_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)

SHOWN = 0.01  # three digits are shown: nobody misses less of a sum than this


def changed(found: Comparison) -> tuple[str, ...]:
    """Everything that differs; empty for a trace compared with itself."""
    per = f"per {found.unit.word}"
    lines = [*circumstances(found), *_once(found)]
    for name, value in _times(found):
        if differs(value):
            lines.append(_time(name, value, per))
            lines += _host_parts(found) if value is found.cpu_ns else []
    counts = [f"{count_text(a)} to {_many(b, name)}" for name, a, b in _counts(found) if a != b]
    lines += [f"Counts {per}: {joined(counts)}."] if counts else []
    lines += [f"{row.text}." for row in found.work if row.fate != "same"]
    lines += traffic_lines(found)
    devices = (side.trace.about.device for side in (found.a, found.b))
    lines += crossings(found.kernels.changed, *devices)
    return (*lines, *_ops(found.ops.removed, "fewer", per), *_ops(found.ops.added, "more", per))


def unchanged(found: Comparison) -> tuple[str, ...]:
    """What stayed the same, and what changed by no more than the noise."""
    per = f"per {found.unit.word}"
    lines = [f"{row.text} (same)." for row in found.work if row.fate == "same"]
    lines += [
        _time(name, value, per)
        for name, value in _times(found)
        if value.saved is not None and not differs(value)
    ]
    counts = [_many(a, name) for name, a, b in _counts(found) if a == b and a]
    lines += [f"Same counts {per}: {joined(counts)}."] if counts else []
    if found.ops.same:
        calls = listed([(row.name, row.a) for row in found.ops.same])
        lines.append(f"Same op calls {per}: {calls}.")
    return tuple(lines)


def _times(found: Comparison) -> tuple[tuple[str, Change], ...]:
    return (
        ("GPU time", found.gpu_ns),
        ("Profiled host time", found.cpu_ns),
        ("Profiled wall time", found.wall_ns),
        ("Wall time without the profiler", found.bare_wall_ns),
    )


def _time(name: str, value: Change, per: str) -> str:
    ratio, times = value.ratio, change_text(value.a, value.b)
    if ratio is None:
        return f"{name}: {times} {per}."
    if ratio == 1:
        return f"{name} is the same: {time_text(value.a)} {per}."
    if value.noise is None:
        return f"{name}: {times} {per} ({ratio_text(ratio)}); inconclusive, the noise is unknown."
    noise = percent_text(value.noise)
    if not value.beyond:
        subject = name.replace("Profiled", "profiled").replace("Wall", "wall")
        within = f"is within the noise of {noise}"
        return f"Inconclusive: {subject}, {times} {per} ({ratio_text(ratio)}), {within}."
    word = "falls" if ratio < 1 else "rises"
    percent = percent_text(abs(ratio - 1))
    return f"{name} {word} by {percent}: {times} {per} ({ratio_text(ratio)}, noise {noise})."


def circumstances(found: Comparison) -> list[str]:
    """How two recordings differ before the program does."""
    a, b, lines = found.a.trace.about, found.b.trace.about, []
    if _differ(found, a.device, b.device) or _differ(found, a.arch, b.arch):
        gpus = f"{a.device or 'unknown'} and {b.device or 'unknown'}"
        both = "Every ratio compares the GPUs as well as the programs."
        lines.append(f"The GPUs differ: {gpus}. {both}")
    if _differ(found, a.rank, b.rank):
        ranks = ["unknown" if rank is None else str(rank) for rank in (a.rank, b.rank)]
        lines.append(f"The ranks differ: {joined(ranks)}.")
    for option in ("record_shapes", "with_stack", "profile_memory"):
        if _differ(found, option in a.options or None, option in b.options or None):
            only = f"Only {'A' if option in a.options else 'B'} was recorded with {option}=True"
            adds = "which adds host time: host and wall times are not comparable"
            lines.append(f"{only}, {adds}.")
    return lines


def _differ(found: Comparison, *values: object) -> bool:
    """Whether A and B differ; what a cut trace lacks may have followed the cut."""
    cut = [side.trace.ledger.count("trace_truncated") for side in (found.a, found.b)]
    lost = any(value is None and count for value, count in zip(values, cut, strict=True))
    return values[0] != values[1] and not lost


def _once(found: Comparison) -> list[str]:
    lone = [name for name, side in (("A", found.a), ("B", found.b)) if len(side.repeats.spans) == 1]
    if not lone or not any(value.noise is None and differs(value) for _, value in _times(found)):
        return []
    have = f"{joined(lone)} {'has' if len(lone) == 1 else 'have'} one repeat only"
    return [f"{have}: the noise is unknown, and every time below is inconclusive."]


def _host_parts(found: Comparison) -> list[str]:
    """What one part of the host saves, another may cost: the parts shown add up to the net."""
    saved = sum(row.a_ns - row.b_ns for row in found.ops.removed)
    cost = sum(row.b_ns - row.a_ns for row in found.ops.added)
    net = found.cpu_ns.saved
    if not net or saved <= 0 or cost <= 0:
        return []
    rest, others = net - saved + cost, ""
    if abs(rest) > SHOWN * max(saved, cost):
        word = "saves" if rest > 0 else "costs"
        others = f"; the rest (other ops, launches, gaps) {word} {time_text(abs(rest))}"
    return [
        f"Profiled host time by part: ops called less often save {time_text(saved)} (self CPU "
        f"time); ops called more often cost {time_text(cost)}{others}; net {time_text(abs(net))} "
        f"{'less' if net > 0 else 'more'}."
    ]


def _counts(found: Comparison) -> list[tuple[str, int, int]]:
    a, b = found.a, found.b
    return [
        ("kernel", len(a.kernels), len(b.kernels)),
        ("memcpy", a.memcpys, b.memcpys),
        ("memset", a.memsets, b.memsets),
        ("launch", a.launches, b.launches),
    ]


def _many(count: int, name: str) -> str:
    return plural(count, name, "launches" if name == "launch" else "")


def _ops(rows: Sequence[OpPair], word: str, per: str) -> list[str]:
    """Ops and the rows of torch.compile have a sentence each."""
    lines = []
    for what in ("op call", "torch.compile row"):
        chosen = [row for row in rows if row.by_compiler is (what != "op call")]
        if chosen:
            count = sum(abs(row.a - row.b) for row in chosen)
            spent = abs(sum(row.a_ns - row.b_ns for row in chosen))
            names = listed([(row.name, abs(row.a - row.b)) for row in chosen], few=3 * FEW)
            counted = plural(count, f"{word} {what}")
            lines.append(f"{counted} {per} ({time_text(spent)} self CPU time): {names}.")
    return lines
