"""A regression net: the predictions that hold on a trace now and must hold on every further run of
the same program.

Only what does not jitter is written: counts that were the same in every call, fields of kernels,
fusions, the order of launches; never a time, an idle share or a bound. Names that a compiler
numbers are written without the number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from foretrace import families
from foretrace.errors import TraceError
from foretrace.families import VIEWS
from foretrace.guess.cpu import cpu_kernels, runs_on_cpu
from foretrace.guess.files import dump
from foretrace.guess.marking import mark, parse
from foretrace.guess.scope import Scope
from foretrace.guess.things import op_words
from foretrace.guess.view import View
from foretrace.guess.work import Case, Work
from foretrace.model.trace import Trace
from foretrace.schema import compiled

SCHEMA = 1
PLACES = 20  # regions; a trace with more has names made by a program, not by a person
ORDERED = 12  # kernels; a longer list is not read by anyone
# Rows that torch.compile adds; their names hold counters and hashes.
_COMPILER = (*compiled.ROWS, "##", "Optimizer.", "DataLoader")
_NUMBERED = re.compile(r"(?:graph_\d+_)?((?:cpp|triton_\w{3})_fused\w*?)(?:_\d+)?")


def holding(trace: Trace) -> list[tuple[str, str]]:
    """Predictions that hold on the trace, each with its reason. `TraceError` when it is not whole."""
    if trace.ledger.gap:
        raise TraceError(
            "E_NOT_WHOLE",
            trace.path,
            f"{trace.ledger.gap}, so nothing that it holds now can be relied on",
            hint="record it again, or raise the limit that cut it",
        )
    work = Work(trace)
    return [
        (text, reason)
        for text, reason in _candidates(work)
        if mark(parse(text), work).verdict == "hit"
    ]


def write(trace: Trace) -> str:
    """The guess file of a trace."""
    where = trace.about.device or "no GPU"
    head = [
        f"Predictions that hold on {PurePath(trace.path).name} ({where}); nothing here depends on "
        "time.",
        "Check them on another run with: foretrace check TRACE --guesses THIS_FILE",
    ]
    return dump(holding(trace), head)


def document(trace: Trace) -> dict[str, Any]:
    """The same for other programs."""
    return {
        "schema": SCHEMA,
        "guesses": [{"text": text, "reason": reason} for text, reason in holding(trace)],
    }


def _candidates(work: Work) -> Iterator[tuple[str, str]]:
    for scope in _places(work):
        views = scope.views(work)
        held = (
            f"in each of {len(views)} {scope.unit}"
            if len(views) > 1
            else "when this file was written"
        )
        prefix = f"{scope.text}: " if scope.text else ""
        for text, reason in [*_gpu(work, views), *_host(work, views)]:
            yield prefix + text, f"{reason}, {held}"


def _places(work: Work) -> list[Scope]:
    groups = work.trace.spans.region_groups()
    names = [
        name
        for name in groups
        if name.isprintable()
        and '"' not in name
        and not name.startswith(_COMPILER)
        and "::" not in name
    ]
    if names:
        return [Scope("region", name) for name in names[:PLACES]]
    return [Scope("steps")] if work.trace.has("steps") else [Scope()]


def _gpu(work: Work, views: list[View]) -> Iterator[tuple[str, str]]:
    if not work.trace.has("gpu"):
        return
    cases = [[work.case(row) for row in view.rows.tolist()] for view in views]
    kernels = [[case for case in found if case.kind == "kernel"] for found in cases]
    yield f"kernels == {len(kernels[0])}", "as many kernels"
    for role in sorted({case.role for found in kernels for case in found}):
        yield (
            f"{role} == {sum(case.role == role for case in kernels[0])}",
            f"as many of role {role}",
        )
    for kind in ("memcpy", "memset"):
        yield f"{kind} == {sum(case.kind == kind for case in cases[0])}", f"as many {kind}s"
    yield f"sync == {len(views[0].events(work.trace.host.is_wait))}", "as many waits of the host"
    yield from _products(kernels)
    yield from _fusions(kernels)
    if 1 < len(kernels[0]) <= ORDERED:
        yield ", ".join(_word(case) for case in kernels[0]), "launched in this order"


def _products(kernels: list[list[Case]]) -> Iterator[tuple[str, str]]:
    products = [case for found in kernels for case in found if case.role == "gemm"]
    if not products:
        return
    yield (
        "distinct gemm kernels == "
        f"{len({case.name for case in kernels[0] if case.role == 'gemm'})}",
        "as many names",
    )
    yield f"every gemm has family {products[0].ident.family}", "one family of names"
    for field, keys in (("layout", ("layout",)), ("dtype", ("dtype_in", "dtype"))):
        values = {
            next((case.ident.get(key) for key in keys if case.ident.get(key)), None)
            for case in products
        }
        if len(values) == 1 and isinstance(value := values.pop(), str):
            yield f"every gemm has {field} {value}", f"one {field}"


def _fusions(kernels: list[list[Case]]) -> Iterator[tuple[str, str]]:
    for case in {id(case): case for found in kernels for case in found}.values():
        yield from _fusion(case.ident.get("ops") or ())


def _fusion(ops: Sequence[str]) -> Iterator[tuple[str, str]]:
    named = [op for op in dict.fromkeys(ops) if op in op_words() and op not in VIEWS]
    if len(named) > 1:
        yield f"{' and '.join(named)} are fused", "one kernel does all of it"


def _word(case: Case) -> str:
    """The most telling word for a kernel in a list: its op where it does exactly one, else its
    role.
    """
    words = sorted(word for word in case.does & op_words())
    return words[0] if case.role == "pointwise" and len(words) == 1 else case.role


def _host(work: Work, views: list[View]) -> Iterator[tuple[str, str]]:
    host = work.trace.host
    on_cpu = runs_on_cpu(work)
    if on_cpu:
        yield f"cpu kernels == {len(cpu_kernels(views[0]))}", "as many ops that compute"
    counts = Counter(
        host.names[number]
        for number in host.name[views[0].events(host.is_op & host.lasting)].tolist()
    )
    for name, count in sorted(counts.items()):
        compiled = _NUMBERED.fullmatch(name)
        if compiled:
            yield f'op "*{compiled[1]}_*" == {count}', "a kernel that Inductor made"
            yield from _fusion(families.decode(name).get("ops") or ()) if on_cpu else ()
        elif re.fullmatch(r"\w+::[\w.]+", name):
            yield f"{name} == {count}", "as many calls of this op"
