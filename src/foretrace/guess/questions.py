"""Questions to ask before looking: a handful that this trace can decide, each answered by a
prediction.

The place asked about is the region with the most GPU work, else the steps, else the whole trace. A
question whose prediction would be unknown here is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from foretrace.errors import UsageError
from foretrace.guess.cpu import runs_on_cpu
from foretrace.guess.marking import Guess, mark, parse
from foretrace.guess.scope import Scope
from foretrace.guess.things import op_words
from foretrace.guess.tokens import nearest
from foretrace.guess.work import Work
from foretrace.model.trace import Trace


@dataclass(frozen=True, slots=True)
class Question:
    """`text` is asked, `lesson` is said afterwards. `choices` maps an answer to a prediction;
    without them the answer is a whole number that goes into `template`."""

    text: str
    lesson: str
    template: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)

    def guess(self, answer: str) -> Guess:
        """The prediction that an answer makes; `UsageError` when it is no answer."""
        word = answer.strip().lower()
        if self.choices:
            chosen = [
                choice
                for choice in self.choices
                if choice == word or (word and choice.startswith(word))
            ]
            if len(chosen) != 1:
                near = nearest(word, self.choices, 0.0)
                raise UsageError(
                    f"{answer.strip()!r} is no answer: say {', '.join(self.choices)} (nearest: "
                    f"{near})"
                )
            return parse(self.choices[chosen[0]], self.lesson)
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise UsageError(f"{answer.strip()!r} is no answer: say a whole number")
        return parse(self.template.format(int(word)), self.lesson)

    @property
    def trial(self) -> str:
        """A prediction of the kind this question makes, to see whether the trace can decide it."""
        return next(iter(self.choices.values())) if self.choices else self.template.format(0)


def questions(trace: Trace) -> list[Question]:
    """The questions that this trace can decide; none when it is not whole, for the answers may be
    what is missing.
    """
    if trace.ledger.gap:
        return []
    work = Work(trace)
    place = _place(work)
    return [
        question
        for question in _all(work, place)
        if mark(parse(question.trial), work).verdict != "unknown"
    ]


def _place(work: Work) -> Scope:
    groups = {
        name: calls
        for name, calls in work.trace.spans.region_groups().items()
        if name.isprintable() and '"' not in name and "::" not in name and not name.startswith("##")
    }
    if groups:
        return Scope(
            "region", max(groups, key=lambda name: sum(len(call.work) for call in groups[name]))
        )
    return Scope("steps") if work.trace.has("steps") else Scope()


def _all(work: Work, scope: Scope) -> Iterator[Question]:
    where = {"region": f"one call of {scope.name}", "steps": "one step"}.get(
        scope.kind, "the whole trace"
    )
    within = f"{scope.text}: " if scope.text else ""
    if runs_on_cpu(work):
        yield from _cpu(where, within)
        return
    yield Question(
        f"How many GPU kernels does {where} launch?",
        "A kernel is one program on the GPU; views and reshapes launch none.",
        within + "kernels == {}",
    )
    yield Question(
        f"How many of the kernels of {where} are matrix products?",
        "A linear layer is one product; its bias rides in the epilogue.",
        within + "gemm == {}",
    )
    pair = _pair(work)
    if pair:
        yield Question(
            f"Are {pair[0]} and {pair[1]} done by one kernel? (yes, no)",
            "Fused, the result of the first never travels to memory and back.",
            choices={
                "yes": f"{within}{pair[0]} and {pair[1]} are fused",
                "no": f"{within}{pair[0]} and {pair[1]} are not fused",
            },
        )
    yield Question(
        f"How many copies between memories (memcpy) does {where} make?",
        "Copies hide in ops that need their input elsewhere, or a bias in place.",
        within + "memcpy == {}",
    )
    yield Question(
        f"How often does the host wait for the GPU in {where}?",
        "A wait in the loop keeps the host from running ahead.",
        within + "sync == {}",
    )
    yield Question(
        "Which transposition do the products have? (tn, nn, nt)",
        "x @ W.T is tn: cuBLAS sees the weight transposed and the activation as it is.",
        choices={
            layout: f"{within}every gemm has layout {layout}" for layout in ("tn", "nn", "nt")
        },
    )
    yield Question(
        f"What bounds {where}? (overhead, compute, memory, mixed)",
        "Overhead: the GPU is idle for more than half of the time, and faster kernels would "
        "change nothing.",
        choices={
            bound: f"{within}bound is {bound}"
            for bound in ("overhead", "compute", "memory", "mixed")
        },
    )


def _cpu(where: str, within: str) -> Iterator[Question]:
    yield Question(
        f"How many ops of {where} compute something?",
        "Views, reshapes and allocations do not; a wrapper counts through what it calls.",
        within + "cpu kernels == {}",
    )
    yield Question(
        f"How many times does {where} call aten::mm?",
        "A linear layer without bias is one aten::mm below aten::linear and aten::matmul.",
        within + "aten::mm == {}",
    )
    yield Question(
        f"How many views (aten::view) does {where} take?",
        "They cost host time and move nothing.",
        within + "aten::view == {}",
    )


def _pair(work: Work) -> tuple[str, str] | None:
    """Two pointwise ops that are, or could be, one kernel: those of a fused kernel, else two
    neighbours.
    """
    pointwise = [
        work.case(row) for row in work.by_launch[0].tolist() if work.case(row).role == "pointwise"
    ]
    for case in pointwise:
        merged = [
            op
            for op in case.ident.get("ops") or sorted(case.does)
            if op in op_words() and not op.endswith("view")
        ]
        if len(merged) > 1:
            return merged[0], merged[1]
    words = list(
        dict.fromkeys(word for case in pointwise for word in sorted(case.does & op_words()))
    )
    return (words[0], words[1]) if len(words) > 1 else None
