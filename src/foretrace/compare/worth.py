"""Is the change worth its cost: what a call saves, what the change costs once, and after how many calls it has paid.

What a call saves is the difference of the paces. The pace of a call is the larger of its host and its GPU time: calls made
one after the other cannot follow each other faster. So a GPU that got faster under a host that got slower saves nothing.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass

from ..units import count_text, percent_text, time_text
from .measure import Measured

# A run record is a few kilobytes; anything larger beside a trace is something else.
RECORD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Worth:
    """`saves_ns_per_call` may be negative; `break_even_calls` is None where nothing is saved, or the cost is not known."""

    saves_ns_per_call: float | None
    cost_s: float | None
    break_even_calls: int | None
    text: str


def worth(pace: Measured, gpu: Measured, cost_s: float | None, word: str) -> Worth:
    """Weigh what `word` (call, step, run) saves against what the change costs once."""
    saves = pace.saved
    calls = math.ceil(cost_s * 1e9 / saves) if saves and saves > 0 and cost_s is not None and pace.beyond else None
    return Worth(saves, cost_s, calls, _text(pace, gpu, cost_s, calls, word))


def _text(pace: Measured, gpu: Measured, cost_s: float | None, calls: int | None, word: str) -> str:
    saves = pace.saved
    if saves is None:
        return "Cannot be told: the times are not recorded in both traces."
    if saves == 0:
        return f"A {word} takes as long as before."
    if pace.noise is None:
        return f"Cannot be told: one repeat only, so the noise is not known ({_signed(saves)} per {word} as recorded)."
    if not pace.beyond:
        return (f"Cannot be told: {_signed(saves)} per {word} lies inside the noise of {percent_text(pace.noise)}; "
                "record more repeats.")
    if saves < 0:
        return f"No: each {word} takes {time_text(-saves)} longer." + on_the_gpu(gpu, cost_s, word)
    if cost_s == 0:
        return f"Each {word} saves {time_text(saves)}, and nothing was compiled for it."
    if cost_s is None:
        return (f"Each {word} saves {time_text(saves)}. What the change costs once is not recorded: "
                "give --compile-seconds to see when it has paid.")
    return (f"Each {word} saves {time_text(saves)}; the {time_text(cost_s * 1e9)} it costs once are paid after "
            f"{count_text(calls)} {word}s.")


def on_the_gpu(gpu: Measured, cost_s: float | None, word: str) -> str:
    """The GPU alone got faster: worth knowing for those who can keep the host out of the way."""
    if not gpu.beyond or gpu.saved is None or gpu.saved <= 0:
        return ""
    tail = f", and pay after {count_text(math.ceil(cost_s * 1e9 / gpu.saved))} {word}s" if cost_s else ""
    return (f" The host sets the pace. Where the GPU does (larger inputs, CUDA graphs), the {time_text(gpu.saved)} of GPU time "
            f"would count{tail}.")


def _signed(saves: float) -> str:
    return f"{time_text(abs(saves))} {'less' if saves > 0 else 'more'}"


def recorded_seconds(path: str) -> float | None:
    """Seconds that torch.compile took, from the run record beside a trace (`run.json.gz` has `run.run.json`)."""
    stem = next((path.removesuffix(suffix) for suffix in (".json.gz", ".json") if path.endswith(suffix)), None)
    if stem is None or not os.path.isfile(stem + ".run.json"):
        return None
    try:
        with open(stem + ".run.json", "rb") as file:
            record = json.loads(file.read(RECORD_BYTES)) if os.fstat(file.fileno()).st_size <= RECORD_BYTES else None
        seconds = float(record["compile"]["seconds"]) if record["kind"] == "foretrace-run" else math.nan  # type: ignore[index]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None  # not a record of ours
    return seconds if 0 <= seconds < math.inf else None
