"""A lesson on any trace: questions that it decides, built from what is in it.

`OwnGpu` and `OwnCpu` propose steps, the most telling first. A step is asked where the trace
decides it: one choice holds and every other one misses, or one number holds. Nothing is asked of a
trace that is incomplete.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import islice, pairwise
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from foretrace.base.errors import UsageError
from foretrace.base.units import plural, time_text
from foretrace.check.evidence import GpuOperation
from foretrace.check.language import Unknown
from foretrace.check.quantities import Gap, longest_gap
from foretrace.learn.lessons.documents import (
    HowMany,
    Lesson,
    LessonStep,
    PickChoice,
    PickOne,
    Program,
)
from foretrace.learn.lessons.scene import MISSING, Scene, filled
from foretrace.learn.lessons.sitting import Sitting, right_answer
from foretrace.read.recordings import typed_as
from foretrace.trace.cpu_ops import bare
from foretrace.trace.recording import average, is_view
from foretrace.trace.trace import Trace
from foretrace.work.families import decode

NAMES = 6  # that a line lists
SHORT = 24  # characters of a name that a question repeats
SPELLED = 500  # characters of a name that a prediction repeats
_BRACES = str.maketrans("{}", "()")  # braces in a lesson's text hold facts
_WORD = re.compile(r"<(\w+)>")


@cache
def texts() -> dict[str, Any]:
    """The questions, and what words in them mean."""
    return tomllib.loads(Path(__file__).with_name("own.toml").read_text(encoding="utf-8"))


class OwnSteps:
    """Steps about the call of a trace that is drawn; `own.toml` has their texts, by `kind`."""

    kind = ""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.program, name = scene, program(scene), scene.scope.name
        call = f"one call of {said(name)}" if len(name) <= SHORT else "one call"
        places = {"steps": "one step", "step": f"step {name}", "region": call}
        self.where = places.get(scene.unit, "the whole recording")

    def _step(
        self,
        name: str,
        row: str,
        words: Mapping[str, str] | None = None,
        choices: Sequence[PickChoice] = (),
        *,
        many: bool = False,
    ) -> LessonStep:
        """The step of that name: with these choices, else a number, or ranges where it has no other
        way or so many are there that nobody counts them.
        """
        known = {"where": self.where, **(words or {})}
        text = {key: _worded(value, known) for key, value in texts()[self.kind][name].items()}
        if choices or "choices" in text:
            given = text.get("choices", ())
            own = (PickChoice(text, (holds,), misread) for text, holds, misread in given)
            ask: PickOne | HowMany = PickOne(text["ask"], (*choices, *own))
        elif many or "holds" not in text:
            ask = _ranges(self.scene, text)
        else:
            ask = HowMany(text["ask"], text["holds"])
        return LessonStep(self.program, ask, text["why"], text["hint"], text["show"], row)

    def _median(self, what: str) -> str:
        """The median time of something, as it is measured."""
        return self.scene.value(f"median({what})").text


def _worded(text: Any, words: Mapping[str, str]) -> Any:
    """The text, or each of a list, with `<where>` and the like replaced."""
    if isinstance(text, list):
        return [_worded(each, words) for each in text]
    return _WORD.sub(lambda found: words[found[1]], text)


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
    lines = [units.get(scene.unit, whole)]
    lines += textwrap.wrap(f"ranges: {', '.join([*shown, *more])}", 76) if shown else []
    return Program(trace.path, "\n".join(lines))


def pattern(name: str, others: Collection[str]) -> str:
    """How a selector spells a name that may hold anything; empty where that is not possible."""
    plain = next(
        (at for at, char in enumerate(name) if char in '"{}*' or not char.isprintable()), 0
    )
    cut = min(plain or len(name), SPELLED)
    if cut == len(name):
        return name
    alone = sum(other.startswith(name[:cut]) for other in others) == 1
    return f"{name[:cut]}*" if cut and alone else ""


def _ranges(scene: Scene, text: Mapping[str, Any]) -> PickOne:
    """Ranges between edges, one of which holds; `states` has `CMP` and `EDGE` in a prediction.

    `low` is what a range below the right one overlooks, `high` one above it.
    """
    edges = text["edges"]
    least, less = (
        [text["states"].replace("CMP", sign).replace("EDGE", edge) for edge in edges]
        for sign in (">=", "<")
    )
    found: list[tuple[str, tuple[str, ...]]] = [(f"below {edges[0]}", (less[0],))]
    for at, (low_edge, high_edge) in enumerate(pairwise(edges)):
        found.append((f"{low_edge} to {high_edge}", (least[at], less[at + 1])))
    found.append((f"{edges[-1]} or more", (least[-1],)))
    held = [all(scene.marked(each).verdict == "hit" for each in holds) for _, holds in found]
    right = held.index(True) if True in held else len(held)
    choices = (
        PickChoice(name, holds, text["low"] if at < right else text["high"])
        for at, (name, holds) in enumerate(found)
    )
    return PickOne(text["ask"], tuple(choices))


def _most_time(named: Mapping[str, str], time: str, misread: str) -> list[PickChoice]:
    """Which of these takes the most `time`; `misread` has `NAME`."""
    return [
        PickChoice(
            named[name],
            tuple(f"{time}({name}) > {time}({other})" for other in named if other != name),
            misread.replace("NAME", name),
        )
        for name in sorted(named)
    ]


COUNTED = 30
OPS = 4  # that a question offers; of GPU work it offers three
WRAPPERS = (
    "aten::linear",
    "aten::matmul",
    "aten::conv2d",
    "aten::scaled_dot_product_attention",
    "aten::softmax",
)


class OwnCpu(OwnSteps):
    """The ops of the call that is drawn, and the steps that are about it."""

    kind = "cpu"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        host, call, name = scene.trace.host, scene.call, scene.evidence.name
        self.working = call.events(scene.evidence.computing).tolist()
        self.times, self.inner = Counter[str](), Counter[str]()
        for event in self.working:
            self.times[name(event)] += int(host.length[event])
        self.calls = Counter(map(name, call.events(host.is_op & host.lasting).tolist()))
        for event in call.events(host.is_region).tolist():
            self.inner[name(event)] += int(host.length[event])
        # names that a prediction can spell without quotes
        self.spelled = [op for op, _ in self.times.most_common() if _plain(op)]

    def steps(self) -> Iterator[LessonStep]:
        """About the ops that compute; where none does, about ranges."""
        if not self.working:
            yield from self._within()
            return
        row, many = self.times.most_common(1)[0][0], len(self.working) > COUNTED
        yield self._step("computing", row, many=many)
        if len(ops := self.spelled[:OPS]) > 1:
            misread = "It takes {host.time(NAME)}, calls: {calls(NAME)}."
            choices = _most_time({op: op for op in ops}, "host.time", misread)
            listed = ", ".join(f"{op} {{host.time({op})}}" for op in ops)
            yield self._step("top", ops[0], {"listed": listed, "op": ops[0]}, choices)
        if ops and self.scene.unit != "trace":
            yield self._step("share", ops[0], {"op": ops[0]})
        yield from self._calls()
        row, many = self.calls.most_common(1)[0][0], len(self.calls) > COUNTED
        yield self._step("distinct", row, {"most": said(row)}, many=many)

    def _calls(self) -> Iterator[LessonStep]:
        """About ops that are called often: views, wrappers, copies, and what Inductor generated."""
        known = (op for op, _ in self.calls.most_common() if is_view(op) and _plain(op))
        view = next((op for op in known if "resolve_" not in op), "")
        if 2 <= self.calls[view] <= COUNTED:
            yield self._step("views", view, {"op": view})
        for op in WRAPPERS:
            if self.calls[op]:
                yield self._step("wrapped", op, {"op": op})
        if 0 < self.calls["aten::copy_"] <= COUNTED:
            copy = self.scene.marked("in aten::addmm: calls(aten::copy_) > 0")
            of_a_bias = " aten::addmm copies its bias into the output."
            bias = of_a_bias if copy.verdict == "hit" else ""
            yield self._step("copies", "aten::copy_", {"bias": bias})
        names = [op for op in self.times if decode(op).family == "inductor_cpp"]
        if names:
            yield self._step("generated", names[0], {"first": said(names[0])})

    def _within(self) -> Iterator[LessonStep]:
        """How often the range with the most time is there, and how long it is."""
        names = [name for name, _ in self.inner.most_common(1) if '"' not in name]
        if not names or "{" in names[0]:
            return
        what = f'"{names[0]}"'
        words = {
            "range": said(names[0]),
            "what": what,
            "median": self._median(f"host.time({what})"),
        }
        yield self._step("within", names[0], words)
        yield self._step("range_length", names[0], words)


def _plain(op: str) -> bool:
    """Whether a selector can spell the op without quotes."""
    return "::" in op and bare(op).isidentifier()


CHOICES = 3
_SPELLED = {"copy": "copy kernel"}  # `copy` alone is a memcpy
SHORT_NS = 2_000  # a shorter gap is that between any two kernels


class OwnGpu(OwnSteps):
    """The GPU work of the call that is drawn, and the steps that are about it."""

    kind = "gpu"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        gpu, rows = scene.trace.gpu, scene.call.rows
        self.kernels = rows[gpu.is_kernel[rows] & gpu.usable[rows]].tolist()

    def _summed(self, key: str) -> list[str]:
        """Values of a field of the kernels by GPU time, the most first."""
        times, length = Counter[str](), self.scene.trace.gpu.length
        for row in self.kernels:
            times[getattr(self.scene.evidence.operation(row), key)] += int(length[row])
        return [name for name, _ in times.most_common()]

    @cached_property
    def top(self) -> GpuOperation:
        """The kernel name with the most time."""
        name = self._summed("name")[0]
        found = map(self.scene.evidence.operation, self.kernels)
        return next(each for each in found if each.name == name)

    @cached_property
    def selector(self) -> str:
        """How a prediction names it; empty where it cannot, or where another has its short name."""
        operations = self.scene.evidence.operations
        if len({each.name for each in operations if each.label == self.top.label}) > 1:
            return ""
        spelled = pattern(self.top.name, {each.name for each in operations})
        return f'"{spelled}"' if spelled else ""

    @cached_property
    def gap(self) -> Gap | None:
        """The longest gap of the call; None where the GPU is never idle."""
        with suppress(Unknown):
            return longest_gap(self.scene.call)
        return None

    @cached_property
    def row(self) -> str:
        """The row of the profiler's table for the top kernel."""
        return self._row_of(self.top)

    def _row_of(self, operation: GpuOperation) -> str:
        """The op that launches it, else itself; a capture's ops are not in the trace."""
        op = operation.chain[-1] if operation.chain else ""
        return op if average(self.scene.trace, op).calls else operation.name

    def steps(self) -> Iterator[LessonStep]:
        """About kernels, what bounds the call and what it waits for."""
        if not self.kernels:
            return
        named = texts()["roles"]
        roles = {
            _SPELLED.get(role, role): named[role] for role in self._summed("role") if role in named
        }
        roles = dict(islice(roles.items(), CHOICES))
        listed = (
            ", ".join(f"{{count({role})}} {role.removesuffix(' kernel')}" for role in roles)
            or "of many kinds"
        )
        many = len(self.kernels) > COUNTED
        yield self._step("counted", self.row, {"listed": listed}, many=many)
        if self.selector and len({*self._summed("name")}) > 1:
            words = {"kernel": said(self.top.label), "selector": self.selector}
            yield self._step("share", self.row, words)
        yield from self._bound()
        yield from self._gap()
        yield from self._launcher()
        if len(roles) > 1:
            misread = "They take {time(NAME)} of {gpu.time}. Count time, not kernels."
            listed = ", ".join(f"{roles[role]} {{time({role})}}" for role in roles)
            words = {"listed": listed, "count": str(len(roles)), "role": next(iter(roles))}
            yield self._step("role", self.row, words, _most_time(roles, "time", misread))
        yield from self._waits()
        with suppress(Unknown):  # of launches without a GPU event no time is known
            yield self._step("length", self.row, {"median": self._median("time(kernel)")})
        yield self._step("distinct", self.row)

    def _launcher(self) -> Iterator[LessonStep]:
        """Which op launches the top kernel."""
        operations = map(self.scene.evidence.operation, self.kernels)
        inner = Counter(each.chain[-1] for each in operations if each.chain)
        others = [op for op, _ in inner.most_common() if op not in self.top.chain and '"' not in op]
        if not (self.selector and self.top.chain and others) or "{" in "".join(others[:2]):
            return
        choices = [
            PickChoice(
                said(op),
                (f'caller({self.selector}) == "{op}"',),
                f"{said(op)} launches other kernels in {self.where}.",
            )
            for op in sorted([self.top.chain[-1], *others[: CHOICES - 1]])
        ]
        words = {"kernel": said(self.top.label), "selector": self.selector, "role": self.top.role}
        words["chain"] = " > ".join(map(said, self.top.chain[-2:]))
        yield self._step("launcher", self.row, words, choices)

    def _bound(self) -> Iterator[LessonStep]:
        """What bounds the time, else how busy the GPU is; nobody knows that where work waited in
        the queue for something else.
        """
        bounds = texts()["bounds"]
        known = [name for name in bounds if self.scene.marked(f"bound == {name}").verdict == "hit"]
        if known:
            names = dict.fromkeys(["host", "compute", "memory", *known])
            yield self._step("bound", self.row, choices=_named("bound ==", bounds, names))
            return
        gap = self.gap
        if not (gap and gap.cause in ("queue", "unknown")):
            yield self._step("busy", self.row)

    def _gap(self) -> Iterator[LessonStep]:
        """What the longest gap on the GPU is."""
        causes, gap = texts()["causes"], self.gap
        if not gap or gap.cause not in causes or gap.length_ns < SHORT_NS:
            return
        if not self.scene.trace.host.is_op.any():
            return  # what the host did is told by its ops
        names = sorted({gap.cause, "launch", "host", "sync"})
        ended = self.scene.evidence.operation(gap.then) if gap.then >= 0 else self.top
        words = {
            "length": time_text(gap.length_ns),
            "ended": said(ended.label),
            "after": texts()["after"][gap.cause],
        }
        choices = _named("gap.cause ==", causes, names)
        yield self._step("gap", self._row_of(ended), words, choices)

    def _waits(self) -> Iterator[LessonStep]:
        """How often the host waits for the GPU, and how many memcpys there are."""
        scene, gpu = self.scene, self.scene.trace.gpu
        if scene.unit != "trace":  # every recording ends with a wait
            events = scene.call.events(scene.trace.host.is_wait).tolist()
            names = list(dict.fromkeys(map(scene.evidence.name, events)))
            words = {"shown": "waits" if events else "kernels", "names": said(", ".join(names))}
            yield self._step("waits", names[0] if names else self.row, words)
        if 0 < int(np.count_nonzero(gpu.is_memcpy[scene.call.rows])) <= COUNTED:
            yield self._step("copies", self.row)


def _named(says: str, known: Mapping[str, Sequence[str]], names: Iterable[str]) -> list[PickChoice]:
    """A choice for each name: what it means, and what a reader who names it would see."""
    return [
        PickChoice(known[name][0], (f"{says} {name}",), f"Then {known[name][1]}.") for name in names
    ]


MOST = 4  # questions: a transcript has at most 80 lines
FEW = 2  # a lesson of one question is none
NOTHING = "it has no GPU operation with a time, and no op that computes on a CPU"


def own_sitting(trace: Trace, most: int = MOST) -> Sitting:
    """A sitting on one trace; `UsageError` where it decides too little."""
    if trace.ledger.gap:
        raise UsageError(f"no question can be marked on this trace: {trace.ledger.gap}")
    scene = Scene(trace)
    own: OwnCpu | OwnGpu = OwnCpu(scene) if scene.on_cpu else OwnGpu(scene)
    steps = tuple(islice((step for step in own.steps() if _is_decided(step, scene)), most))
    if len(steps) < FEW:
        raise UsageError(f"too few questions can be marked on this trace: {NOTHING}")
    name, more = PurePath(typed_as(trace.path)).name, "--kernels" if len(trace.gpu) else "--ops"
    read = (
        f"foretrace look {name} {more}: every row behind these answers",
        "foretrace docs check: predict anything else, for `foretrace check`",
    )
    lesson = Lesson(0, "own", f"Your trace, {plural(len(steps), 'question')}", steps, read)
    return Sitting(lesson, lambda _: trace, {(trace.path, ""): scene})


def _is_decided(step: LessonStep, scene: Scene) -> bool:
    """Whether the trace decides the question, and has every fact of its texts."""
    choices = step.ask.choices if isinstance(step.ask, PickOne) else ()
    held = int(not choices and bool(right_answer(step, scene)))
    for choice in choices:
        words = {scene.marked(text).verdict for text in choice.holds}
        if "miss" not in words and "unknown" in words:
            return False
        held += words == {"hit"}
    texts = (step.ask.text, step.why, step.hint, *(choice.misread for choice in choices))
    return held == 1 and not any(MISSING in filled(text, scene) for text in texts)
