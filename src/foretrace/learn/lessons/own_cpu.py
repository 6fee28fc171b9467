"""Questions on a trace of a CPU, and what questions on any trace share: places, names, ranges."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from foretrace.analyze.guess.selection import working_ops
from foretrace.analyze.guess.tokens import LONGEST
from foretrace.base.units import plural
from foretrace.learn.lessons.scene import Scene
from foretrace.model.cpu_ops import bare
from foretrace.model.reach import is_view
from foretrace.names.families import decode
from foretrace.schema.lesson import HowMany, LessonStep, PickChoice, PickOne, Program

NAMES = 6  # that a line lists
SHORT = 24  # characters of a name that a question repeats
_BRACES = str.maketrans("{}", "()")  # braces in a lesson's text hold facts


class OwnSteps:
    """Steps about the call of a trace that is drawn: where they look, and how one is made."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.where, self.program = scene, place_text(scene), program(scene)

    def _step(self, ask: PickOne | HowMany, why: str, hint: str, show: str, row: str) -> LessonStep:
        return LessonStep(self.program, ask, why, hint, show, row)


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
        text, row = f"How many ops of {self.where} compute?", self.times.most_common(1)[0][0]
        why = "{cpu kernels} of {ops} compute. The others are views, allocations and wrappers."
        hint = "Views and wrappers, such as aten::linear over aten::addmm, compute nothing."
        if len(self.working) <= COUNTED:
            return self._step(HowMany(text, "cpu kernels == {}"), why, hint, "cpu kernels", row)
        ask = ranges(
            self.scene,
            text,
            "cpu kernels CMP EDGE",
            ("100", "1,000", "10,000"),
            "There are more: {cpu kernels} of {ops}.",
            "There are fewer: most of the {ops} ops change metadata, or call others.",
        )
        return self._step(ask, why, hint, "cpu kernels", row)

    def top(self) -> Iterator[LessonStep]:
        """Which op takes the most time."""
        ops = self.spelled[:CHOICES]
        if len(ops) < 2:
            return
        choices = tuple(
            PickChoice(
                op,
                tuple(f"{op} time > {other} time" for other in ops if other != op),
                f"It takes {{{op} time}} in {{{op}}} calls.",
            )
            for op in sorted(ops)
        )
        listed = ", ".join(f"{op} {{{op} time}}" for op in ops)
        ask = PickOne(f"Which of these takes the most time in {self.where}?", choices)
        hint = "Products do the most arithmetic; small tensors leave the rest to dispatch."
        yield self._step(ask, f"{listed}. Times include profiler overhead.", hint, ops[0], ops[0])

    def share(self) -> Iterator[LessonStep]:
        """How much of the call the top op takes."""
        if not self.spelled or self.scene.scope.kind == "trace":
            return
        op = self.spelled[0]
        ask = ranges(
            self.scene,
            f"{op} computes for longer than any other op. How much of {self.where} is that?",
            f"{op} time CMP EDGE of cpu time",
            ("25%", "50%", "90%"),
            f"It takes more: {{{op} time}} of {{cpu time}}.",
            f"It takes less: {{{op} time}} of {{cpu time}}. The rest is other ops, dispatch and "
            "Python.",
        )
        why = f"{{{op} time}} of {{cpu time}}, in {{{op}}} calls. Times include profiler overhead."
        yield self._step(ask, why, "Think of the size of its inputs.", op, op)

    def views(self) -> Iterator[LessonStep]:
        """How many calls of the commonest view there are."""
        known = (op for op, _ in self.calls.most_common() if is_view(op) and _plain(op))
        views = [op for op in known if "resolve_" not in op]
        if not views or self.calls[views[0]] > COUNTED or self.calls[views[0]] < 2:
            return
        op = views[0]
        ask = HowMany(f"How often does {self.where} call {op}?", f"{op} == {{}}")
        why = f"{op} changes metadata alone: shape and strides, not elements. {{{op}}} calls take "
        why += f"{{{op} time}}, all of it dispatch and profiler."
        yield self._step(ask, why, "Wrappers call it: a linear layer takes views.", op, op)

    def wrapped(self) -> Iterator[LessonStep]:
        """How many different ops the commonest wrapper runs."""
        for op in WRAPPERS:
            if self.calls[op]:
                ask = HowMany(
                    f"How many different ops does one {op} run, itself included?",
                    f"in {op}: distinct ops == {{}}",
                )
                why = f"{op} is a wrapper: it calls others until one computes. {{{op}}} calls take "
                why += f"{{{op} time}}."
                yield self._step(ask, why, "Views, then the op that computes.", op, op)

    def copies(self) -> Iterator[LessonStep]:
        """How many copies there are, and what makes them."""
        count = self.calls["aten::copy_"]
        if 0 < count <= COUNTED:
            ask = HowMany(
                f"How many copies (aten::copy_) are in {self.where}?", "aten::copy_ == {}"
            )
            bias = "" if not self._of_a_bias() else " aten::addmm copies its bias into the output."
            why = f"{{aten::copy_}} copies take {{aten::copy_ time}}.{bias}"
            hint = "A clone, a change of type or layout, and the bias of aten::addmm are copies."
            yield self._step(ask, why, hint, "aten::copy_", "aten::copy_")

    def _of_a_bias(self) -> bool:
        return self.scene.marked("some aten::copy_ comes from aten::addmm").verdict == "hit"

    def generated(self) -> Iterator[LessonStep]:
        """How many C++ kernels Inductor generated."""
        names = [op for op in self.times if decode(op).family == "inductor_cpp"]
        if names:
            ask = HowMany(
                f"How many C++ kernels of Inductor run in {self.where}?", 'op "*cpp_*" == {}'
            )
            why = 'They take {op "*cpp_*" time} in all, such as '
            why += f"{said(names[0])}: its name lists the ops that it fuses."
            hint = "A loop for each group of pointwise ops that lie between products."
            yield self._step(ask, why, hint, 'op "*cpp_*"', names[0])

    def distinct(self) -> LessonStep:
        """How many different ops there are."""
        text = f"How many different ops does {self.where} run, views and wrappers included?"
        row = self.calls.most_common(1)[0][0]
        why = f"{{distinct ops}} names in {{ops}} calls; {said(row)} is called most often."
        if len(self.calls) <= COUNTED:
            ask: PickOne | HowMany = HowMany(text, "distinct ops == {}")
        else:
            low, high = "There are more: {distinct ops}.", "There are fewer: {distinct ops}."
            ask = ranges(self.scene, text, "distinct ops CMP EDGE", ("50", "100", "200"), low, high)
        return self._step(ask, why, "Layers repeat, and so do their ops.", "ops", row)

    def within(self) -> Iterator[LessonStep]:
        """Where no op computes, ranges say what the time is spent on: how often, and how much."""
        names = [name for name, _ in self.inner.most_common(1) if '"' not in name]
        if self.working or not names or "{" in names[0]:
            return
        what, row = f'region "{names[0]}"', names[0]
        ask: PickOne | HowMany = HowMany(
            f"How many ranges {said(names[0])} are in {self.where}?", f"{what} == {{}}"
        )
        why = f"{{{what}}} of them take {{{what} time}}."
        hint = "No op computes here: the program's own ranges say what it does."
        yield self._step(ask, why, hint, what, row)
        text = f"How long is one {said(names[0])} of {self.where}, as a median?"
        edges = ("100 us", "1 ms", "10 ms", "100 ms")
        low, high = "They are longer.", "They are shorter."
        ask = ranges(self.scene, text, f"median {what} time CMP EDGE", edges, low, high)
        shown = self.scene.marked(f"median {what} time > 0 us").measured.partition(" (")[0]
        yield self._step(ask, f"The median is {shown}.", hint, what, row)


def _plain(op: str) -> bool:
    """Whether a prediction can spell the op without quotes."""
    return "::" in op and bare(op).isidentifier()
