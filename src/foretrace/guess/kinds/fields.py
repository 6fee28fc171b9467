"""What kernels' names say, how they were launched, and what bounds them.

`every gemm has layout tn` judges each kernel. A field that does not apply to a kernel is not there;
one that applies and that the name does not state leaves the prediction unknown. `every` of nothing
is unknown, not true.
"""

from __future__ import annotations

from collections import Counter

from foretrace.guess.amounts import Compare
from foretrace.guess.fields import Field, agrees, value_of, value_text
from foretrace.guess.reading import Ask, Kind, Reading, for_each, judge_all
from foretrace.guess.select import Found, find, has_trait
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View


def measure(ask: Ask) -> Reading:
    if "trait" in ask.args:
        return for_each(
            ask, lambda view: _is(view, ask.args["quantifier"], ask.args["what"], ask.args["trait"])
        )
    return for_each(
        ask,
        lambda view: _has(
            view,
            ask.args["quantifier"],
            ask.args["what"],
            ask.args["field"],
            ask.args.get("compare"),
            ask.args.get("value"),
        ),
    )


def _has(
    view: View,
    quantifier: str,
    thing: Thing,
    field: Field,
    compare: Compare | None,
    wanted: str | None,
) -> Reading:
    found = kernels(view, thing)
    values = [value_of(view.work, row, field) for row in found.sure]
    answers = [agrees(value, compare, wanted) for value in values]
    texts = [f"{field.name} {value_text(value)}" for value in values]
    return judged(found, thing, quantifier, answers, texts)


def _is(view: View, quantifier: str, thing: Thing, trait: Thing) -> Reading:
    found = kernels(view, thing)
    answers = [_fits(view, row, trait) for row in found.sure]
    return judged(
        found, thing, quantifier, answers, [view.work.case(row).ident.short for row in found.sure]
    )


def _fits(view: View, row: int, trait: Thing) -> bool | None:
    """Whether one kernel is what `is …` says."""
    if trait.kind != "kernel" or trait.word or trait.name or trait.under:
        return row in find(view, trait).sure
    answers = [has_trait(view.work, row, part) for part in trait.traits]
    return False if False in answers else None if None in answers else True


def kernels(view: View, thing: Thing) -> Found:
    if not thing.on_gpu:
        raise Unknown(f"`{thing.text}` is no GPU work; say for example `every gemm`")
    return find(view, thing)


def judged(
    found: Found, thing: Thing, quantifier: str, answers: list[bool | None], texts: list[str]
) -> Reading:
    """The verdict over all kernels, with the values that were seen and the kernels that decide."""
    verdict = judge_all(quantifier, answers, found.unclear)
    measured = seen(texts) or f"no {thing.text}"
    why = ""
    if verdict == "unknown":
        why = (
            f"there is no {thing.text} here to judge" if not answers else "not every one states it"
        )
        why = found.why(thing) if found.unclear else why
    breaks = [
        row
        for row, answer in zip(found.sure, answers, strict=True)
        if answer is (quantifier == "no")
    ]
    return Reading(verdict, measured, why, rows=breaks or found.sure)


def seen(texts: list[str]) -> str:
    """`2 x layout tn, 1 x layout nn`."""
    counts = Counter(texts)
    parts = [f"{count} x {text}" for text, count in counts.most_common(4)]
    return ", ".join(parts) + (f" and {len(counts) - 4} more" if len(counts) > 4 else "")


KIND = Kind(
    name="fields",
    order=30,
    patterns=(
        "{quantifier:quantifier} {what:things} has|have {field:field} [{compare:compare}] "
        "[{value:value}]",
        "{quantifier:quantifier} {what:things} is|are {trait:things}",
    ),
    measure=measure,
    examples={
        "every gemm has layout tn": "x @ W.T, as cuBLAS names it",
        "some kernel has epilogue bias": "the bias is added inside a product",
        "no kernel is fp32 gemm": "no product runs in single precision",
        "every gemm is nvjet": "a family of names",
        "some gemm has tile 256x128": "any depth; `256x128x64` states it",
        "every pointwise has vec 8": "eight elements per thread and access",
        "no gemm has splitk": "a field alone asks whether it is there",
        "every pointwise has shared memory 0": "how the kernel was launched",
        "some gemm has registers >= 128": "numbers can be compared",
        "every gemm is compute-bound": "from recorded shapes, time and the card's peaks",
        "every pointwise has bound memory": "the same as a field",
    },
)
