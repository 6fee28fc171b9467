"""The predictions that hold on a trace now and must hold on every later run of the program.

Only what does not vary from run to run is written: counts that were the same in every call, fields
of kernels, fusions, the order of launches; never a time, an idle share or a bound. Names that a
compiler numbers are written without the number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from foretrace.base.errors import TraceError
from foretrace.check.compiled import graph_breaks, graphs, recompiles
from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.language import Scope
from foretrace.check.marking import Marker, mark
from foretrace.check.windows import Window, windows_of
from foretrace.trace.cpu_ops import cpu_does, own_regions
from foretrace.trace.trace import Trace
from foretrace.work.families import VIEWS

PLACES = 20  # regions; a trace with more has names made by a program, not by a person
LISTED = 12  # kernels of an order; nobody reads a longer list


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
    marker = Marker(evidence)
    return [pair for pair in _candidates(evidence) if mark(pair[0], marker).verdict == "hit"]


def _candidates(evidence: Evidence) -> Iterator[tuple[str, str]]:
    trace = evidence.trace
    if trace.compiler_run is not None:
        for name, fact in (
            ("graph_breaks", graph_breaks),
            ("recompiles", recompiles),
            ("graphs", graphs),
        ):
            text = name.replace("_", " ")
            yield (
                f"{name} == {int(fact(trace).low)}",
                f"number of {text}, by the compiler's records",
            )
    scopes = [Scope("region", name) for name in [*own_regions(trace)][:PLACES]]
    for scope in scopes or [Scope()]:
        windows = windows_of(scope, evidence)
        unit = f"calls of {scope.name}" if scope.kind else "steps"
        same = f"the same in each of {len(windows)} {unit}" if len(windows) > 1 else "as recorded"
        candidates = _on_cpu(windows[0]) if evidence.runs_on_cpu else _on_gpu(windows)
        for text, reason in [*candidates, *_ops(windows[0])]:
            yield f"{scope}{text}", f"{reason}, {same}"


def counted(window: Window) -> tuple[int | None, list[str]]:
    """How many kernels a window launches, or a CPU computes, and what each fused one does; None
    where neither is known.
    """
    evidence = window.evidence
    if evidence.trace.has("gpu"):
        works = map(evidence.operation, window.rows.tolist())
        every = [_proven(work) for work in works if work.kind == "kernel"]
    elif evidence.runs_on_cpu:
        names = [evidence.name(event) for event in window.events(evidence.computing).tolist()]
        every = [sorted(cpu_does(name)) if compiled_name(name) else [] for name in names]
    else:
        return None, []
    return len(every), [" and ".join(ops) for each in every if len(ops := _ops_of(each)) > 1]


def _proven(work: GpuOperation) -> list[str]:
    """The ops that a kernel's name lists and that it does."""
    return [op for op in work.ident.get("ops") or () if op in work.does]


def _on_gpu(windows: list[Window]) -> Iterator[tuple[str, str]]:
    evidence = windows[0].evidence
    if not evidence.trace.has("gpu"):
        return
    works = [[evidence.operation(row) for row in window.rows.tolist()] for window in windows]
    kernels = [[work for work in each if work.kind == "kernel"] for each in works]
    first = kernels[0]
    yield f"kernels == {len(first)}", "number of kernels"
    for role in sorted({work.role for each in kernels for work in each} - {"other"}):
        count = sum(work.role == role for work in first)
        yield f"count({role}) == {count}", f"number of {role} kernels"
    for kind in ("memcpy", "memset"):
        yield f"{kind}s == {sum(work.kind == kind for work in works[0])}", f"number of {kind}s"
    yield f"waits == {len(windows[0].events(evidence.trace.host.is_wait))}", "number of waits"
    matmuls = [work for each in kernels for work in each if work.role == "gemm"]
    if matmuls:
        names = {work.name for work in first if work.role == "gemm"}
        yield f"names(gemm) == {len(names)}", "number of different matmul kernels"
        yield f"family(gemm) == {matmuls[0].ident.family}", "kernel family of the matmuls"
        for field in ("layout", "dtype"):
            values = {work.ident.get(field) for work in matmuls}
            if len(values) == 1 and isinstance(value := values.pop(), str):
                yield f"{field}(gemm) == {value}", f"{field} of the matmuls"
    for work in {id(work): work for each in kernels for work in each}.values():
        yield from _fusion(_proven(work))
    if 1 < len(first) <= LISTED:
        yield f"order({', '.join(map(_word, first))})", "launch order"


def _on_cpu(window: Window) -> Iterator[tuple[str, str]]:
    evidence, host = window.evidence, window.evidence.trace.host
    computing = window.events(evidence.computing).tolist()
    yield f"kernels == {len(computing)}", "number of ops that compute"
    for event in computing:
        if compiled_name(host.names[host.name[event]]):
            yield from _fusion(sorted(cpu_does(host.names[host.name[event]])))


def _ops(window: Window) -> Iterator[tuple[str, str]]:
    host = window.evidence.trace.host
    numbers = host.name[window.events(host.is_op & host.lasting)].tolist()
    counts = Counter(host.names[number] for number in numbers)
    for name, count in sorted(counts.items()):
        if compiled := compiled_name(name):
            what = "launches of a kernel that Inductor generated"
            yield f'calls("*{compiled}_*") == {count}', what
        elif re.fullmatch(r"\w+::[\w.]+", name):
            yield f"calls({name}) == {count}", "number of calls of this op"


def _fusion(ops: Sequence[str]) -> Iterator[tuple[str, str]]:
    named = _ops_of(ops)
    if 1 < len(named) <= 6:
        yield f"fused({', '.join(named)})", "one kernel for these ops"


def _ops_of(ops: Sequence[str]) -> list[str]:
    """Those that a prediction can name, without views."""
    return [op for op in dict.fromkeys(ops) if re.fullmatch(r"[a-z_]+", op) and op not in VIEWS]


def _word(work: GpuOperation) -> str:
    """A word that chooses a kernel, and stays the same from build to build."""
    if compiled := compiled_name(work.name):
        return f'"{compiled}*"'
    does = sorted(op for op in work.does if re.fullmatch(r"[a-z_]+", op))
    return work.role if work.role != "pointwise" or len(does) != 1 else does[0]


_COMPILED = re.compile(
    r"(?:graph_\d{1,9}_)?((?:cpp|triton_[a-z]{3})_fused\w*?)(?:_\d{1,9})?(?:0d[\dcde]{0,200})?"
)


def compiled_name(name: str) -> str:
    """The name of a kernel that Inductor made, without its numbers; empty for any other."""
    match = _COMPILED.fullmatch(name)
    return match[1] if match else ""
