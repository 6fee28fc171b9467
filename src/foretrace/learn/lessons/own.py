"""A lesson on any trace: questions that it decides, built from what is in it.

`OwnGpu` and `own_cpu` propose steps, the most telling first. A step is asked where the trace
decides it: one choice holds and every other one misses, or one number holds. Nothing is asked of a
trace that is incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import PurePath

import numpy as np

from foretrace.analyze.guess.evidence import GpuOperation
from foretrace.analyze.guess.kinds.gaps import longest_gap
from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.learn.lessons.own_cpu import COUNTED, OwnSteps, cpu_steps, pattern, said, texts
from foretrace.learn.lessons.scene import MISSING, Scene, filled
from foretrace.learn.lessons.sitting import Sitting, right_answer
from foretrace.model.reach import average
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne

CHOICES = 3
SHORT_NS = 2_000  # a shorter gap is that between any two kernels


def gpu_steps(scene: Scene) -> Iterator[LessonStep]:
    """Steps that may be asked, the most telling first."""
    found = OwnGpu(scene)
    if not found.kernels:
        return
    yield found.counted()
    yield from found.share()
    yield from found.bound()
    yield from found.gap()
    yield from found.launcher()
    yield from found.role()
    yield from found.waits()
    yield from found.copies()
    yield found.length()
    yield found.distinct()


class OwnGpu(OwnSteps):
    """The GPU work of the call that is drawn, and the steps that are about it."""

    kind = "gpu"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        gpu = scene.trace.gpu
        rows = scene.call.rows
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
        evidence = self.scene.evidence
        found = [evidence.operation(row) for row in self.kernels]
        return next(each for each in found if each.name == name)

    @cached_property
    def selector(self) -> str:
        """How a prediction names it; empty where it cannot, or where another has its short name."""
        operations = self.scene.evidence.operations
        if len({each.name for each in operations if each.label == self.top.label}) > 1:
            return ""
        names = {each.name for each in operations}
        spelled = pattern(self.top.name, [*names])
        return f'kernel "{spelled}"' if spelled else ""

    @cached_property
    def row(self) -> str:
        """The row of the profiler's table for the top kernel."""
        return self._row_of(self.top)

    def _row_of(self, operation: GpuOperation) -> str:
        """The op that launches it, else itself; a capture's ops are not in the trace."""
        op = operation.chain[-1] if operation.chain else ""
        return op if average(self.scene.trace, op).calls else operation.name

    @property
    def roles(self) -> list[str]:
        """The three known roles with the most time."""
        return [role for role in self._summed("role") if role in texts()["roles"]][:CHOICES]

    def counted(self) -> LessonStep:
        """How many kernels there are."""
        listed = ", ".join(f"{{{role}}} {role}" for role in self.roles) or "of many kinds"
        many = len(self.kernels) > COUNTED
        return self._step("counted", self.row, {"listed": listed}, in_ranges=many)

    def role(self) -> Iterator[LessonStep]:
        """Which kind of kernel takes the most time."""
        roles, named = self.roles, texts()["roles"]
        if len(roles) < 2:
            return
        choices = [
            PickChoice(
                named[role],
                tuple(f"{role} time > {other} time" for other in roles if other != role),
                f"They take {{{role} time}} of {{gpu time}}. Count time, not kernels.",
            )
            for role in sorted(roles)
        ]
        listed = ", ".join(f"{named[role]} {{{role} time}}" for role in roles)
        words = {"listed": listed, "count": str(len(roles)), "role": roles[0]}
        yield self._step("role", self.row, words, choices)

    def share(self) -> Iterator[LessonStep]:
        """How much of the time the top kernel takes."""
        if self.selector and len({*self._summed("name")}) > 1:
            words = {"kernel": said(self.top.label), "selector": self.selector}
            yield self._step("share", self.row, words)

    def launcher(self) -> Iterator[LessonStep]:
        """Which op launches the top kernel."""
        evidence = self.scene.evidence
        inner = Counter(
            operation.chain[-1]
            for row in self.kernels
            if (operation := evidence.operation(row)).chain
        )
        others = [op for op, _ in inner.most_common() if op not in self.top.chain and '"' not in op]
        if not (self.selector and self.top.chain and others) or "{" in "".join(others[:2]):
            return
        choices = [
            PickChoice(
                said(op),
                (f'every {self.selector} comes from "{op}"',),
                f"{said(op)} launches other kernels in {self.where}.",
            )
            for op in sorted([self.top.chain[-1], *others[: CHOICES - 1]])
        ]
        words = {"kernel": said(self.top.label), "selector": self.selector, "role": self.top.role}
        words["chain"] = " > ".join(map(said, self.top.chain[-2:]))
        yield self._step("launcher", self.row, words, choices)

    def bound(self) -> Iterator[LessonStep]:
        """What bounds the time, else how busy the GPU is; nobody knows that where work waited in
        the queue for something else.
        """
        bounds = texts()["bounds"]
        known = [name for name in bounds if self.scene.marked(f"bound is {name}").verdict == "hit"]
        if known:
            names = dict.fromkeys(["host", "compute", "memory", *known])
            yield self._step("bound", self.row, choices=_named("bound is", bounds, names))
            return
        gap = longest_gap(self.scene.call)
        if not (gap and gap.cause in ("queue", "unknown")):
            yield self._step("busy", self.row)

    def gap(self) -> Iterator[LessonStep]:
        """What the longest gap on the GPU is."""
        causes = texts()["causes"]
        marks = {name: self.scene.marked(f"longest gap is {name}") for name in causes}
        right = next((name for name, mark in marks.items() if mark.verdict == "hit"), "")
        gap = longest_gap(self.scene.call)
        if not (right and gap) or not self.scene.trace.host.is_op.any():
            return  # what the host did is told by its ops
        if gap.end_ns - gap.start_ns < SHORT_NS:
            return
        names = sorted({right, "launch", "host", "sync"})
        ended = self.scene.evidence.operation(gap.then) if gap.then >= 0 else self.top
        words = {
            "length": marks[right].measured.partition(",")[0],
            "ended": said(ended.label),
            "after": texts()["after"][right],
        }
        choices = _named("longest gap is", causes, names)
        yield self._step("gap", self._row_of(ended), words, choices)

    def length(self) -> LessonStep:
        """How long a kernel is."""
        return self._step("length", self.row, {"median": self._median("kernel")})

    def waits(self) -> Iterator[LessonStep]:
        """How often the host waits for the GPU."""
        if self.scene.scope.kind == "trace":
            return  # every recording ends with one
        events = self.scene.call.events(self.scene.trace.host.is_wait).tolist()
        row = self.scene.evidence.name(events[0]) if events else self.row
        yield self._step("waits", row, {"shown": "sync" if events else "kernels"})

    def copies(self) -> Iterator[LessonStep]:
        """How many memcpys there are."""
        gpu, rows = self.scene.trace.gpu, self.scene.call.rows
        if 0 < int(np.count_nonzero(gpu.is_memcpy[rows])) <= COUNTED:
            yield self._step("copies", self.row)

    def distinct(self) -> LessonStep:
        """How many different kernels there are."""
        return self._step("distinct", self.row)


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
    steps = tuple(islice(_decided(scene), most))
    if len(steps) < FEW:
        raise UsageError(f"too few questions can be marked on this trace: {NOTHING}")
    lesson = Lesson(0, "own", f"Your trace, {plural(len(steps), 'question')}", steps, _read(trace))
    return Sitting(lesson, lambda _: trace, {(trace.path, ""): scene})


def _decided(scene: Scene) -> Iterator[LessonStep]:
    for step in cpu_steps(scene) if scene.on_cpu else gpu_steps(scene):
        if _is_decided(step, scene) and _is_told(step, scene):
            yield step


def _is_decided(step: LessonStep, scene: Scene) -> bool:
    ask = step.ask
    if isinstance(ask, HowMany):
        return bool(right_answer(step, scene))
    if not isinstance(ask, PickOne):
        return False
    held = 0
    for choice in ask.choices:
        words = {scene.marked(text).verdict for text in choice.holds}
        if "miss" not in words and "unknown" in words:
            return False
        held += words == {"hit"}
    return held == 1


def _is_told(step: LessonStep, scene: Scene) -> bool:
    """Whether the trace has every fact of the texts."""
    choices = step.ask.choices if isinstance(step.ask, PickOne) else ()
    texts = (step.ask.text, step.why, step.hint, *(choice.misread for choice in choices))
    return not any(MISSING in filled(text, scene) for text in texts)


def _read(trace: Trace) -> tuple[str, ...]:
    name = PurePath(typed_as(trace.path)).name
    more = "--kernels" if len(trace.gpu) else "--ops"
    return (
        f"foretrace look {name} {more}: every row behind these answers",
        "foretrace docs guess: predict anything else, for `foretrace check`",
    )
