"""Which rules and fixes a user wants to hear of: `--select`, `--ignore`, `[tool.foretrace]`.

A rule that is ignored runs all the same, and what it found is counted: nothing disappears without
a word. Its fixes are not advised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from foretrace.base.errors import UsageError, nearest
from foretrace.look.documents import Finding, IgnoredEntry

RULE, FIX = "rule", "fix"
IGNORED, UNSELECTED = "ignored", "not selected"
_ADVICE = "from_rules"  # the fix of all rules that advise without a fix of their own


class Steering(Struct, frozen=True):
    """`select` are the only names to hear of, where there are any; `ignore` has reasons by name."""

    select: tuple[str, ...] = ()
    ignore: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.select or self.ignore)

    def __str__(self) -> str:
        """Equal for equal choices: a part of the key of what the cache keeps."""
        return f"{sorted(self.select)} {sorted(self.ignore.items())}" if self else ""

    def keeps(self, rule: str) -> bool:
        """Whether findings of this rule are shown."""
        return rule not in self.ignore and (not self.select or rule in self.select)

    def advises(self, fix: str) -> bool:
        """Whether this fix may be advised: it or a rule that names it is selected, none ignored."""
        if fix in self.ignore or fix in self.select:
            return fix not in self.ignore
        naming = _naming(fix) if self else set()
        if naming & self.ignore.keys():
            return False
        return not self.select or fix == _ADVICE or bool(naming & {*self.select})

    def withheld(
        self, findings: Iterable[Finding], fixes: Iterable[str] = ()
    ) -> list[IgnoredEntry]:
        """What these findings and fixes would have said, by name."""
        found = [each.rule for each in findings if each.state == "found"]
        rules = [name for name in dict.fromkeys(found) if not self.keeps(name)]
        rows = [self._entry(RULE, name, found.count(name)) for name in rules]
        held = [fix for fix in dict.fromkeys(fixes) if not self.advises(fix)]
        return rows + [self._entry(FIX, name, 0) for name in held]

    def _entry(self, kind: str, name: str, findings: int) -> IgnoredEntry:
        owners = {name} | (_naming(name) if kind == FIX else set())
        named = sorted(owners & self.ignore.keys(), key=lambda each: each != name)
        reason = self.ignore[named[0]] if named else ""
        return IgnoredEntry(kind, name, findings, IGNORED if named else UNSELECTED, reason)


def _naming(fix: str) -> set[str]:
    """The rules that lead to a fix."""
    from foretrace.look.rules import rules

    return {rule.name for rule in rules() if fix in rule.fixes}


def check_names(names: Collection[str], where: str) -> None:
    """Refuse a name that no rule and no fix has, in one line with the nearest names."""
    known = known_names() if names else ()
    for name in names:
        if name not in known:
            near = nearest(name, known, "`foretrace explain` lists the names", 3)
            raise UsageError(f"{where}: no rule or fix {name!r}; {near}")


def known_names() -> Sequence[str]:
    """Every rule and fix."""
    from foretrace.look import fixes, rules

    return [*(rule.name for rule in rules.rules()), *(fix.name for fix in fixes.fixes())]
