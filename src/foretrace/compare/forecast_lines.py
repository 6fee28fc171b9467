"""A forecast beside what came, for people."""

from __future__ import annotations

from foretrace.base.terminal import Section, stem
from foretrace.base.units import DASH, range_text
from foretrace.check.documents import Forecast
from foretrace.compare.forecast import TEXT, asked
from foretrace.read.recordings import typed_as
from foretrace.trace.trace import Trace

_NAMES = {
    "kernels": "kernels",
    "bytes": "traffic*",
    "gpu_ns": "GPU busy",
    "step_ns": "step, no profiler",
}
_KNOWN = {
    "kernels": "kernels {} per step",
    "bytes": "{} moved by the kernels beside matmuls and attention",
    "gpu_ns": "GPU busy {}",
    "step_ns": "step {} without the profiler",
}
_BESIDE = "* memory traffic of the kernels beside matmuls and attention"
# why the replay of compiled code can be wrong: what it takes for granted
_MODEL = {
    "kernels": "makes one kernel of every group that can fuse, one for each reduction in it",
    "bytes": "counts each input and output of a fused group once, the least that must move",
    "gpu_ns": "gives a fused kernel 75% of the bandwidth",
    "step_ns": "gives compiled code a fixed host time for its call and each kernel",
}


def before(a: Trace, then: str) -> list[Section]:
    """What the reader may know of A, before the questions."""
    known = ", ".join(_KNOWN[each.name].format(TEXT[each.name](each.now)) for each in asked(a))
    about = [("A", f"{stem(a.path)}: {known}"), ("B", f"{then}: the same program after the change")]
    return [Section("", labelled=about)]


def forecast_page(found: Forecast) -> list[Section]:
    """A row for each quantity, then what the replay took for granted where it missed."""
    heads = [("A", stem(found.a)), ("B", f"{stem(found.b)}: {found.order or found.reason}")]
    rows, columns = list[list[str]](), ["", "A", "you", "", "replay", "", "B"]
    for each in found.entries:
        text, cells = TEXT[each.name], list[str]()
        for said in (each.you, each.replay):
            cells += [range_text(said.low, said.high, text), said.verdict] if said else [DASH, ""]
        rows.append([_NAMES[each.name], text(each.a), *cells, text(each.b)])
    beside = f"{_BESIDE}; " if any(each.name == "bytes" for each in found.entries) else ""
    sides = {
        "you": [each.you for each in found.entries if each.you],
        "the replay": [each.replay for each in found.entries if each.replay],
    }
    counts = [
        f"{who} {sum(each.verdict == 'hit' for each in told)} of {len(told)}"
        for who, told in sides.items()
        if told
    ]
    score = beside + (", ".join(counts) or "nobody said anything")
    table = Section("", head=columns, rows=rows, left=(0, 3, 5), after=score)
    wrong = [each.name for each in found.entries if each.replay and each.replay.verdict == "miss"]
    notes = [f"{_NAMES[name].rstrip('*')}: the replay {_MODEL[name]}" for name in wrong]
    notes = notes if found.fix == "compile" else []
    more = f"more: foretrace compare {typed_as(found.a)} {typed_as(found.b)} --kernels"
    return [Section("", labelled=heads), table, Section("", [*notes, more])]
