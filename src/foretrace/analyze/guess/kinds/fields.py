"""What kernel names state, how kernels were launched, and what bounds them.

`every gemm has layout tn` judges each kernel, and so does `gemm is compute-bound` without `every`.
`head_dim` and `causal` come from the recorded arguments of the op where the name does not state
them. A field that does not apply to a kernel is absent;
one that applies and that the name does not state leaves the prediction unknown. `every` of nothing
is unknown, not true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.analyze.guess import kinds, selection, traits, words
from foretrace.analyze.guess.grammar import Slot
from foretrace.analyze.guess.windows import Unknown, Window

_NEARLY = 0.9  # `gemms run in bf16`: of so many it may be said


def _judge(window: Window, query: kinds.Query) -> kinds.Measurement:
    said, query = query, _complete(query)
    found = kernels(window, query.what)
    if not found.sure and query.what.text == "attention" and written_out(window):
        verdict = "miss" if query.args["quantifier"] == "every" else "hit"
        return kinds.Measurement(verdict, "attention is written out as matmuls and a softmax")
    if "trait" in query.args:
        answers = [_fits(window, row, query.args["trait"]) for row in found.sure]
        measured = judged(found, query, answers, _shown(window, found.sure, query.args["trait"]))
        part = any(each.kind == "group" for each in query.what.traits)  # some only move indices
        enough = 1 if part else _NEARLY * len(answers)
        nearly = "quantifier" not in said.args and answers.count(True) >= enough
        if nearly and measured.verdict == "miss" and query.args["quantifier"] == "every":
            why = f"not every one: {answers.count(True)} of {len(answers)}"
            return replace(measured, verdict="unknown", why=why)
        return measured
    field: traits.Field = query.args["field"]
    compare, wanted = query.args.get("compare"), query.args.get("value")
    values = [traits.value_of(window.evidence, row, field) for row in found.sure]
    answers = [traits.agrees(value, compare, wanted) for value in values]
    texts = [f"{field.name} {traits.value_text(value)}" for value in values]
    return judged(found, query, answers, texts)


def written_out(window: Window) -> bool:
    """Whether attention is matmuls around a softmax, by the ops of an eager program."""
    evidence, host = window.evidence, window.evidence.trace.host
    calls = {"aten::bmm", "aten::softmax"} <= set(host.names) and not window.gap
    return calls and not evidence.is_compiled and not evidence.has_attention


def _complete(query: kinds.Query) -> kinds.Query:
    """The query with what its wording leaves out: `every`, or `no`, and the kernels of a field."""
    denied = {"not", "no"} & set(query.args)
    added: dict[str, object] = {"quantifier": "no" if denied else "every"}
    if "used" in query.args:
        added["quantifier"] = "some"
    trait = query.args.get("trait")
    if isinstance(trait, words.Selector) and trait.kind == "memcpy" and "what" in query.args:
        across = words.Trait("direction", traits.CROSSES)
        crossing = replace(words.HEADS["memcpy"], text=query.what.text, traits=(across,))
        query = replace(query, args={**query.args, "what": crossing})
    if "peak_share" in query.args:
        share: words.Amount = query.args["peak_share"]
        added |= {"field": traits.fields()["roof"], "value": f"{share.value * 100:g}"}
        added["compare"] = words.Compare(">=")
    if "what" not in query.args:
        heads = [words.HEADS[role] for role in query.args["field"].roles]
        there = (head for head in heads if selection.select(query.windows[0], head).sure)
        added["what"] = next(there, heads[0])
    return replace(query, args=added | dict(query.args))


def _shown(window: Window, rows: list[int], trait: words.Selector) -> list[str]:
    """The names of kernels, with the bound where the prediction is about that."""
    shorts = [window.evidence.operation(row).ident.short for row in rows]
    if not any(part.kind == "bound" for part in trait.traits):
        return shorts
    bounds = window.evidence.trace.work_bounds
    return [f"{short} {bounds[row]}" for row, short in zip(rows, shorts, strict=True)]


def _fits(window: Window, row: int, trait: words.Selector) -> bool | None:
    """Whether one kernel is what `is …` says."""
    if trait.kind not in ("kernel", "memcpy") or trait.word or trait.name or trait.under:
        return row in selection.select(window, trait).sure
    answers = [traits.has_trait(window.evidence, row, part) for part in trait.traits]
    return False if False in answers else None if None in answers else True


def kernels(window: Window, selector: words.Selector) -> selection.Selection:
    """The GPU operations that a selector matches; `Unknown` when it matches host events."""
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation; say for example `every gemm`")
    return selection.select(window, selector)


def judged(
    found: selection.Selection, query: kinds.Query, answers: list[bool | None], texts: list[str]
) -> kinds.Measurement:
    """The verdict over all kernels, the values that were seen, and the kernels that decide."""
    quantifier, selector = query.args["quantifier"], query.what
    verdict = kinds.judge_all(quantifier, answers, found.unclear)
    measured = kinds.tally(texts) or f"no {selector.text}"
    why = ""
    if verdict == "unknown":
        lacking = "not every one states it" if answers else f"no {selector.text} to judge"
        why = found.why(selector) if found.unclear else lacking
    triples = zip(found.sure, answers, texts, strict=True)
    breaks = [(row, text) for row, answer, text in triples if answer is (quantifier == "no")]
    if verdict == "miss" and 0 < len(breaks) < len(texts):
        measured = f"{kinds.tally([text for _, text in breaks])} (of {len(texts)} {selector.text})"
    return kinds.Measurement(verdict, measured, why, rows=[row for row, _ in breaks] or found.sure)


def _own_field(tokens: Sequence[words.Token], place: int) -> tuple[traits.Field, int]:
    """A field that says by itself which kernels are meant."""
    field, after = traits.read_field(tokens, place)
    if not field.roles:
        raise words.ParseFailure(place, ["a field of one role of kernels, such as head_dim"])
    return field, after


_AMPERE = ("cutlass", "cublas", "ampere", "sm80")


def is_ampere(selector: words.Selector) -> bool:
    """Whether it means kernels that cuBLAS uses on Ampere."""
    traits = [trait.value for trait in selector.traits]
    return selector.name.startswith(_AMPERE) or any(value in _AMPERE for value in traits)


def _hopper_names(miss: kinds.Miss) -> bool:
    """Matmuls with Ampere names were expected, and there are nvjet ones."""
    trait = miss.query.args.get("trait")
    wanted = miss.wants_some and isinstance(trait, words.Selector) and is_ampere(trait)
    return wanted and miss.has_family("nvjet")


HOPPER_NAMES = kinds.known("hopper_names", _hopper_names)


def _vector_width(miss: kinds.Miss) -> bool:
    field, value = (miss.query.args.get(name) for name in ("field", "value"))
    four = isinstance(field, traits.Field) and field.name == "vec" and value == "4"
    eight = any(operation.ident.get("vec") == 8 for operation in miss.operations)
    return four and miss.wants_some and eight


VECTOR_WIDTH = kinds.known("vector_width", _vector_width)
KIND = kinds.GuessKind(
    "fields",
    30,
    (
        "{quantifier:quantifier} {what:selector} has|have {field:field} [{compare:compare}] "
        "[{value:value}]",
        "{quantifier:quantifier} {what:selector} is|are {trait:selector}",
        "{quantifier:quantifier} {what:selector} uses|use {trait:selector}",
        "{what:selector} uses|use [no] {trait:selector}",
        "{what:selector} is|are [not] {trait:selector}",
        "{trait:selector} is|are used by|in {what:selector}",
        "{what:selector} is|are [not] {field:field}",
        "{what:selector} has|have {field:field} [{compare:compare}] [{value:value}]",
        "{what:selector} {field:field} {compare:compare} {value:value}",
        "{what:selector} {field:field} is {value:value}",
        "{field:own_field} {compare:compare} {value:value}",
        "{field:own_field} is {value:value}",
        "{what:selector} reaches [{compare:compare}] {peak_share:share} of peak",
    ),
    kinds.per_window(_judge),
    slots={
        "field": Slot("a field of a kernel; see Fields", traits.read_field),
        "own_field": Slot("a field that one role of kernels has, such as head_dim", _own_field),
        "value": Slot(
            "a value of that field: a word, a number, a shape such as 256x128", traits.read_value
        ),
    },
    reasons=(HOPPER_NAMES, VECTOR_WIDTH),
)
