"""A lesson on any trace: questions that it decides, built from what is in it.

`OwnGpu` and `own_cpu` propose steps, the most telling first. A step is asked where the trace
decides it: one choice holds and every other one misses, or one number holds. Nothing is asked of a
trace that is incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import PurePath

import numpy as np

from foretrace.analyze.guess.evidence import GpuOperation
from foretrace.analyze.guess.kinds.gaps import longest_gap
from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.learn.lessons.own_cpu import OwnSteps, cpu_steps, pattern, ranges, said
from foretrace.learn.lessons.scene import MISSING, Scene, filled
from foretrace.learn.lessons.sitting import Sitting, right_answer
from foretrace.model.reach import average
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickChoice, PickOne

COUNTED = 30  # kernels; nobody counts more
CHOICES = 3
ROLES = {
    "gemm": "matmuls",
    "gemv": "matrix-vector products",
    "conv": "convolutions",
    "attention": "attention",
    "optimizer": "the optimizer",
    "pointwise": "pointwise kernels",
    "reduction": "reductions",
    "normalization": "norms",
    "softmax": "softmax",
    "copy": "kernels that copy",
    "scatter_gather": "indexing",
    "comms": "collectives",
    "random": "random numbers",
    "sort": "sorting",
}
# what a bound means, and what a reader who names it would then see
BOUNDS = {
    "host": ("the host: launches", "the GPU would be idle for more than half of the time"),
    "compute": ("compute: arithmetic", "kernels that arithmetic limits would take most of it"),
    "memory": ("memory: reads and writes", "kernels that memory limits would take most of it"),
    "sync": ("waits of the host", "the host would wait while the GPU has nothing to do"),
    "copy": ("memcpys and memsets", "they would take most of the GPU time"),
    "comms": ("collectives", "they would take most of the GPU time"),
    "mixed": ("no single limit", "no kind of work would take 60% of the GPU time"),
}
CAUSES = {
    "launch": ("the host's ops and launches", "ops and calls of the host would fill most of it"),
    "host": ("the host between ops: Python, data", "no op would fill it, and no wait begin it"),
    "sync": ("a wait of the host", "the host would be in a wait when the GPU runs dry"),
    "copy": ("a copy of the host", "a copy would fill most of it"),
    "queue": ("the queue: the work is launched", "the next work would be launched before it"),
}

SLOWED = "The profiler slows the host: alone it is shorter."
AFTER = {
    **dict.fromkeys(CAUSES, SLOWED),
    "sync": "The wait kept the host from launching ahead.",
    "queue": "It waits for another stream, or for work outside the recording.",
}

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

    def counted(self) -> LessonStep:
        """How many kernels there are."""
        text = f"How many kernels does {self.where} launch?"
        roles = [role for role in self._summed("role") if role in ROLES][:3]
        listed = ", ".join(f"{{{role}}} {role}" for role in roles)
        why = f"{{kernels}} kernels take {{kernel time}}: {listed or 'of many kinds'}."
        hint = "Count the ops that compute, in every layer. Views launch nothing."
        if len(self.kernels) <= COUNTED:
            return self._step(HowMany(text, "kernels == {}"), why, hint, "kernels", self.row)
        ask = ranges(
            self.scene,
            text,
            "kernels CMP EDGE",
            ("100", "1,000", "10,000"),
            "There are more: every op that computes launches one, in every layer.",
            "There are fewer: views, wrappers and allocations launch none.",
        )
        return self._step(ask, why, hint, "kernels", self.row)

    def role(self) -> Iterator[LessonStep]:
        """Which kind of kernel takes the most time."""
        roles = [role for role in self._summed("role") if role in ROLES][:CHOICES]
        if len(roles) < 2:
            return
        choices = tuple(
            PickChoice(
                ROLES[role],
                tuple(f"{role} time > {other} time" for other in roles if other != role),
                f"They take {{{role} time}} of {{gpu time}}. Count time, not kernels.",
            )
            for role in sorted(roles)
        )
        ask = PickOne(f"Which kind of kernel takes the most GPU time in {self.where}?", choices)
        listed = ", ".join(f"{ROLES[role]} {{{role} time}}" for role in roles)
        why = f"Of {{gpu time}}: {listed}."
        yield self._step(
            ask, why, f"The kernels are of {len(roles)} kinds or more.", roles[0], self.row
        )

    def share(self) -> Iterator[LessonStep]:
        """How much of the time the top kernel takes."""
        if not self.selector or len({*self._summed("name")}) < 2:
            return
        ask = ranges(
            self.scene,
            f"No kernel takes more time than {said(self.top.label)}. How much of all kernel time?",
            f"{self.selector} time CMP EDGE of kernel time",
            ("10%", "30%", "60%"),
            f"It takes more: {{{self.selector} time}} in all.",
            f"It takes less: {{{self.selector} time}} in all. The others add up.",
        )
        why = (
            f"It is {{{self.selector}}} of {{kernels}} kernels, {{{self.selector} time}} of "
            "{kernel time}. No more than that can be saved there."
        )
        hint = "A program of many small ops spreads its time; one large matmul holds it together."
        yield self._step(ask, why, hint, self.selector, self.row)

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
        right = self.top.chain[-1]
        choices = tuple(
            PickChoice(
                said(op),
                (f'every {self.selector} comes from "{op}"',),
                f"{said(op)} launches other kernels in {self.where}.",
            )
            for op in sorted([right, *others[: CHOICES - 1]])
        )
        chain = " > ".join(map(said, self.top.chain[-2:]))
        why = f"{chain} calls {{call of {self.selector}}}, which launches it."
        hint = f"Its role is {self.top.role}."
        ask = PickOne(f"Which op launches {said(self.top.label)}?", choices)
        yield self._step(ask, why, hint, self.selector, self.row)

    def busy(self) -> Iterator[LessonStep]:
        """How busy the GPU is; nobody knows where work waited in the queue for something else."""
        gap = longest_gap(self.scene.call)
        if gap and gap.cause in ("queue", "unknown"):
            return
        ask = ranges(
            self.scene,
            f"For how much of the time of {self.where} is the GPU busy?",
            "gpu busy CMP EDGE",
            ("50%", "90%"),
            "It is busier: {gpu busy}.",
            "It is idle {gpu idle} of the time.",
        )
        why = "The GPU is busy {gpu busy} of the time, {gpu time} in all; {kernels} kernels are "
        why += "launched. Times on the host include profiler overhead."
        yield self._step(ask, why, "Is a kernel longer than a launch?", "kernels", self.row)

    def bound(self) -> Iterator[LessonStep]:
        """What bounds the time, else how busy the GPU is."""
        known = [name for name in BOUNDS if self.scene.marked(f"bound is {name}").verdict == "hit"]
        if not known:
            yield from self.busy()
            return
        names = list(dict.fromkeys(["host", "compute", "memory", *known]))
        choices = tuple(
            PickChoice(BOUNDS[name][0], (f"bound is {name}",), f"Then {BOUNDS[name][1]}.")
            for name in names
        )
        ask = PickOne(f"What bounds {self.where}?", choices)
        why = "The GPU is busy {gpu busy} of the time and works {gpu time}. `foretrace look` says "
        why += "what to do about it."
        hint = "First ask whether the GPU is busy, then with what."
        yield self._step(ask, why, hint, "kernels", self.row)

    def gap(self) -> Iterator[LessonStep]:
        """What the longest gap on the GPU is."""
        marks = {name: self.scene.marked(f"longest gap is {name}") for name in CAUSES}
        right = next((name for name, mark in marks.items() if mark.verdict == "hit"), "")
        gap = longest_gap(self.scene.call)
        if not (right and gap) or not self.scene.trace.host.is_op.any():
            return  # what the host did is told by its ops
        if gap.end_ns - gap.start_ns < SHORT_NS:
            return
        names = sorted(dict.fromkeys([right, "launch", "host", "sync"]))
        choices = tuple(
            PickChoice(CAUSES[name][0], (f"longest gap is {name}",), f"Then {CAUSES[name][1]}.")
            for name in names
        )
        ask = PickOne(f"What causes the GPU's longest gap in {self.where}?", choices)
        hint = "What does the host do between two launches?"
        ended = self.scene.evidence.operation(gap.then) if gap.then >= 0 else self.top
        length = marks[right].measured.partition(",")[0]
        why = f"It lasts {length}, until {said(ended.label)} runs. {AFTER[right]}"
        yield self._step(ask, why, hint, "gap", self._row_of(ended))

    def length(self) -> LessonStep:
        """How long a kernel is."""
        edges = ("5 us", "20 us", "100 us")
        ask = ranges(
            self.scene,
            f"How long is a kernel of {self.where}, as a median?",
            "median kernel time CMP EDGE",
            edges,
            "They are longer. Launching takes a few us, so the host can stay ahead of them.",
            "They are shorter: most kernels of a program are small, and a few hold its time.",
        )
        shown = self.scene.marked("median kernel time > 0 us").measured.partition(" (")[0]
        why = f"The median is {shown}; {{kernels}} kernels take {{kernel time}}. A kernel that is "
        why += "shorter than its launch leaves the GPU waiting."
        return self._step(ask, why, "Most ops of a model are pointwise.", "kernels", self.row)

    def waits(self) -> Iterator[LessonStep]:
        """How often the host waits for the GPU."""
        if self.scene.scope.kind == "trace":
            return  # every recording ends with one
        host = self.scene.trace.host
        events = self.scene.call.events(host.is_wait).tolist()
        row = self.scene.evidence.name(events[0]) if events else self.row
        choices = (
            PickChoice("never", ("sync == 0",), "It does: {name of sync}."),
            PickChoice("once", ("sync == 1",), "It waits {sync} times."),
            PickChoice("several times", ("sync > 1",), "It waits {sync} times."),
        )
        ask = PickOne(f"How often does the host wait for the GPU in {self.where}?", choices)
        why = "{sync} waits in one call. A wait in the loop keeps the host from launching ahead."
        hint = ".item(), .cpu(), print of a tensor and synchronize() wait."
        yield self._step(ask, why, hint, "sync" if events else "kernels", row)

    def copies(self) -> Iterator[LessonStep]:
        """How many memcpys there are."""
        gpu, rows = self.scene.trace.gpu, self.scene.call.rows
        if 0 < int(np.count_nonzero(gpu.is_memcpy[rows])) <= COUNTED:
            ask = HowMany(f"How many memcpys are in {self.where}?", "memcpy == {}")
            why = "{memcpy} memcpys take {memcpy time}: {name of memcpy}."
            hint = "Inputs are copied to the GPU, and some ops copy within it."
            yield self._step(ask, why, hint, "memcpy", self.row)

    def distinct(self) -> LessonStep:
        """How many different kernels there are."""
        ask = ranges(
            self.scene,
            f"How many different kernels, by name, does {self.where} run?",
            "distinct kernels CMP EDGE",
            ("5", "20", "80"),
            "There are more: one for each op, type and shape of loop.",
            "There are fewer: layers repeat, and so do their kernels.",
        )
        why = "{distinct kernels} names for {kernels} kernels."
        return self._step(ask, why, "Layers repeat.", "kernels", self.row)


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
