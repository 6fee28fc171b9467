"""From a kernel to the source line and the compiler's reasons.

    why = explain(load("run.why"), ft.open("run.json.gz"))
    why.kernels[0].name, why.kernels[0].sources, why.kernels[0].bytes
    why.not_fused[0].reason, why.not_fused[0].at_most_ns
    why.graph_breaks, why.recompiles, why.compile_cost

`trace/compiled` turns the compiler's records into what `read/compiler/records.py` describes, and
joins that with the launches of a trace. The modules here explain it: which kernels were not fused,
and why.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from foretrace.base.budget import Limits
from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.read.compiler import manifest_of
from foretrace.read.compiler.bundle import NAMED, SUFFIX, names_in
from foretrace.read.door import Opened, TraceFile, TraceFolder, open_any
from foretrace.trace.compiled import load

if TYPE_CHECKING:
    from foretrace.read.compiler.records import CompilerRun
    from foretrace.trace.trace import Trace
    from foretrace.why.documents import Why

__all__ = ["explain", "load", "refuse_many", "trace_of"]

ENDS = (".json.gz", ".json", ".pt.trace.json.gz", ".pt.trace.json", ".json.zst")


def explain(run: CompilerRun, trace: Trace | None = None, other: CompilerRun | None = None) -> Why:
    """The document of `foretrace why --json`; `other` says what a second run made of pairs."""
    from foretrace.why.explained import explained

    if trace is not None:
        trace.compiler_records.use(run)
    return explained(run, trace, other)


def trace_of(found: Opened, bundle: str, limits: Limits) -> str | None:
    """The trace of the logs in `bundle`, which a path led to; None where there is none.

    A bundle names its trace. A folder of logs may hold one. A log by itself has none.
    """
    if isinstance(found, TraceFile) and found.doubt is None:
        return found.path
    if not os.path.isdir(bundle):
        return None
    stem = bundle.rstrip("/").removesuffix(SUFFIX)
    named = manifest_of(bundle)
    beside = [os.path.join(os.path.dirname(stem), os.path.basename(named.trace))] if named else []
    beside += [stem + end for end in ENDS] if stem != bundle.rstrip("/") else []
    if trace := next(filter(os.path.isfile, beside), None):
        return trace
    inside = found if found.path == bundle else open_any(bundle, limits)
    traces = inside.traces if isinstance(inside, TraceFolder) else []
    if len(traces) > 1:
        listed = ", ".join(os.path.basename(each) for each in traces[:4])
        raise UsageError(f"{bundle} contains {len(traces)} traces; choose one: {listed}")
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
