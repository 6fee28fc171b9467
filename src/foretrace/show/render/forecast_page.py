"""What a reader and the replay expect of the next trace, marked, for people."""

from __future__ import annotations

from foretrace.analyze.guess.forecast import TEXT, asked
from foretrace.base.units import DASH
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.documents.forecast import Forecast, ForecastEntry, MarkedForecast
from foretrace.show.render.terminal import Section, stem

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


def page(found: Forecast) -> list[Section]:
    """A row for each quantity, then what the replay took for granted where it missed."""
    heads = [("A", stem(found.a)), ("B", f"{stem(found.b)}: {found.order or found.reason}")]
    rows = [_row(each) for each in found.entries]
    columns = ["", "A", "you", "", "replay", "", "B"]
    beside = f"{_BESIDE}; " if any(each.name == "bytes" for each in found.entries) else ""
    score = beside + _score(found)
    table = Section("", head=columns, rows=rows, left=(0, 3, 5), after=score)
    wrong = [each.name for each in found.entries if each.replay and each.replay.verdict == "miss"]
    notes = [f"{_NAMES[name].rstrip('*')}: the replay {_MODEL[name]}" for name in wrong]
    notes = notes if found.fix == "compile" else []
    more = f"more: foretrace compare {typed_as(found.a)} {typed_as(found.b)} --kernels"
    return [Section("", labelled=heads), table, Section("", [*notes, more])]


def _row(entry: ForecastEntry) -> list[str]:
    text = TEXT[entry.name]
    said = [cell for each in (entry.you, entry.replay) for cell in _said(entry.name, each)]
    return [_NAMES[entry.name], text(entry.a), *said, text(entry.b)]


def _said(name: str, marked: MarkedForecast | None) -> tuple[str, str]:
    if marked is None:
        return DASH, ""
    low, high = TEXT[name](marked.low), TEXT[name](marked.high)
    number, _, unit = low.partition(" ")
    first = number if high.endswith(f" {unit}") else low
    return low if low == high else f"{first} to {high}", marked.verdict


def _score(found: Forecast) -> str:
    sides = {
        "you": [each.you for each in found.entries if each.you],
        "the replay": [each.replay for each in found.entries if each.replay],
    }
    counts = [
        f"{who} {sum(each.verdict == 'hit' for each in said)} of {len(said)}"
        for who, said in sides.items()
        if said
    ]
    return ", ".join(counts) or "nobody said anything"
