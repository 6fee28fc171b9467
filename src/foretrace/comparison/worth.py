"""Is the change worth its cost: what a call saves, what the change costs once, and after how many
calls it has paid.

What a call saves is the difference of the paces: how fast calls made one after the other can follow
each other. Measured without the profiler that is the wall time per call. A trace alone gives the
larger of host and GPU time: a GPU that got faster under a host that got slower saves nothing. That
is not the wall time, so the text names who sets the pace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretrace.comparison.measure import Measured
from foretrace.units import count_text, percent_text, time_text

PROFILED = "by times that include the profiler"


@dataclass(frozen=True, slots=True)
class Worth:
    """`saves_ns_per_call` may be negative; `break_even_calls` is None where nothing is saved, or
    the cost is not known.
    """

    saves_ns_per_call: float | None
    cost_s: float | None
    break_even_calls: int | None
    text: str


def worth(
    pace: Measured,
    gpu: Measured,
    cost_s: float | None,
    word: str,
    how: str = PROFILED,
    who: str = "",
) -> Worth:
    """Weigh what `word` (call, step, run) saves against what the change costs once.

    `how` says how the pace was measured, and `who` whose time it is (the host); empty where it is
    that of the whole call.
    """
    saves = pace.saved
    calls = (
        math.ceil(cost_s * 1e9 / saves)
        if saves and saves > 0 and cost_s is not None and pace.beyond
        else None
    )
    return Worth(saves, cost_s, calls, _text(pace, gpu, cost_s, calls, word, how, who))


def unprofiled(wall: Measured, host: Measured) -> str:
    """How a pace was measured that the run records hold."""
    hosts = f", host {time_text(host.a)} to {time_text(host.b)}" if host.saved is not None else ""
    return f"measured without the profiler ({time_text(wall.a)} to {time_text(wall.b)}{hosts})"


def pace_setter(pace: Measured, host: Measured, gpu: Measured) -> str:
    """Whose time the pace of two traces is."""
    for who, time in (("the host", host), ("the GPU", gpu)):
        if (time.a, time.b) == (pace.a, pace.b):
            return who
    return "the slower of host and GPU"


def _text(
    pace: Measured,
    gpu: Measured,
    cost_s: float | None,
    calls: int | None,
    word: str,
    how: str,
    who: str,
) -> str:
    saves = pace.saved
    if saves is None:
        return "Cannot be told: the times are not recorded in both traces."
    if saves == 0:
        return (
            f"{_begun(who) or f'A {word}'} takes as long as "
            f"before{f' per {word}' if who else ''}, {how}."
        )
    if pace.noise is None:
        return (
            f"Cannot be told: one repeat only, so the noise is not known ({_signed(saves)} per "
            f"{word}, {how})."
        )
    if not pace.beyond:
        return (
            f"Cannot be told: {_signed(saves)} per {word}, {how}, lies inside the noise of "
            f"{percent_text(pace.noise)}; "
            "record more repeats."
        )
    if saves < 0:
        longer = f"{time_text(-saves)} longer"
        slower = f"{who} needs {longer} per {word}" if who else f"each {word} takes {longer}"
        return f"No: {slower}, {how}." + on_the_gpu(gpu, cost_s, word)
    saved = time_text(saves)
    saving = (
        f"{_begun(who)} needs {saved} less per {word}, {how}"
        if who
        else f"Each {word} saves {saved}, {how}"
    )
    if cost_s == 0:
        return f"{saving}, and nothing was compiled for it."
    if cost_s is None:
        return (
            f"{saving}. What the change costs once is not recorded: give --compile-seconds to "
            "see when it has paid."
        )
    return (
        f"{saving}; the {time_text(cost_s * 1e9)} it costs once are paid after "
        f"{count_text(calls)} {word}s."
    )


def on_the_gpu(gpu: Measured, cost_s: float | None, word: str) -> str:
    """The GPU alone got faster: worth knowing for those who can keep the host out of the way."""
    if not gpu.beyond or gpu.saved is None or gpu.saved <= 0:
        return ""
    tail = (
        f", and pay after {count_text(math.ceil(cost_s * 1e9 / gpu.saved))} {word}s"
        if cost_s
        else ""
    )
    return (
        " The GPU does not set the pace. Where it does (larger inputs, CUDA graphs), the "
        f"{time_text(gpu.saved)} of GPU "
        f"time would count{tail}."
    )


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _signed(saves: float) -> str:
    return f"{time_text(abs(saves))} {'less' if saves > 0 else 'more'}"
