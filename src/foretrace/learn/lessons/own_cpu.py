"""Questions on a trace of a CPU: which ops compute, which change metadata alone, what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from foretrace.analyze.guess.selection import working_ops
from foretrace.learn.lessons.own_words import OwnSteps, ranges, said
from foretrace.learn.lessons.scene import Scene
from foretrace.model.cpu_ops import bare
from foretrace.model.reach import is_view
from foretrace.names.families import decode
from foretrace.schema.lesson import HowMany, LessonStep, PickChoice, PickOne

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
