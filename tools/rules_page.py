"""Write `docs/findings.md`, the manual of all rules: `python tools/rules_page.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from foretrace.analyze.rules import NEEDS, rules
from foretrace.schema.finding import Rule

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
HEAD = """# Findings

`foretrace look` runs every rule on this page over a trace; `look --findings` shows what they say. A
rule looks for one thing and reports a finding. A finding has a state:

- `found`: worth reading.
- `clear`: the rule looked and found nothing.
- `skipped`: the trace lacks the data, and the detail names the capture option that supplies it. Or
  the trace is incomplete, so that finding nothing proves nothing.
- `crashed`: the rule failed. It hides no other rule.

`at_most_ns` is an upper bound on the time that a fix can save. It is per step where the trace
has steps, and for the whole trace where it has none. It is never a promise, and two findings may
count the same time. `fix` says what to do; the first screen names the fixes that can save the
most, and none below 1% of a step. A rule without a fix leaves it empty. `evidence` holds the
numbers behind the sentence. `events` holds the ids of the events that prove it. `ranges` holds the
gaps that a finding about idle time is about, the longest first and at most 200: start and end on
the clock of the events table, and the number of the GPU. The report shades them.

`foretrace explain RULE` prints one of these manuals with an example. `--select`, `--ignore` and
`[tool.foretrace]` in pyproject.toml choose what you hear of: [Steer the rules](steering.md).

"""
TAIL = """
## Add a rule

Every rule is one file in `src/foretrace/analyze/rules/`; this page is made from their docstrings
(`python tools/rules_page.py`). `CONTRIBUTING.md` has a worked example. Another package brings rules
through the entry point group `foretrace.analyses`.
"""


def page() -> str:
    """The whole page as Markdown."""
    needs = "\n".join(f"- `{need}`: {advice}." for need, (_, advice) in NEEDS.items())
    rows = "\n".join(f"| [{rule.name}](#{rule.name}) | {rule.title} |" for rule in rules())
    entries = "\n".join(_entry(rule) for rule in rules())
    table = f"| rule | looks for |\n|:---|:---|\n{rows}"
    needed = f"## What a rule may need\n\n{needs}"
    return f"{HEAD}## The rules\n\n{table}\n\n{needed}\n\n## Each rule\n\n{entries}{TAIL}"


def manual(rule: Rule) -> str:
    """The docstring of the module that declares the rule."""
    return (sys.modules[rule.check.__module__].__doc__ or "").strip()


def _entry(rule: Rule) -> str:
    needs = ", ".join(f"`{need}`" for need in NEEDS if need in rule.needs)
    return f"### {rule.name}\n\n{manual(rule)}\n\nNeeds: {needs}.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
