"""Where a prediction looks: the whole trace, every step, one step, every call of a region, every
call of an op.

`in mlp_fwd: kernels == 5` and `kernels == 5 in mlp_fwd` are the same; so are `per step: …` and
`… per step`. A prediction about a region or about steps holds when it holds for every one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretrace.guess.tokens import Token, nearest, wrong
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import Work
from foretrace.model.host import step_number
from foretrace.model.spans import Span

_FILLERS = ("every", "each", "region", "call", "of", "the")
_RESERVED = (*_FILLERS, "step", "steps", "in", "per")


@dataclass(frozen=True, slots=True)
class Scope:
    """`kind` is trace, steps, step, region or op; `name` a name with `*`, or the number of a step."""

    kind: str = "trace"
    name: str = ""

    @property
    def text(self) -> str:
        """As it is written before a colon."""
        if self.kind == "trace":
            return ""
        if self.kind == "steps":
            return "per step"
        plain = (
            re.fullmatch(r"[\w*.-]+(?:::[\w*.-]+)*", self.name)
            and self.name.lower() not in _RESERVED
        )
        return (
            f"in step {self.name}"
            if self.kind == "step"
            else f"in {self.name}"
            if plain
            else f'in "{self.name}"'
        )

    @property
    def unit(self) -> str:
        """What there are several of."""
        return {"steps": "steps", "step": "steps", "trace": "traces"}.get(
            self.kind, f"calls of {self.name}"
        )

    @property
    def open_ended(self) -> bool:
        """Whether it means every call there is, and a trace that is not whole may lack some."""
        return self.kind not in ("trace", "step")

    def views(self, work: Work) -> list[View]:
        """The stretches to look at; `Unknown` when the trace has none of them."""
        if self.kind == "trace":
            return [View(work, "the whole trace", work.by_launch[0])]
        if self.kind in ("steps", "step"):
            return _steps(work, self)
        return _ops(work, self.name) if "::" in self.name else _regions(work, self.name)


def split_scope(text: str, tokens: Sequence[Token]) -> tuple[Scope, list[Token]]:
    """The scope of a prediction and the words that are left."""
    first = tokens[0].key
    if first in ("in", "per"):
        colon = next((place for place, token in enumerate(tokens) if token.key == ":"), None)
        if colon is None:
            raise wrong(text, tokens, len(tokens), [":"])
        return _scope(text, tokens, 1, colon), list(tokens[colon + 1 :])
    last = max(
        (place for place, token in enumerate(tokens) if token.key in ("in", "per")), default=0
    )
    if last and last + 1 < len(tokens):
        return _scope(text, tokens, last + 1, len(tokens)), list(tokens[:last])
    return Scope(), list(tokens)


def _scope(text: str, tokens: Sequence[Token], begin: int, end: int) -> Scope:
    while begin < end and tokens[begin].key in _FILLERS:
        begin += 1
    words = tokens[begin:end]
    if not words:
        raise wrong(text, tokens, begin, ["step", "the name of a region"])
    if words[0].key in ("step", "steps") and len(words) == 1:
        return Scope("steps")
    if words[0].key == "step" and len(words) == 2 and re.fullmatch(r"[0-9]{1,9}", words[1].key):
        return Scope("step", str(int(words[1].key)))
    if len(words) > 1 or words[0].key == ":":
        raise wrong(text, tokens, begin + min(1, len(words) - 1), [":"])
    return Scope("op" if "::" in words[0].text else "region", words[0].text)


def named(pattern: str, name: str) -> bool:
    """Whether a name fits one with `*` in it."""
    if "*" not in pattern:
        return pattern == name
    return (
        re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), name, re.DOTALL)
        is not None
    )


def _view(work: Work, span: Span, label: str) -> View:
    return View(work, label, span.work, span.start_ns, span.end_ns)


def _steps(work: Work, scope: Scope) -> list[View]:
    steps = work.trace.spans.steps
    if not steps:
        raise Unknown(
            "this trace has no steps: record with a schedule and call step(), or name a region"
        )
    wanted = [
        span for span in steps if scope.kind == "steps" or step_number(span.name) == int(scope.name)
    ]
    if not wanted:
        numbers = ", ".join(str(step_number(span.name)) for span in steps[:12])
        raise Unknown(f"no step {scope.name} in this trace; there are {numbers}")
    return [_view(work, span, span.name) for span in wanted]


def _regions(work: Work, name: str) -> list[View]:
    groups = work.trace.spans.region_groups()
    spans = [span for group, calls in groups.items() if named(name, group) for span in calls]
    if not spans:
        raise Unknown(_no_region(name, [group for group in groups if not group.startswith("##")]))
    return [
        _view(work, span, f"call {number} of {span.name}") for number, span in enumerate(spans, 1)
    ]


def _no_region(name: str, there: list[str]) -> str:
    if not there:
        return f"no region {name!r}: this trace has no record_function ranges"
    near = nearest(name, there)
    return f"no region {name!r} in this trace; there are {', '.join(there[:12])}" + (
        f" (did you mean {near}?)" if near else ""
    )


def _ops(work: Work, name: str) -> list[View]:
    host = work.trace.host
    events = np.flatnonzero(host.is_op & host.lasting & host.named(lambda text: named(name, text)))
    if not len(events):
        raise Unknown(
            f"no op {name} in this trace" + ("" if host.is_op.any() else ": it holds no host ops")
        )
    return op_views(work, name, events.tolist())


def op_views(work: Work, name: str, events: list[int]) -> list[View]:
    """One view per call of an op: what its own thread did and launched between its begin and its
    end.
    """
    host, gpu = work.trace.host, work.trace.gpu
    rows, asked = work.by_launch
    views = []
    for number, event in enumerate(events, 1):
        begin, end, track = int(host.start[event]), int(host.end[event]), int(host.track[event])
        first, last = np.searchsorted(asked, (begin, end))
        held = rows[first:last]
        held = held[(gpu.launch[held] >= 0) & (host.track[gpu.launch[held]] == track)]
        views.append(View(work, f"call {number} of {name}", held, begin, end, track))
    return views
