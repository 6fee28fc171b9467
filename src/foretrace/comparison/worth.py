"""Is the change worth its cost: what a call saves, what the change costs once, and after how many
calls it breaks even.

What a call saves is the difference of the paces: how fast calls made one after the other can follow
each other. Measured without the profiler that is the wall time per call. A trace alone gives the
larger of host and GPU time: a GPU that got faster under a host that got slower saves nothing. That
is not the wall time, so the text says whether it is the host's or the GPU's.
"""

from __future__ import annotations

import math

from foretrace.comparison.measure import Change
from foretrace.schema.documents.compare import Worth
from foretrace.units import change_text, percent_text, plural, time_text

PROFILED = "includes profiler overhead"


def worth(
    pace: Change, gpu: Change, cost_s: float | None, word: str, how: str = PROFILED, who: str = ""
) -> Worth:
    """Weigh what one `word` (call, step, run) saves against what the change costs once.

    `how` says how the pace was measured, and `who` whose time it is (the host); empty where it is
    that of the whole call.
    """
    saves, calls = pace.saved, None
    if saves and saves > 0 and cost_s is not None and pace.beyond:
        calls = math.ceil(cost_s * 1e9 / saves)
    return Worth(saves, cost_s, calls, _text(pace, gpu, cost_s, calls, word, how, who))


def unprofiled(wall: Change, host: Change) -> str:
    """How a pace was measured that the run records hold."""
    hosts = f", host {change_text(host.a, host.b)}" if host.saved is not None else ""
    return f"measured without the profiler: {change_text(wall.a, wall.b)}{hosts}"


def pace_setter(pace: Change, host: Change, gpu: Change) -> str:
    """Whose time the pace of two traces is."""
    for who, time in (("the host", host), ("the GPU", gpu)):
        if (time.a, time.b) == (pace.a, pace.b):
            return who
    return "the slower of host and GPU"


def _text(
    pace: Change,
    gpu: Change,
    cost_s: float | None,
    calls: int | None,
    word: str,
    how: str,
    who: str,
) -> str:
    saves = pace.saved
    if saves is None:
        return "Inconclusive: the times are not recorded in both traces."
    subject, per = (who, f" per {word}") if who else (f"each {word}", "")
    if saves == 0:
        return f"No change: {subject} takes the same time{per} ({how})."
    change = f"{time_text(abs(saves))} {'less' if saves > 0 else 'more'}"
    if pace.noise is None:
        return (
            f"Inconclusive: one repeat only, so the noise is unknown ({change} per {word}, {how})."
        )
    if not pace.beyond:
        return (
            f"Inconclusive: {change} per {word} ({how}) is within the noise of "
            f"{percent_text(pace.noise)}. Record more repeats."
        )
    if saves < 0:
        return f"No: {subject} takes {change}{per} ({how})." + on_the_gpu(gpu, cost_s, word)
    return (
        f"{subject[0].upper()}{subject[1:]} takes {change}{per} ({how}){_cost(cost_s, calls, word)}"
    )


def _cost(cost_s: float | None, calls: int | None, word: str) -> str:
    if cost_s is None or calls is None:
        return ". The compile time is not recorded: pass --compile-seconds to get the break-even."
    if cost_s == 0:
        return ". Nothing was compiled."
    return f"; compile time ({time_text(cost_s * 1e9)}) breaks even after {plural(calls, word)}."


def on_the_gpu(gpu: Change, cost_s: float | None, word: str) -> str:
    """The GPU alone got faster: worth knowing where the host can be kept out of the way."""
    if not gpu.beyond or gpu.saved is None or gpu.saved <= 0:
        return ""
    calls = math.ceil(cost_s * 1e9 / gpu.saved) if cost_s else None
    tail = f" and breaks even after {plural(calls, word)}" if calls is not None else ""
    return (
        " The GPU is not the bottleneck. Where it is (larger inputs, CUDA graphs), the change "
        f"saves {time_text(gpu.saved)} of GPU time{tail}."
    )
