"""Code that torch.compile compiled more than once.

What it shows: compiled regions whose number tells that their code was compiled before
(`Torch-Compiled Region: 0/1` is the second version of frame 0), several versions in use in one
trace, and compilation during the recording.

Why it matters: every version cost a compilation, from a second to minutes: 1.4 s for the small MLP
of the ladder on an H200 when the batch changed. A new shape, a new stride or a changed Python value
makes Dynamo compile again. The second time it leaves that dimension open, so that a third size
costs nothing more.

How it is computed: from the names of the host ranges that Dynamo records, and from its own timing
ranges (`... (dynamo_timed)`). Where code was compiled again in the recording, the saving is at most
the time spent compiling there.

When it is wrong: a version number counts compilations since the program started, so the first
recording after a deliberate warm-up with several sizes shows them too. The compiler's records
beside the trace (`foretrace record --why`) tell the guard that failed; a trace does not.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import time_text, times_text
from foretrace.look.rules._seen import Found, Seen, listing, rule
from foretrace.read.compiler import rows as compiled
from foretrace.read.compiler.records import GuardFailure
from foretrace.trace.intervals import IntervalUnion

_TOLD = 3  # reasons in the text; the evidence has all
FIX = "mark the size that changes (torch._dynamo.mark_dynamic)"


@rule(
    "Code that torch.compile compiled more than once",
    "ops",
    realised=0.9,
    example="matmul_add_4096_compiled",
)
def _check(seen: Seen) -> Found:
    host = seen.host
    known = {name: found for name in host.names if (found := compiled.version(name))}
    versions: dict[int, set[int]] = {}
    for frame, version in known.values():
        versions.setdefault(frame, set()).add(version)
    again = {str(frame): sorted(found) for frame, found in sorted(versions.items()) if max(found)}
    compiling = np.flatnonzero(host.lasting & host.named(compiled.is_compilation))
    if not again and not len(compiling):
        return
    spent = IntervalUnion(host.start[compiling], host.end[compiling])
    ns = seen.step(int((spent.end - spent.start).sum()))
    times = sum(found[-1] for found in again.values())
    now = "The recording contains no compilation. "
    if len(compiling):
        now = f"Compiling took {time_text(ns)} {seen.per}. "
    frames = [
        f"frame {frame} ran version{'s' if len(found) > 1 else ''} {listing([*map(str, found)])}"
        for frame, found in list(again.items())[:4]
    ]
    title = "torch.compile compiled code during the recording"
    if again:
        title = f"torch.compile recompiled {times_text(times)} since the process began"
    detail = f"{now}{listing(frames).capitalize()} (0 is the first)." if frames else now.strip()
    reasons = _reasons(seen) if again else {}
    if reasons:
        told = [f"{version} because {why}" for version, why in list(reasons.items())[:_TOLD]]
        detail += f" Recompiled: {listing(told)}."
    evidence = {"recompilations": times, "versions": again, "compile_ns": ns}
    evidence |= {"reasons": reasons} if reasons else {}
    later = {name for name, (_, version) in known.items() if version}
    events = np.union1d(compiling, np.flatnonzero(host.named(later.__contains__)))
    saved, fix = (ns, FIX) if len(compiling) and again else (None, "")
    yield seen.found(title, detail, evidence, events, saved, fix)


def _reasons(seen: Seen) -> dict[str, str]:
    """The guard that failed before each version, where the compiler's records have it."""
    run = seen.trace.compiler_run
    return {
        each.id: words(each.recompile[-1])
        for each in (run.compilations if run else ())
        if each.recompile and each.rank in (None, seen.trace.about.rank)
    }


def words(guard: GuardFailure) -> str:
    """`size at index 0 of x is 32, not 64`."""
    if not guard.what or not guard.expected or not guard.actual:
        return f"this guard failed: {guard.text}"
    return f"{guard.what} of {guard.subject} is {guard.actual}, not {guard.expected}"
