"""The manual of rules and fixes: nothing is written here that their files do not say."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import convert
from msgspec.structs import replace

from foretrace.analyze import fixes, rules
from foretrace.analyze.fixes import Fix
from foretrace.analyze.steering import FIX, RULE, check_names
from foretrace.base import plugins
from foretrace.model import opening
from foretrace.schema.documents.explain import Manual, ManualEntry
from foretrace.schema.documents.look import FindingEntry
from foretrace.schema.finding import Rule


def manual(names: Sequence[str]) -> Manual:
    """These rules and fixes with an example of each rule, or all without any; raises `UsageError`
    for a name that none has.
    """
    check_names(names, "explain")
    every = [*map(_of_rule, rules.rules()), *map(_of_fix, fixes.fixes())]
    chosen = (each for name in names for each in every if each.name == name)
    return Manual([_shown(each) for each in chosen] if names else every)


def _of_rule(rule: Rule) -> ManualEntry:
    needs = [advice for need, (_, advice) in rules.NEEDS.items() if need in rule.needs]
    said = paragraphs(plugins.manual(rule.check))
    named = RULE, rule.name, rule.title
    return ManualEntry(*named, said, needs, fixes=[*rule.fixes], example=rule.example)


def _of_fix(fix: Fix) -> ManualEntry:
    needs = [rules.NEEDS[need][1] if need in rules.NEEDS else need for need in fix.needs]
    leading = [rule.name for rule in rules.rules() if fix.name in rule.fixes]
    said = paragraphs(plugins.manual(fix.find))
    return ManualEntry(FIX, fix.name, fix.title, said, needs, rules=leading)


def paragraphs(told: Sequence[str]) -> dict[str, str]:
    """The paragraphs of a docstring by their heads: `What it shows`; the first has none."""
    found: dict[str, str] = {"": told[0]}
    for text in told[1:]:
        head, _, rest = text.partition(": ")
        found[head] = rest
    return found


def _shown(entry: ManualEntry) -> ManualEntry:
    """With what the rule says about the recording that shows it."""
    rule = next((each for each in rules.rules() if each.name == entry.name), None)
    if rule is None or not rule.example:
        return entry
    seen = rules.run(rule, opening.open(rule.example))
    return replace(entry, finding=convert(seen[0], FindingEntry, from_attributes=True))
