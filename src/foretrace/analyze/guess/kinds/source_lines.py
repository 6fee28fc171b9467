"""How many kernels come from a line of the user's code: `model.py:41`, or a whole file.

The compiler's records beside the trace say from which lines each compiled kernel comes: those whose
work it does, not those whose result it reads through a view. A fused kernel comes from several, and
a kernel of the backward from the line of its forward. A kernel that
eager code launched has no line. It leaves the answer open where the op that launched it is one that
compiled graphs have from that line, or where they have none from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.grammar import Slot
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison
from foretrace.analyze.guess.kinds.compiler import NO_RECORDS
from foretrace.analyze.guess.selection import Selection, label, select
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import ParseFailure, Selector, Token, text_at
from foretrace.base.patterns import regex
from foretrace.base.units import count_text
from foretrace.model.compiled.provenance import comes_from, line_ops
from foretrace.model.cpu_ops import bare

_LISTED = 3  # names in an answer; the evidence has the rest


class CodeLine(NamedTuple):
    """A line of a Python file, or the whole file."""

    file: str
    number: int | None = None


def measure(query: Query) -> Measurement:
    """Judge `kernels from model.py:41 == 1`, or `every pointwise comes from model.py:41`."""
    if query.windows[0].evidence.trace.compiler_run is None:
        raise Unknown(NO_RECORDS)
    return kinds.per_window(_every if "quantifier" in query.args else _count)(query)


def _count(window: Window, query: Query) -> Measurement:
    found = select(window, _selector(window, query.what))
    here, maybe = _divided(window, found, found.sure, query.args["line"])
    high = math.inf if found.lost or found.gap else len(here) + len(maybe) + len(found.maybe)
    verdict = query.compare.verdict(len(here), high, query.number)
    most = " or more" if math.isinf(high) else f" to {count_text(high)}"
    measured = count_text(len(here)) + ("" if len(here) == high else most)
    names = list(dict.fromkeys(label(window, found, item) for item in here))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    measured += f" ({', '.join(names[:_LISTED])}{more})" if names else ""
    lacking = "eager code launched some kernels, whose line is not recorded"
    unclear = found.lost or found.gap or found.maybe
    said = found.why(query.what) if unclear else lacking
    return kinds.from_selection(
        found, verdict, measured, said if verdict == "unknown" else "", here or found.sure
    )


def _every(window: Window, query: Query) -> Measurement:
    found = select(window, _selector(window, query.what))
    here, maybe = _divided(window, found, found.sure, query.args["line"])
    answers = [True if item in here else None if item in maybe else False for item in found.sure]
    verdict = kinds.judge_all(query.args["quantifier"], answers, found.unclear)
    measured = f"{count_text(len(here))} of {count_text(len(found.sure))}"
    lacking = "eager code launched some, whose line is not recorded" if found.sure else "none ran"
    wrong = [item for item in found.sure if item not in here]
    said = lacking if verdict == "unknown" else ""
    return kinds.from_selection(found, verdict, measured, said, wrong or here)


def _selector(window: Window, what: Selector) -> Selector:
    """On a CPU `kernels` are the ops that compute."""
    plain = replace(what, text="") == Selector("", "kernel")
    return Selector("cpu kernels", "cpu") if plain and window.evidence.runs_on_cpu else what


def _divided(
    window: Window, found: Selection, items: list[int], line: CodeLine
) -> tuple[list[int], list[int]]:
    """Those that come from the line, and those that may."""
    trace = window.evidence.trace
    run = trace.compiler_run
    ops = line_ops(run, line.file, line.number) if run else frozenset()
    here, maybe = [], []
    for item in items:
        launch = trace.compiled.get(int(trace.gpu.id[item]) if found.on_gpu else item)
        if launch is not None and launch.lines:
            here += [item] if comes_from(launch, line.file, line.number) else []
        elif not ops or ops & _caller(window, found, item):
            maybe.append(item)
    return here, maybe


def _caller(window: Window, found: Selection, item: int) -> frozenset[str]:
    """Every op around a kernel, in bare words."""
    origins = window.evidence.trace.origins
    event = int(origins.op[item]) if found.on_gpu else item
    chain = origins.host.op_chain(event) if event >= 0 else ()
    return frozenset(word for op in chain for word in (bare(op), bare(op).strip("_")))


_LINE = regex(r"(\S+\.py)(?::(\d{1,9}))?")


def _line(tokens: Sequence[Token], place: int) -> tuple[CodeLine, int]:
    found = _LINE.fullmatch(text_at(tokens, place))
    if found is None:
        raise ParseFailure(place, ["a line such as model.py:41"])
    return CodeLine(found[1], int(found[2]) if found[2] else None), place + 1


KIND = GuessKind(
    "source_lines",
    8,
    (
        "{what:selector} from {line:line} {compare:compare} {number:count}",
        "[uses|use] [{compare:phrase}] {number:count} {what:selector} from {line:line}",
        "[uses|use] no {what:selector} from {line:line}",
        "{quantifier:quantifier} {what:selector} comes|come from {line:line}",
    ),
    measure,
    expected=lambda args: comparison(args) or ("" if "quantifier" in args else "== 0"),
    records=True,
    slots={"line": Slot("a line of Python such as model.py:41, or a file such as model.py", _line)},
)
