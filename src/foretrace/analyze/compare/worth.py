"""Is the change worth its cost: what a call saves, what the change costs once, the break-even."""

from __future__ import annotations

import math

from foretrace.analyze.compare.measure import Change
from foretrace.base.units import plural, time_text
from foretrace.schema.documents.compare import CompareVerdict, Worth

WORDS = {"faster": "Yes", "slower": "No", "same": "No change", "inconclusive": "Inconclusive"}
WORDS["different"] = "Not comparable"


def weigh(verdict: CompareVerdict, gpu: Change, cost_s: float | None, word: str) -> Worth:
    """Weigh what one `word` (call, step, run) saves against what the change costs once."""
    saves = verdict.saves_at_least_ns if verdict.answer == "faster" else verdict.saves_at_most_ns
    calls, text = break_even(saves, cost_s), f"{WORDS[verdict.answer]}: {verdict.text}"
    if verdict.answer == "faster":
        return Worth(saves, cost_s, calls, text + cost_text(cost_s, calls, word))
    more = on_the_gpu(gpu, cost_s, word) if verdict.answer == "slower" else ""
    return Worth(saves, cost_s, calls, f"{text}.{more}")


def break_even(saves: float | None, cost_s: float | None) -> int | None:
    """After how many calls the cost is saved; None where nothing is saved or a part is unknown."""
    if saves is None or saves <= 0 or cost_s is None:
        return None
    return math.ceil(cost_s * 1e9 / saves)


def cost_text(cost_s: float | None, calls: int | None, word: str) -> str:
    """The break-even, or why there is none."""
    if cost_s is None or calls is None:
        return ". The compile time is not recorded: pass --compile-seconds to get the break-even."
    if cost_s == 0:
        return ". Nothing was compiled."
    return f"; compile time ({time_text(cost_s * 1e9)}) breaks even after {plural(calls, word)}."


def on_the_gpu(gpu: Change, cost_s: float | None, word: str) -> str:
    """The GPU alone got faster: worth knowing where the host can be kept out of the way."""
    if not gpu.beyond or gpu.saved is None or gpu.saved <= 0:
        return ""
    calls = break_even(gpu.saved, cost_s or None)
    tail = f" and breaks even after {plural(calls, word)}" if calls is not None else ""
    where = "Where it is (larger inputs, CUDA graphs), the change saves"
    saved = f"{time_text(gpu.saved)} of GPU time"
    return f" The GPU is not the bottleneck. {where} {saved}{tail}."
