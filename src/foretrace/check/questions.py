"""Questions to ask before looking: a few that this trace can decide, each answered by a prediction.

They are about the region with the most GPU operations, else the steps, else the whole trace; on a
CPU about the step. A question whose prediction would be unknown here is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from foretrace.base.errors import UsageError
from foretrace.check.evidence import Evidence
from foretrace.check.marking import mark
from foretrace.check.parsing import Guess, parse
from foretrace.check.windows import Scope, cpu_place
from foretrace.check.words import language, nearest, op_words
from foretrace.trace.cpu_ops import own_regions
from foretrace.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Question:
    """`text` is asked first, `lesson` is shown afterwards.

    `choices` maps an answer to a prediction; without them the answer is a whole number that goes
    into `template`.
    """

    text: str
    lesson: str
    template: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)

    def guess(self, answer: str) -> Guess:
        """The prediction that an answer makes; `UsageError` when the answer is not valid."""
        word, shown = answer.strip().lower(), repr(answer.strip())
        if self.choices:
            chosen = [choice for choice in self.choices if word and choice.startswith(word)]
            if word not in self.choices and len(chosen) != 1:
                near, options = nearest(word, self.choices), ", ".join(self.choices)
                hint = f" (did you mean {near}?)" if near else ""
                raise UsageError(f"{shown} is not an answer: enter {options}{hint}")
            return parse(self.choices[word if word in self.choices else chosen[0]], self.lesson)
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise UsageError(f"{shown} is not an answer: enter a whole number")
        return parse(self.template.format(int(word)), self.lesson)

    @property
    def trial(self) -> str:
        """A prediction of the kind this question makes, to see whether the trace can decide it."""
        return next(iter(self.choices.values())) if self.choices else self.template.format(0)


def questions(trace: Trace) -> list[Question]:
    """The questions that this trace can decide; none when it is incomplete."""
    if trace.ledger.gap:
        return []
    evidence = Evidence(trace)
    asked = _all(evidence, _place(evidence))
    return [one for one in asked if mark(parse(one.trial), evidence).verdict != "unknown"]


def _place(evidence: Evidence) -> Scope:
    if evidence.runs_on_cpu:  # the step, as `look` has it; a part of it decides little
        return cpu_place(evidence.trace)
    if sizes := own_regions(evidence.trace):
        return Scope("region", max(sizes, key=lambda name: sizes[name]))
    return Scope("steps" if evidence.trace.has("steps") else "trace")


def _all(evidence: Evidence, scope: Scope) -> Iterator[Question]:
    places = {"region": f"one call of {scope.name}", "steps": "one step"}
    where = places.get(scope.kind, "the whole trace")
    if evidence.runs_on_cpu:
        yield from _counts("asked_on_cpu", where, scope)
        return
    kernels, matmuls, *others = _counts("asked_on_gpu", where, scope)
    yield from (kernels, matmuls)
    pair = _pair(evidence)
    if pair:
        fused = f"{scope.prefix}{pair[0]} and {pair[1]} are"
        yield Question(
            f"Does one kernel do both {pair[0]} and {pair[1]}? (yes, no)",
            "When they are fused, the result of the first op is not written to memory and read "
            "back.",
            choices={"yes": f"{fused} fused", "no": f"{fused} not fused"},
        )
    yield from others
    yield Question(
        "Which transposition do the matmuls have? (tn, nn, nt)",
        "x @ W.T is tn: cuBLAS sees the weight transposed and the activation as it is.",
        choices={
            name: f"{scope.prefix}every gemm has layout {name}" for name in ("tn", "nn", "nt")
        },
    )
    if evidence.trace.compiler_run is not None:  # a trace alone says no more than how many ran
        yield Question(
            "How many graphs did torch.compile make of the program?",
            "Each graph break and each recompilation makes one more; nothing is fused across them.",
            "compiled graphs == {}",
        )
    bounds = ("host", "compute", "memory", "copy", "mixed")
    yield Question(
        f"What bounds {where}? ({', '.join(bounds)})",
        "Host: the GPU waits for launches, and faster kernels would change nothing.",
        choices={bound: f"{scope.prefix}bound is {bound}" for bound in bounds},
    )


def _counts(table: str, where: str, scope: Scope) -> list[Question]:
    lines = iter(language(table).strip().splitlines())
    return [
        Question(asked.format(where), lesson, scope.prefix + what + " == {}")
        for asked, lesson, what in zip(lines, lines, lines, strict=True)
    ]


def _pair(evidence: Evidence) -> tuple[str, str] | None:
    """Two pointwise ops to ask about: those of a fused kernel, else two neighbours."""
    operations = [evidence.operation(row) for row in evidence.by_launch[0].tolist()]
    pointwise = [operation for operation in operations if operation.role == "pointwise"]
    for operation in pointwise:
        ops = [op for op in operation.ident.get("ops") or () if op in operation.does]
        ops = ops or sorted(operation.does)
        fused = [op for op in ops if op in op_words() and not op.endswith("view")]
        if len(fused) > 1:
            return fused[0], fused[1]
    does = [word for operation in pointwise for word in sorted(operation.does & op_words())]
    words = list(dict.fromkeys(does))
    return (words[0], words[1]) if len(words) > 1 else None
