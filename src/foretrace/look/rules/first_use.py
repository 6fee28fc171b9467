"""Runtime calls that set up the GPU inside the recording.

What it shows: runtime and driver calls of 1 ms or more during which the GPU ran nothing, in a
recording without a second step to compare with: how long they took, and the longest by name.

Why it matters: the first use of a GPU creates a context, loads kernels and reserves memory. A call
that usually takes microseconds then takes milliseconds or seconds. Such a recording says little
about the program: it looks host-bound, and no change of the program makes it faster.

How it is computed: calls that do not wait for the GPU and capture no graph, and that overlap with
GPU work for less than a tenth of their length; reported from a fifth of the step on, or without
steps of the recording. With two steps or more that launch work, `cold_start` compares them instead.

When it is wrong: a program that reserves much memory in every call shows the same. No saving is
claimed: record a second step to see what remains.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import LISTED, Found, Seen, listing, rule
from foretrace.trace.host import HOST_KINDS
from foretrace.trace.intervals import IntervalUnion, Ints, union_length

LONG_NS = 1_000_000
IDLE = 0.1  # part of a call in which the GPU may work


@rule("Runtime calls that set up the GPU", "gpu clock")
def _check(seen: Seen) -> Found:
    host, steps = seen.host, [span for span in seen.trace.spans.steps if len(span.work)]
    every = host.lasting & host.is_kind(*HOST_KINDS)
    if len(steps) > 1 or not every.any():
        return
    begin, end = int(host.start[every].min()), int(host.end[every].max())
    if steps:
        begin, end = (at - seen.gpu.lag for at in seen.trace.spans.window(steps[0]))
    calls, recorded = _calls(seen, begin, end), end - begin
    taken = union_length(host.start[calls], np.minimum(host.end[calls], end))
    if not len(calls) or taken < 0.2 * recorded:
        return
    longest = calls[np.argsort(-host.length[calls], kind="stable")][:LISTED]
    named = [{"call": host.names[host.name[row]], "ns": int(host.length[row])} for row in longest]
    number, verb = plural(len(calls), "runtime call"), "take" if len(calls) > 1 else "takes"
    of = f"of the {'step' if steps else 'recording'}'s {time_text(recorded)}"
    title = f"{number} {verb} {time_text(taken)} {of}, with the GPU idle"
    listed = listing([f"{entry['call']} ({time_text(entry['ns'])})" for entry in named[:3]])
    detail = (
        f"Longest: {listed}. So long a call sets up the GPU, loads a kernel or reserves memory, "
        "mostly once. Run the step once before the recording, or record a second one."
    )
    evidence = {"calls": len(calls), "taken_ns": taken, "recorded_ns": recorded, "longest": named}
    yield seen.found(title, detail, evidence, np.sort(calls))


def _calls(seen: Seen, begin: int, end: int) -> Ints:
    """Long calls of this time that neither wait nor capture, while the GPU ran next to nothing."""
    host, gpu = seen.host, seen.gpu
    captures = host.named(lambda name: "Graph" in name or "Capture" in name)
    long = host.is_call & host.lasting & (host.length >= LONG_NS)
    long &= (host.start >= begin) & (host.start < end)
    calls = np.flatnonzero(long & ~host.is_wait & ~captures)
    busy = IntervalUnion(gpu.start[gpu.usable], gpu.end[gpu.usable])
    worked = busy.between(host.start[calls], host.end[calls])
    found: Ints = calls[worked < IDLE * host.length[calls]]
    return found
