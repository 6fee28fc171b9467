"""Every rule: its worked examples, its manual page, and the guard around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace import analyses
from foretrace.model.trace import Trace
from foretrace.schema.finding import Example, Rule

EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.name}-{place}")
    for rule in analyses.rules()
    for place, example in enumerate(rule.examples)
]
EMPTY = {"schemaVersion": 1, "traceEvents": []}


def opened(document: Any, folder: Path) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return ft.open(path, cache=False)


def holds(expected: Any, found: Any) -> bool:
    """Whether `found` says all that `expected` says, and perhaps more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and holds(value, found[key]) for key, value in expected.items())
    return bool(expected == found)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_worked_example(rule: Rule, example: Example, tmp_path: Path) -> None:
    trace = opened(example.document(), tmp_path)
    found = analyses.run(rule, trace)
    if example.says is None:
        assert [finding.state for finding in found] == ["clear"], f"{example.about}: {found}"
    else:
        assert found[0].state == "found", f"{example.about}: {found[0]}"
        assert holds(example.says, found[0].evidence), f"{example.about}: {dict(found[0].evidence)}"
