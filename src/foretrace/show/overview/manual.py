"""What a word means: a rule, a fix, a quantity of predictions, an op, a document, a kernel name.

The manual says nothing that the files of these do not say.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

from msgspec import convert
from msgspec.structs import replace

from foretrace.analyze import fixes, rules
from foretrace.analyze.guess import job_kinds, kinds
from foretrace.analyze.guess.words import HEADS, TRAITS, Selector, Trait
from foretrace.analyze.steering import FIX, RULE
from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.model import costs, opening, reach
from foretrace.names import families
from foretrace.schema import documents
from foretrace.schema.documents.explain import DecodedName, Manual, ManualEntry
from foretrace.schema.documents.look import FindingEntry

QUANTITY, OP, DOCUMENT = "quantity", "op", "document"
GUESSED = ("inferred", "unknown")
UNKNOWN = "unknown"  # the family of a name that no family knows
_WORD = re.compile(r"[\w.:+-]+")


def manual(words: Sequence[str]) -> Manual:
    """Everything that these words name, a rule with its example; without words, all but ops.

    Raises `UsageError` for a word that names nothing.
    """
    every = [*_rules(), *_fixes(), *_quantities(), *_documents()]
    if not words:
        return Manual(every)
    entries, kernels = list[ManualEntry](), list[DecodedName]()
    for word in words:
        named = [_with_finding(each) for each in every if each.name == word] + _nouns(word)
        named += _ops(word)
        kernel = families.decode(word)
        known = kernel.family != UNKNOWN
        if named:  # `unused_forward` also looks like a kernel of Triton: a guess is not shown
            known = known and any(part.certainty not in GUESSED for part in kernel.parts)
        if known or not (named or _WORD.fullmatch(word)):
            kernels.append(DecodedName.of(kernel))
        elif not named:
            names = [*(each.name for each in every), *HEADS, *TRAITS, *_prices()]
            near = nearest(word, dict.fromkeys(names), "`foretrace explain` lists the words", 3)
            raise UsageError(f"explain: nothing is named {word!r}; {near}")
        entries += named
    return Manual(entries, kernels=kernels) if kernels else Manual(entries)


def _rules() -> Iterator[ManualEntry]:
    for rule in rules.rules():
        needs = [advice for need, (_, advice) in rules.NEEDS.items() if need in rule.needs]
        text = paragraphs(plugins.manual(rule.check))
        entry = ManualEntry(RULE, rule.name, rule.title, text, needs)
        yield replace(entry, fixes=[*rule.fixes], example=rule.example)


def _fixes() -> Iterator[ManualEntry]:
    for fix in fixes.fixes():
        needs = [rules.NEEDS[need][1] if need in rules.NEEDS else need for need in fix.needs]
        leading = [rule.name for rule in rules.rules() if fix.name in rule.fixes]
        text = paragraphs(plugins.manual(fix.find))
        yield ManualEntry(FIX, fix.name, fix.title, text, needs, rules=leading)


def _quantities() -> Iterator[ManualEntry]:
    """The kinds of prediction, each with its wordings: `{what:selector}` is SELECTOR."""
    for kind in (*kinds.every(), *job_kinds.every()):
        first, *more = inspect.cleandoc(kind.measure.__doc__ or "").split("\n\n")
        text = {"": " ".join(first.split())}
        if more:
            text["Means"] = " ".join(" ".join(more).split())
        wordings = [re.sub(r"\{\w+:(\w+)\}", lambda slot: slot[1].upper(), each)
                    for each in kind.patterns]  # fmt: skip
        text["Write"] = "; ".join(wordings)
        yield ManualEntry(QUANTITY, kind.name, re.split(r"[.:;] ", text[""])[0].rstrip("."), text)


def _nouns(word: str) -> list[ManualEntry]:
    """A word that predictions count."""
    noun = HEADS.get(word) or TRAITS.get(word)
    if noun is None:
        return []
    traits = [noun] if isinstance(noun, Trait) else noun.traits
    text = f"{noun.kind}s" if isinstance(noun, Selector) else "kernels"
    if isinstance(noun, Selector):
        text += f" named {noun.name}" if noun.name else ""
        text += f" below {noun.under}" if noun.under else ""
    text += "".join(f", {each.kind} {each.value}".rstrip() for each in traits)
    examples = f"{word} == 3; no {word}; {word} < A"
    return [ManualEntry(QUANTITY, word, f"predictions count {text}", {"Write": examples})]


def _documents() -> Iterator[ManualEntry]:
    for name, (_, first) in documents.every().items():
        command, _, title = first.rstrip(".").partition(": ")
        text = {"": first, "Printed by": command, "Schema": f"foretrace docs schema {name}"}
        yield ManualEntry(DOCUMENT, name, title, text)


def _prices() -> dict[str, costs.CostKind]:
    return {name: kind for kind in costs.kinds() for name in kind.prices}


def _ops(word: str) -> list[ManualEntry]:
    """What an op costs, by its name with or without `aten::`."""
    priced = _prices()
    name = next((each for each in (word, f"aten::{word}") if each in priced), word)
    is_view = reach.is_view(name) and name not in priced
    if name not in priced and not is_view:
        return []
    if is_view:
        name = name if "::" in name else f"aten::{name}"
        text = {"Costs": "nothing where it launches nothing: its result is a view of its input"}
        return [ManualEntry(OP, name, "changes how memory is seen", text)]
    price, role = priced[name].prices[name], families.role_of_op(name)
    text = {"Costs": " ".join((price.__doc__ or "").split())} if price.__doc__ else {}
    conventions = " ".join(inspect.cleandoc(costs.__doc__ or "").split("\n\n")[2].split())
    text["Counted"] = conventions.removeprefix("Conventions: ").partition(" So `bytes`")[0]
    title = f"its kernels have the role {role}" if role != "other" else "an op with a cost"
    return [ManualEntry(OP, name, title, text)]


def paragraphs(told: Sequence[str]) -> dict[str, str]:
    """The paragraphs of a docstring by their heads: `What it shows`; the first has none."""
    texts: dict[str, str] = {"": told[0]}
    for text in told[1:]:
        head, _, rest = text.partition(": ")
        texts[head] = rest
    return texts


def _with_finding(entry: ManualEntry) -> ManualEntry:
    """With what the rule says about the recording that shows it."""
    rule = next((each for each in rules.rules() if each.name == entry.name), None)
    if entry.kind not in (RULE, FIX) or rule is None or not rule.example:
        return entry
    seen = rules.run(rule, opening.open(rule.example))
    return replace(entry, finding=convert(seen[0], FindingEntry, from_attributes=True))
