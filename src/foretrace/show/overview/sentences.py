"""The first screen of a trace in words: verdict, what to do, notes.

This is the only author: terminal, Markdown, HTML and notebooks show these lines. Names in them are
as the trace wrote them; renderers escape them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from foretrace.analyze.steering import FIX, IGNORED, RULE
from foretrace.base.errors import first_line
from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.schema.documents.look import FixEntry, IgnoredEntry, Look, TraceEntry
from foretrace.show.overview.measured_step import (
    FIRST_USE,
    HARDLY,
    TRIAGE,
    MeasuredStep,
    captured,
    title_of,
)
from foretrace.show.overview.memory_line import memory_lines
from foretrace.show.overview.on_cpu import cpu_lines
from foretrace.show.overview.page import Line
from foretrace.show.overview.serving import serving_lines
from foretrace.show.overview.trust import MILD, trust_lines
from foretrace.show.overview.verdict import label

UNKNOWN_SHARE = 0.1  # of GPU time in kernels without a known cost that is worth a word
ROLES = 4  # that one phrase can name
NAMED = 4  # rules or fixes that the line of ignored ones names
REASON = 80  # characters of the user's reason that it shows
CAPTURES = ("capture_mismatch", "capture_left_out")
SLOW = ("record_shapes", "with_stack", "profile_memory")  # what slows the host most


def lines(look: Look, step: MeasuredStep | None) -> list[Line]:
    """The lines of the first screen above and below its table."""
    verdict, trust = look.verdict, [*trust_lines(look.trust)]
    mild = {each.cause for each in look.trust} <= MILD
    return [
        *([] if mild else trust),
        Line(label(verdict.bound, step, on_cpu=bool(look.cpu)), verdict.text),
        *cpu_lines(look.cpu),
        *serving_lines(look),
        *([Line("DO FIRST", verdict.first)] if verdict.first else _nothing(look, step)),
        *([Line("THEN", verdict.then)] if verdict.then else []),
        *([Line("COMPILE", answer)] if (answer := _compiling(look)) else []),
        *memory_lines(look.memory),
        *(trust if mild else []),
        *ignored_lines(look.ignored),
    ]


def ignored_lines(rows: Sequence[IgnoredEntry]) -> Iterator[Line]:
    """What the user wants not to hear of, counted, so that nothing is hidden without a word."""
    mine = [row for row in rows if row.how == IGNORED]
    if mine:
        yield Line("IGNORED", _counted(mine, lambda row: row.name + _because(row)))
    rest = [row for row in rows if row.how != IGNORED]
    if rest:
        yield Line("NOT SELECTED", _counted(rest, lambda row: row.name))


def _counted(rows: Sequence[IgnoredEntry], words: Callable[[IgnoredEntry], str]) -> str:
    """`2 findings: sync_stalls (an eval loop), gemm_choice; 1 fix: cuda_graph`."""
    parts = []
    for kind, what in ((RULE, ("finding", "findings")), (FIX, ("fix", "fixes"))):
        mine = [row for row in rows if row.kind == kind]
        count = sum(row.findings for row in mine) if kind == RULE else len(mine)
        told = [words(row) for row in mine[:NAMED]] + ["…"] * (len(mine) > NAMED)
        parts += [f"{plural(count, *what)}: {', '.join(told)}"] if mine else []
    return "; ".join(parts)


def _because(row: IgnoredEntry) -> str:
    return f" ({first_line(row.reason, REASON)})" if row.reason else ""


def _compiling(look: Look) -> str:
    """Whether compiling helps: the predicted steps, or what a rule says of a step that is not
    replayed.
    """
    answer, step = title_of(look.findings, TRIAGE).removeprefix("Compiling "), look.step
    if title_of(look.findings, FIRST_USE):
        return ""
    if step is None or not answer or answer.startswith(HARDLY):
        return answer
    ways = _ways(look.fixes)
    if not ways and any(row.name in _WAYS for row in look.ignored):
        return ""  # what compiling brings is known, and not wanted
    if not ways and "record_shapes" not in look.options:
        return answer
    if not ways:
        return "no gain predicted: the compiled step takes the host as long, and little fuses"
    return f"{time_text(step.ns)} to {ways}"


_WAYS = {"compile": "torch.compile", "cuda_graph": 'mode="reduce-overhead"'}


def _ways(found: Sequence[FixEntry]) -> str:
    """The step in both modes of torch.compile; the one with CUDA graphs fuses kernels as well."""
    named = [each for name in _WAYS for each in found if each.name == name]
    same = len({each.first for each in named}) == 1
    told = [
        f"about {time_text(each.compiled_ns or each.ns)} with {_WAYS[each.name]}"
        + ("" if same else _without(each))
        for each in named
    ]
    return ", ".join(told) + (_without(named[0], ";") if same else "")


def _without(fix: FixEntry, mark: str = "") -> str:
    return f"{mark} without {fix.first}" if fix.first else ""


def notes(look: Look, step: MeasuredStep | None) -> str:
    """One line of facts below the table: `MFU 0.3% of wall · 3 findings below 1% of the step`."""
    found = sum(row.state == "found" for row in look.findings)
    count = [plural(found, "finding")] if found else []
    return " · ".join([*_rates(look), *count, *_captures(look), *_unknown(look, step)])


def headline(look: Look) -> str:
    """`NVIDIA H200, rank 0 · 3 steps · profiled, record_shapes on: host times inflated`."""
    trace = look.trace
    rank = f", rank {trace.rank}" if trace.rank is not None else ""
    parts = [f"{'CPU' if look.cpu else device_text(trace)}{rank}"]
    parts += [plural(trace.steps, "step")] if trace.steps else []
    return " · ".join([*parts, _recorded(look)])


def _recorded(look: Look) -> str:
    """How far host times can be trusted; the options named are those that slow the host."""
    if not look.host_times_profiled:
        return "wall times from the run record"
    said = {"with_stack"} if any(each.cause == "stacks" for each in look.trust) else set()
    slow = [option for option in SLOW if option in look.options and option not in said]
    options = f", {', '.join(slow)} on" if slow else ""
    return f"profiled{options}: host times inflated"


def device_text(trace: TraceEntry) -> str:
    """`NVIDIA H200 (sm90)`."""
    arch = f" ({trace.arch})" if trace.arch else ""
    return f"{trace.device or 'GPU not named'}{arch}"


def roles_text(roles: Mapping[str, float], most: int = ROLES) -> str:
    """`3 GEMMs, 2 pointwise`, the commonest first; many roles are cut short."""
    ordered = sorted(roles.items(), key=lambda item: (-item[1], item[0]))
    named = {"gemm": ("GEMM", "GEMMs"), "gemv": ("GEMV", "GEMVs"), "copy": ("copy", "copies")}
    words = [
        plural(count, *named[role]) if role in named else f"{count_text(count)} {role}"
        for role, count in ordered[:most]
    ]
    rest = sum(count for _, count in ordered[most:])
    return ", ".join([*words, f"{plural(rest, 'other')}"] if rest else words)


def _nothing(look: Look, step: MeasuredStep | None) -> Iterator[Line]:
    """No fix: said only where the rules could look."""
    if step is None:
        return
    if captured(step):
        yield Line("DO FIRST", "record the replays: a capture runs nothing on the GPU")
        return
    skipped = sum(row.state == "skipped" for row in look.findings)
    lacking = f"; {plural(skipped, 'rule')} lacked data (--findings)" if skipped else ""
    other = "other " if any(row.kind == FIX for row in look.ignored) else ""
    yield Line("DO FIRST", f"no {other}known fix shortens this by 3%{lacking}")


def _rates(look: Look) -> Iterator[str]:
    for name, wall, gpu in (("MFU", look.mfu, look.mfu_gpu), ("MBU", look.mbu, look.mbu_gpu)):
        shares = ((wall, "wall"), (gpu, "GPU time"))
        words = [f"{percent_text(share)} of {of}" for share, of in shares if share is not None]
        if words:
            yield f"{name} {', '.join(words)}"


def _captures(look: Look) -> Iterator[str]:
    """That captures were of no use; `--findings` has each file."""
    said = {note.code: note.text for note in look.ledger.notes if note.code in CAPTURES}
    text = said.get(CAPTURES[0]) or said.get(CAPTURES[1])
    if text:
        yield f"captures: {text} (--findings)"


def _unknown(look: Look, step: MeasuredStep | None) -> Iterator[str]:
    """What the trace lacks: data of rules, launches, costs that the verdict does not name."""
    details = [row.detail for row in look.findings if row.state == "skipped" and not look.cpu]
    words = sorted({re.split("[:,]", detail.removeprefix("needs "))[0] for detail in details})
    found = [row.evidence for row in look.findings if row.rule == "unlinked_work"]
    unlinked = sum(evidence.get("count", 0) for evidence in found)
    if unlinked:
        words.append(f"the launch of {plural(unlinked, 'GPU operation')}")
    share = step.kind_share("unknown") if step and step.bound in ("host", "sync") else 0.0
    if share >= UNKNOWN_SHARE:
        words.append(f"the cost of kernels with {percent_text(share)} of GPU time")
    if words:
        yield f"not in the trace: {', '.join(words)}"
