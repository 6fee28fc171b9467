"""Writes the predictions that hold on a trace now and must hold on every later run of the program.

Only what does not vary from run to run is written: counts that were the same in every call, fields
of kernels, fusions, the order of launches; never a time, an idle share or a bound. Names that a
compiler numbers are written without the number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from foretrace.base.errors import TraceError
from foretrace.check.documents import GuessDocument, HeldGuess
from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.guess_files import dump
from foretrace.check.kinds.compiler import COUNTED
from foretrace.check.marking import mark
from foretrace.check.parsing import parse
from foretrace.check.selection import cpu_kernels
from foretrace.check.snapshots import compiled_name
from foretrace.check.windows import Scope, Window, windows_of
from foretrace.check.words import op_words
from foretrace.trace.cpu_ops import cpu_does, own_regions
from foretrace.trace.trace import Trace
from foretrace.work.families import VIEWS

PLACES = 20  # regions; a trace with more has names made by a program, not by a person


def holding(trace: Trace) -> list[tuple[str, str]]:
    """Predictions that hold, each with its reason; `TraceError` when the trace is incomplete."""
    if trace.ledger.gap:
        raise TraceError(
            "E_NOT_WHOLE",
            trace.path,
            f"{trace.ledger.gap}, so another run may contain more",
            hint="record it again, or raise the limit that cut it",
        )
    evidence = Evidence(trace)
    found = _candidates(evidence)
    return [pair for pair in found if mark(parse(pair[0]), evidence).verdict == "hit"]


def write(trace: Trace) -> str:
    """The guess file of a trace."""
    name, device = PurePath(trace.path).name, trace.about.device or "no GPU"
    what = f"Predictions that hold on {name} ({device}); none depends on time."
    use = "Check them on another run with: foretrace check TRACE --guesses THIS_FILE"
    return dump(holding(trace), [what, use])


def document(trace: Trace) -> GuessDocument:
    """The same for other programs."""
    return GuessDocument(1, [HeldGuess(text, reason) for text, reason in holding(trace)])


def _candidates(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.trace.compiler_run is not None:
        for word in ("graph-breaks", "recompiles", "compiled-graphs"):
            counted, text = int(COUNTED[word](evidence.trace).low), word.replace("-", " ")
            yield f"{text} == {counted}", f"number of {text}, by the compiler's records"
    scopes = [Scope("region", name) for name in [*own_regions(evidence.trace)][:PLACES]]
    for scope in scopes or [Scope("steps" if evidence.trace.has("steps") else "trace")]:
        windows = windows_of(scope, evidence)
        several = f"the same in each of {len(windows)} {scope.unit}"
        held = several if len(windows) > 1 else "as recorded"
        for text, reason in [*_gpu(windows), *_host(windows[0])]:
            yield scope.prefix + text, f"{reason}, {held}"


def _gpu(windows: list[Window]) -> Iterator[tuple[str, str]]:
    evidence = windows[0].evidence
    if not evidence.trace.has("gpu"):
        return
    operations = [[evidence.operation(row) for row in each.rows.tolist()] for each in windows]
    kernels = [[one for one in found if one.kind == "kernel"] for found in operations]
    first = kernels[0]
    yield f"kernels == {len(first)}", "number of kernels"
    for role in sorted({one.role for found in kernels for one in found}):
        yield f"{role} == {sum(one.role == role for one in first)}", f"number of {role} kernels"
    for kind in ("memcpy", "memset"):
        yield f"{kind} == {sum(one.kind == kind for one in operations[0])}", f"number of {kind}s"
    yield f"sync == {len(windows[0].events(evidence.trace.host.is_wait))}", "number of syncs"
    yield from _products([one for found in kernels for one in found if one.role == "gemm"], first)
    for operation in {id(one): one for found in kernels for one in found}.values():
        yield from _fusion(_proven(operation))
    if 1 < len(first) <= 12:  # kernels; nobody reads a longer list
        yield ", ".join(_word(operation) for operation in first), "launch order"


def _products(matmuls: list[GpuOperation], first: list[GpuOperation]) -> Iterator[tuple[str, str]]:
    if not matmuls:
        return
    names = {operation.name for operation in first if operation.role == "gemm"}
    yield f"distinct gemm kernels == {len(names)}", "number of different GEMM kernels"
    yield f"every gemm has family {matmuls[0].ident.family}", "kernel family of the GEMMs"
    for field, keys in (("layout", ("layout",)), ("dtype", ("dtype_in", "dtype"))):
        stated = [[one.ident.get(key) for key in keys] for one in matmuls]
        values = {next((value for value in found if value), None) for found in stated}
        if len(values) == 1 and isinstance(value := values.pop(), str):
            yield f"every gemm has {field} {value}", f"{field} of the GEMMs"


def _proven(operation: GpuOperation) -> list[str]:
    """The ops that a kernel's name lists and that it does."""
    return [op for op in operation.ident.get("ops") or () if op in operation.does]


def _fusion(ops: Sequence[str]) -> Iterator[tuple[str, str]]:
    if fused := _fused(ops):
        yield f"{fused} are fused", "one kernel for these ops"


def _fused(ops: Sequence[str]) -> str:
    """`gelu and mul`; empty where a kernel does one op."""
    named = [op for op in dict.fromkeys(ops) if op in op_words() and op not in VIEWS]
    return " and ".join(named) if len(named) > 1 else ""


def counted(window: Window) -> tuple[int | None, list[str]]:
    """How many kernels a window launches, or a CPU computes, and what each fused one does; None
    where neither is known.
    """
    evidence = window.evidence
    if evidence.trace.has("gpu"):
        operations = map(evidence.operation, window.rows.tolist())
        every = [_proven(one) for one in operations if one.kind == "kernel"]
    elif evidence.runs_on_cpu:
        names = [evidence.name(event) for event in cpu_kernels(window)]
        every = [sorted(cpu_does(name)) if compiled_name(name) else [] for name in names]
    else:
        return None, []
    return len(every), [fused for ops in every if (fused := _fused(ops))]


def _word(operation: GpuOperation) -> str:
    """The most specific word for a kernel in a list: its op where it does one, else its role."""
    words = sorted(operation.does & op_words())
    return words[0] if operation.role == "pointwise" and len(words) == 1 else operation.role


def _host(window: Window) -> Iterator[tuple[str, str]]:
    host, on_cpu = window.evidence.trace.host, window.evidence.runs_on_cpu
    if on_cpu:
        yield f"cpu kernels == {len(cpu_kernels(window))}", "number of ops that compute"
    numbers = host.name[window.events(host.is_op & host.lasting)].tolist()
    counts = Counter(host.names[number] for number in numbers)
    for name, count in sorted(counts.items()):
        if compiled := compiled_name(name):
            yield f'op "*{compiled}_*" == {count}', "launches of a kernel that Inductor generated"
            yield from _fusion(sorted(cpu_does(name))) if on_cpu else ()
        elif re.fullmatch(r"\w+::[\w.]+", name):
            yield f"{name} == {count}", "number of calls of this op"
