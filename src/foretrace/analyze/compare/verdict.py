"""Is B faster than A? Answered only where something proves it.

1. Two programs are not compared.
2. Run records beside both traces hold the wall time of a call without the profiler: they decide.
3. Without them a call takes at least its GPU time, and at most the larger of GPU and host time in
   the trace, because the profiler only slows the host. Where these ranges of A and B do not meet,
   they decide.
4. Otherwise it is inconclusive: the GPU time may fall while the host's decides, and the host's time
   in a trace includes profiler overhead.
"""

from __future__ import annotations

from foretrace.analyze.compare.changes import WorkChange
from foretrace.analyze.compare.measure import Change, Sample, measured
from foretrace.analyze.compare.program import Likeness
from foretrace.analyze.compare.side import Side
from foretrace.base.units import change_text, percent_text, ratio_text, time_text
from foretrace.schema.documents.compare import CompareVerdict

DECIDE = "to decide, time both without the profiler (`foretrace worth`, `foretrace run`)"
RECORDS, BOUNDS, TRACES = "run records", "bounds", "traces"


def judge(
    a: Side, b: Side, likeness: Likeness | None, wall: Change, work: tuple[WorkChange, ...]
) -> CompareVerdict:
    """The verdict on B against A; `wall` is one call without the profiler, where both have it."""
    per = f"per {a.unit.word}"
    if likeness is not None and not likeness.one_program:
        return CompareVerdict("different", f"two programs: {likeness.text}", TRACES)
    if wall.saved is not None:
        return _by_records(wall, per)
    times = [measured(a.gpu, b.gpu), measured(a.cpu, b.cpu), measured(a.wall, b.wall)]
    timed = not _untimed(a, b)
    if timed and all(row.fate == "same" for row in work) and not any(map(differs, times)):
        return CompareVerdict("same", _same_text(times[0], bool(work), per), TRACES)
    return _by_bounds(a, b, per) or _open(a, b, times, per)


def _untimed(a: Side, b: Side) -> list[str]:
    """The traces whose GPU work has no usable time."""
    return [name for name, side in (("A", a), ("B", b)) if side.work and side.gpu.median is None]


def differs(value: Change) -> bool:
    """Larger than the noise; where the noise is unknown, any difference."""
    return value.saved not in (None, 0) and value.beyond is not False


def _by_records(wall: Change, per: str) -> CompareVerdict:
    saved, times = wall.saved or 0.0, change_text(wall.a, wall.b)
    how = f"without the profiler ({ratio_text(wall.ratio)})"
    if saved == 0:
        return CompareVerdict("same", f"{time_text(wall.a)} {per} in both run records", RECORDS)
    if not wall.beyond:
        noise = "the noise is unknown" if wall.noise is None else _within(wall.noise)
        return CompareVerdict("inconclusive", f"{times} {per} {how}: {noise}", RECORDS)
    word = "less" if saved > 0 else "more"
    text = f"{time_text(abs(saved))} {word} {per}: {times} {how}"
    return CompareVerdict("faster" if saved > 0 else "slower", text, RECORDS, saved, saved)


def _within(noise: float) -> str:
    return f"within the noise of {percent_text(noise)}"


def _same_text(gpu: Change, has_work: bool, per: str) -> str:
    if not has_work:
        return f"the same ops {per}, no time beyond the noise"
    times = change_text(gpu.a, gpu.b) if gpu.saved else time_text(gpu.a)
    return f"the same GPU work, {times} {per}, no time beyond the noise"


def _by_bounds(a: Side, b: Side, per: str) -> CompareVerdict | None:
    """Where no time that A can take is one that B can take."""
    least, most = _gap(a.gpu, b.pace), _gap(a.pace, b.gpu)
    if least is not None and least > 0:
        text = f"{_range(least, most)} less {per}"
        return CompareVerdict("faster", f"{text}: {_proof(a, b)}", BOUNDS, least, most)
    if most is not None and most < 0:
        text = f"{_range(-most, -least if least is not None else None)} more {per}"
        return CompareVerdict("slower", f"{text}: {_proof(a, b)}", BOUNDS, least, most)
    return None


def _gap(a: Sample, b: Sample) -> float | None:
    """A less B where that is beyond the noise, else 0; None where it is unknown."""
    change = measured(a, b)
    return change.saved if change.beyond else None if change.beyond is None else 0.0


def _range(least: float, most: float | None) -> str:
    return f"{change_text(least, most)}" if most is not None and most > least else time_text(least)


def _proof(a: Side, b: Side) -> str:
    sides = (f"{name} takes {_possible(side)}" for name, side in (("A", a), ("B", b)))
    return f"{', '.join(sides)} (GPU time, and with the profiler)"


def _possible(side: Side) -> str:
    return change_text(side.gpu.median, side.pace.median)


def _open(a: Side, b: Side, times: list[Change], per: str) -> CompareVerdict:
    """What is known, and how to decide."""
    (gpu, host, _), known = times, list[str]()
    if gpu.saved is not None:
        ratio = ratio_text(gpu.ratio) if differs(gpu) else "no change beyond the noise"
        known.append(f"GPU time {change_text(gpu.a, gpu.b)} {per} ({ratio})")
    known += [f"the GPU time of {name} is unknown" for name in _untimed(a, b)]
    if any(len(side.repeats.spans) == 1 for side in (a, b)):
        known.append("one repeat only, so the noise is unknown")
    if host.saved is not None:
        known.append(f"host {change_text(host.a, host.b)}, which includes profiler overhead")
    return CompareVerdict("inconclusive", "; ".join([*known, DECIDE]), TRACES)
