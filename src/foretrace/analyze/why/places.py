"""The trace that belongs to a log, and whether the two are of one run."""

from __future__ import annotations

import os

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.base.units import plural
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.read.compiler import CompilerLogs, manifest_of, one_run, stranger
from foretrace.read.compiler.bundle import HINT, NAMED, SUFFIX, names_in
from foretrace.read.folder import refusal, searched
from foretrace.schema.whole import whole

GENERATED = ("inductor_triton", "inductor_cpp")
ENDS = (".json.gz", ".json", ".pt.trace.json.gz", ".pt.trace.json", ".json.zst")


def trace_of(path: str, bundle: str, limits: Limits) -> str | None:
    """The trace of the logs in `bundle`, which `path` led to; None where there is none.

    A bundle names its trace. A folder of logs may hold one. A log by itself has none.
    """
    if os.path.isfile(path):
        return path if path != bundle and refusal(path, limits) is None else None
    if not os.path.isdir(bundle):
        return None
    stem = bundle.rstrip("/").removesuffix(SUFFIX)
    named = manifest_of(bundle)
    beside = [os.path.join(os.path.dirname(stem), os.path.basename(named.trace))] if named else []
    beside += [stem + end for end in ENDS] if stem != bundle.rstrip("/") else []
    return next(filter(os.path.isfile, beside), None) or _inside(bundle, limits)


def _inside(folder: str, limits: Limits) -> str | None:
    found = searched(folder, limits)
    traces = found.traces if found else []
    if len(traces) > 1:
        listed = ", ".join(os.path.basename(each) for each in traces[:4])
        raise UsageError(f"{folder} contains {len(traces)} traces; choose one: {listed}")
    return traces[0] if traces else None


def refuse_many(path: str) -> None:
    """Raise `UsageError` where a folder without logs has folders with them."""
    inside = [os.path.join(path, name) for name in names_in(path)] if os.path.isdir(path) else []
    plain = [each for each in inside if not each.endswith(SUFFIX)]
    held = [each for each in plain if any(map(NAMED.fullmatch, names_in(each)))]
    if held and not any(map(NAMED.fullmatch, names_in(path))):
        listed = ", ".join(held[:4]) + (", …" if len(held) > 4 else "")
        raise UsageError(
            f"{path} contains the logs of {plural(len(held), 'run')}: give one: {listed}"
        )


def own_run(logs: CompilerLogs, trace: Trace) -> CompilerLogs:
    """The logs of the trace's run alone. Raises `TraceError` where they are of another run."""
    numbers = [whole(text) for text in trace.tracks["pid"].to_list()]
    named = [name for name in trace.host.names if name.startswith(("triton_", "cpp_"))]
    generated = {name for name in named if families.decode(name).family in GENERATED}
    pids = {pid for pid in numbers if pid}
    reason = stranger(logs, trace.path, pids, generated)
    if reason:
        raise TraceError("E_OTHER_RUN", logs.path, reason, hint=HINT)
    return one_run(logs, pids)
