"""Questions on a trace of a CPU, and what questions on any trace share: places, names, ranges."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from foretrace.analyze.guess.selection import working_ops
from foretrace.analyze.guess.words import LONGEST
from foretrace.base.units import plural
from foretrace.learn.lessons.scene import Scene
from foretrace.model.cpu_ops import bare
from foretrace.model.reach import is_view
from foretrace.names.families import decode
from foretrace.schema.lesson import HowMany, LessonStep, PickChoice, PickOne, Program

NAMES = 6  # that a line lists
SHORT = 24  # characters of a name that a question repeats
_BRACES = str.maketrans("{}", "()")  # braces in a lesson's text hold facts
_WORD = re.compile(r"<(\w+)>")
_NO_WORDS: Mapping[str, str] = {}


@cache
def texts() -> dict[str, Any]:
    """The questions, and what words in them mean."""
    return tomllib.loads(Path(__file__).with_name("own.toml").read_text(encoding="utf-8"))


class OwnSteps:
    """Steps about the call of a trace that is drawn; `own.toml` has their texts, by `kind`."""

    kind = ""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.where, self.program = scene, place_text(scene), program(scene)

    def _step(
        self,
        name: str,
        row: str,
        words: Mapping[str, str] = _NO_WORDS,
        choices: Sequence[PickChoice] = (),
        *,
        in_ranges: bool = False,
    ) -> LessonStep:
        """The step of that name: with these choices, ranges where it has no other way or so many
        are there that nobody counts them, else a number.
        """
        said = {"where": self.where, **words}
        text = {key: _worded(value, said) for key, value in texts()[self.kind][name].items()}
        if choices or "choices" in text:
            given = text.get("choices", ())
            own = tuple(PickChoice(text, (holds,), misread) for text, holds, misread in given)
            ask: PickOne | HowMany = PickOne(text["ask"], own or tuple(choices))
        elif in_ranges or "holds" not in text:
            ask = ranges(self.scene, *(text[key] for key in _RANGE))
        else:
            ask = HowMany(text["ask"], text["holds"])
        return LessonStep(self.program, ask, text["why"], text["hint"], text["show"], row)

    def _median(self, what: str) -> str:
        """The median time of something, as it is measured."""
        return self.scene.marked(f"median {what} time > 0 us").measured.partition(" (")[0]


_RANGE = ("ask", "states", "edges", "low", "high")


def _worded(text: Any, words: Mapping[str, str]) -> Any:
    """The text, or each of a list, with `<where>` and the like replaced."""
    if isinstance(text, list):
        return [_worded(each, words) for each in text]
    return _WORD.sub(lambda found: words[found[1]], text)


def place_text(scene: Scene) -> str:
    """`one step`, `one call of mlp_fwd`, `the whole recording`."""
    name = scene.scope.name
    call = f"one call of {said(name)}" if len(name) <= SHORT else "one call"
    places = {"steps": "one step", "step": f"step {name}", "region": call}
    return places.get(scene.scope.kind, "the whole recording")


def said(name: str) -> str:
    """A name from the trace as a text of a lesson can have it."""
    return (name if len(name) <= 60 else f"{name[:59]}…").translate(_BRACES)


def program(scene: Scene) -> Program:
    """What can be said of a program before anything is predicted: its steps and ranges."""
    trace, calls = scene.trace, len(scene.calls)
    whole = "the whole recording: it has no steps, and no range holds most of the work"
    several = len(trace.spans.steps)
    units = {
        "steps": plural(calls, "step"),
        "step": f"step {scene.scope.name}, the one with the median GPU time of {several}",
        "region": f"{calls} x {said(scene.region)}",
    }
    known = [name for name in trace.spans.region_groups() if not name.startswith("##")]
    ranges = [name for name in known if name != scene.region]
    shown = [said(name) for name in ranges[:NAMES]]
    more = [f"{len(ranges) - NAMES} more"] if len(ranges) > NAMES else []
    lines = [units.get(scene.scope.kind, whole)]
    lines += textwrap.wrap(f"ranges: {', '.join([*shown, *more])}", 76) if shown else []
    return Program(trace.path, "\n".join(lines))


def pattern(name: str, others: Sequence[str]) -> str:
    """How a prediction spells a name that may hold anything; empty where that is not possible."""
    plain = next(
        (at for at, char in enumerate(name) if char in '"{}*' or not char.isprintable()), 0
    )
    cut = min(plain or len(name), LONGEST // 4)
    if cut == len(name):
        return name
    alone = sum(other.startswith(name[:cut]) for other in others) == 1
    return f"{name[:cut]}*" if cut and alone else ""


def ranges(
    scene: Scene, text: str, states: str, edges: Sequence[str], low: str, high: str
) -> PickOne:
    """Ranges between edges, one of which holds; `states` has `CMP` and `EDGE` in a prediction.

    `low` is what a range below the right one overlooks, `high` one above it.
    """
    least = [states.replace("CMP", ">=").replace("EDGE", edge) for edge in edges]
    less = [states.replace("CMP", "<").replace("EDGE", edge) for edge in edges]
    found: list[tuple[str, tuple[str, ...]]] = [(f"below {edges[0]}", (less[0],))]
    for at, (low_edge, high_edge) in enumerate(pairwise(edges)):
        found.append((f"{low_edge} to {high_edge}", (least[at], less[at + 1])))
    found.append((f"{edges[-1]} or more", (least[-1],)))
    held = [all(scene.marked(each).verdict == "hit" for each in holds) for _, holds in found]
    right = held.index(True) if True in held else len(held)
    return PickOne(
        text,
        tuple(
            PickChoice(name, holds, low if at < right else high)
            for at, (name, holds) in enumerate(found)
        ),
    )


COUNTED = 30
CHOICES = 4
WRAPPERS = (
    "aten::linear",
    "aten::matmul",
    "aten::conv2d",
    "aten::scaled_dot_product_attention",
    "aten::softmax",
)


def cpu_steps(scene: Scene) -> Iterator[LessonStep]:
    """Steps that may be asked, the most telling first."""
    found = OwnCpu(scene)
    yield from found.within()
    if found.working:
        yield found.computing()
        yield from found.top()
        yield from found.share()
        yield from found.views()
        yield from found.wrapped()
        yield from found.copies()
        yield from found.generated()
        yield found.distinct()


class OwnCpu(OwnSteps):
    """The ops of the call that is drawn, and the steps that are about it."""

    kind = "cpu"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        host, call = scene.trace.host, scene.call
        name = scene.evidence.name
        self.working = working_ops(call)
        self.times = Counter[str]()
        for event in self.working:
            self.times[name(event)] += int(host.length[event])
        events = call.events(host.is_op & host.lasting).tolist()
        self.calls = Counter(map(name, events))
        self.inner = Counter[str]()
        for event in call.events(host.is_region).tolist():
            self.inner[name(event)] += int(host.length[event])
        # names that a prediction can spell without quotes
        self.spelled = [op for op, _ in self.times.most_common() if _plain(op)]

    def computing(self) -> LessonStep:
        """How many ops compute."""
        row = self.times.most_common(1)[0][0]
        return self._step("computing", row, in_ranges=len(self.working) > COUNTED)

    def top(self) -> Iterator[LessonStep]:
        """Which op takes the most time."""
        ops = self.spelled[:CHOICES]
        if len(ops) < 2:
            return
        choices = [
            PickChoice(
                op,
                tuple(f"{op} time > {other} time" for other in ops if other != op),
                f"It takes {{{op} time}}, calls: {{{op}}}.",
            )
            for op in sorted(ops)
        ]
        listed = ", ".join(f"{op} {{{op} time}}" for op in ops)
        yield self._step("top", ops[0], {"listed": listed, "op": ops[0]}, choices)

    def share(self) -> Iterator[LessonStep]:
        """How much of the call the top op takes."""
        if self.spelled and self.scene.scope.kind != "trace":
            yield self._step("share", self.spelled[0], {"op": self.spelled[0]})

    def views(self) -> Iterator[LessonStep]:
        """How many calls of the commonest view there are."""
        known = (op for op, _ in self.calls.most_common() if is_view(op) and _plain(op))
        op = next((op for op in known if "resolve_" not in op), "")
        if 2 <= self.calls[op] <= COUNTED:
            yield self._step("views", op, {"op": op})

    def wrapped(self) -> Iterator[LessonStep]:
        """How many different ops the commonest wrapper runs."""
        for op in WRAPPERS:
            if self.calls[op]:
                yield self._step("wrapped", op, {"op": op})

    def copies(self) -> Iterator[LessonStep]:
        """How many copies there are, and what makes them."""
        if 0 < self.calls["aten::copy_"] <= COUNTED:
            of_a_bias = (
                self.scene.marked("some aten::copy_ comes from aten::addmm").verdict == "hit"
            )
            bias = " aten::addmm copies its bias into the output." if of_a_bias else ""
            yield self._step("copies", "aten::copy_", {"bias": bias})

    def generated(self) -> Iterator[LessonStep]:
        """How many C++ kernels Inductor generated."""
        names = [op for op in self.times if decode(op).family == "inductor_cpp"]
        if names:
            yield self._step("generated", names[0], {"first": said(names[0])})

    def distinct(self) -> LessonStep:
        """How many different ops there are."""
        row = self.calls.most_common(1)[0][0]
        return self._step("distinct", row, {"most": said(row)}, in_ranges=len(self.calls) > COUNTED)

    def within(self) -> Iterator[LessonStep]:
        """Where no op computes, ranges say what the time is spent on: how often, and how much."""
        names = [name for name, _ in self.inner.most_common(1) if '"' not in name]
        if self.working or not names or "{" in names[0]:
            return
        what = f'region "{names[0]}"'
        words = {"range": said(names[0]), "what": what, "median": self._median(what)}
        yield self._step("within", names[0], words)
        yield self._step("range_length", names[0], words)


def _plain(op: str) -> bool:
    """Whether a prediction can spell the op without quotes."""
    return "::" in op and bare(op).isidentifier()
