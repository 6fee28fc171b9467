"""Write `docs/findings.md`, the manual of all rules: `python tools/rules_page.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from foretrace.analyses import NEEDS, rules
from foretrace.schema.finding import Rule

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
HEAD = """# Findings

What `foretrace look` looks for. Every rule is one file in `src/foretrace/analyses/`. This page is
made from their docstrings:

    python tools/rules_page.py

A finding has a state:

- `found`: worth reading.
- `clear`: the rule looked and found nothing.
- `skipped`: the trace lacks the data. The detail names the capture option that supplies it.
- `crashed`: the rule failed. It hides no other rule.

`at_most_ns` is an upper bound of what a repair can save. It is per step where the trace has steps,
and for the whole recording where it has none. It is never a promise, and the bounds of two findings
may count the same time. `evidence` holds the numbers behind the sentence, `events` the ids of
events that prove it.

To add a rule, write one file: a docstring with the four paragraphs that every rule here has, a
function that takes a trace and yields findings, and `RULE = Rule(...)`. Its worked examples are a
file of the same name in `tests/analyses/examples/`: at least one that finds something and one that
does not. Another package brings rules through the entry point group `foretrace.analyses`.

## What a rule may need

"""


def page() -> str:
    """The whole page as Markdown."""
    needs = "\n".join(f"- `{need}`: {advice}." for need, (_, advice) in NEEDS.items())
    rows = "\n".join(f"| [{rule.name}](#{rule.name}) | {rule.title} |" for rule in rules())
    entries = "\n".join(_entry(rule) for rule in rules())
    table = f"| rule | looks for |\n|:---|:---|\n{rows}"
    return f"{HEAD}{needs}\n\n## The rules\n\n{table}\n\n{entries}"


def manual(rule: Rule) -> str:
    """The docstring of the module that declares the rule."""
    return (sys.modules[rule.check.__module__].__doc__ or "").strip()


def _entry(rule: Rule) -> str:
    needs = ", ".join(f"`{need}`" for need in NEEDS if need in rule.needs)
    return f"### {rule.name}\n\n{manual(rule)}\n\nNeeds: {needs}.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
