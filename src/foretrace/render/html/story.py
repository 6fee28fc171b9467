"""The story of a trace in a few sentences: what ran, what it waited for, where the time went, what
could be mended.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from foretrace.units import count_text, percent_text, time_text

_BOUND = {
    "overhead": "the GPU waits for the host: launching costs more than computing",
    "compute": "the arithmetic of the GPU is the limit",
    "memory": "moving data to and from GPU memory is the limit",
    "comms": "communication between GPUs is the limit",
    "mixed": "compute and memory limit it about equally",
    "unknown": "what limits it cannot be told from this recording",
}


def story(look: dict[str, Any], kernels: list[dict[str, Any]]) -> list[str]:
    """Sentences for people, from the documents the rest of the page shows in full."""
    return [*_ran(look), *_bound(look), *_where(kernels), *_mend(look)]


def _ran(look: dict[str, Any]) -> list[str]:
    trace, totals = look["trace"], look["totals"]
    busy, span = totals["gpu_busy_ns"], totals["gpu_span_ns"]
    device = trace["device"] or "no GPU named"
    steps = f"{count_text(trace['steps'])} steps" if trace["steps"] else "No steps marked"
    said = [
        f"{steps} on {device}: {count_text(totals['cpu_ops'])} host ops made "
        f"{count_text(totals['launches'])} launches, "
        f"and {count_text(totals['kernels'])} kernels ran."
    ]
    if busy is not None and span:
        said.append(
            f"The GPU was busy for {time_text(busy)}, {percent_text(busy / span)} of the time "
            "from its first work to "
            "its last."
        )
    return said


def _bound(look: dict[str, Any]) -> list[str]:
    bounds = Counter(step["bound"] for step in look["steps"])
    if not bounds:
        return []
    bound, count = bounds.most_common(1)[0]
    share = (
        "Every step" if count == len(look["steps"]) else f"{count} of {len(look['steps'])} steps"
    )
    verb = "is" if count == len(look["steps"]) or count == 1 else "are"
    by = "" if bound in ("unknown", "mixed") else f" {verb} bound by {bound}"
    return [f"{share}{by}: {_BOUND[bound]}."]


def _where(kernels: list[dict[str, Any]]) -> list[str]:
    timed = sorted((row for row in kernels if row["total_ns"]), key=lambda row: -row["total_ns"])
    total = sum(row["total_ns"] for row in timed)
    if not total:
        return []
    roles: Counter[str] = Counter()
    for row in timed:
        roles[row["role"]] += row["total_ns"]
    shares = ", ".join(f"{percent_text(ns / total)} {role}" for role, ns in roles.most_common(4))
    top = timed[0]
    part = f"{count_text(top['count'])} launches, {percent_text(top['total_ns'] / total)}"
    return [f"Kernel time by role: {shares}.", f"The costliest kernel is {top['short']} ({part})."]


def _mend(look: dict[str, Any]) -> list[str]:
    found = [row for row in look["findings"] if row["state"] == "found"]
    worth = max(
        (row for row in found if row["at_most_ns"]), key=lambda row: row["at_most_ns"], default=None
    )
    if not found:
        return []
    said = f"{len(found)} findings" if len(found) != 1 else "1 finding"
    if worth is None:
        return [f"{said}."]
    return [
        f"{said}; the largest could save at most {time_text(worth['at_most_ns'])} per step: "
        f"{worth['title']}."
    ]
