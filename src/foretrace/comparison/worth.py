"""Is the change worth its cost: what a call saves, what the change costs once, the break-even.

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
    subject, per = (who, f" per {word}") if who else (f"each {word}", "")
    if saves is None:
        text = "Inconclusive: the times are not recorded in both traces."
    elif saves == 0:
        text = f"No change: {subject} takes the same time{per} ({how})."
    elif not pace.beyond:
        text = _inconclusive(pace, f"{_less(saves)} per {word}", how)
    elif saves < 0:
        text = f"No: {subject} takes {_less(saves)}{per} ({how}).{on_the_gpu(gpu, cost_s, word)}"
    else:
        calls = None if cost_s is None else math.ceil(cost_s * 1e9 / saves)
        subject = subject[0].upper() + subject[1:]
        text = f"{subject} takes {_less(saves)}{per} ({how}){_cost(cost_s, calls, word)}"
    return Worth(saves, cost_s, calls, text)


def _less(saves: float) -> str:
    return f"{time_text(abs(saves))} {'less' if saves > 0 else 'more'}"


def _inconclusive(pace: Change, change: str, how: str) -> str:
    if pace.noise is None:
        return f"Inconclusive: one repeat only, so the noise is unknown ({change}, {how})."
    noise = f"is within the noise of {percent_text(pace.noise)}"
    return f"Inconclusive: {change} ({how}) {noise}. Record more repeats."


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
    where = "Where it is (larger inputs, CUDA graphs), the change saves"
    saved = f"{time_text(gpu.saved)} of GPU time"
    return f" The GPU is not the bottleneck. {where} {saved}{tail}."
