"""Every rule: its worked examples, its manual page, what it lacks, and the guard around it."""

from __future__ import annotations

import gzip
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrace.look import rules as analyses
from foretrace.look.documents import Finding
from foretrace.look.fixes import fixes
from foretrace.look.rules import NEEDS, RANGES, Rule, ranges, rules
from foretrace.trace.idle import Idle
from foretrace.trace.trace import Trace
from look.rules.examples import EXAMPLES, Example
from look.rules.sketch import ADD, Sketch, kernel
from opened_traces import open_made
from sweep import looped

PARAGRAPHS = ("What it shows:", "Why it matters:", "How it is computed:", "When it is wrong:")


EVERY = [pytest.param(rule, id=rule.name) for rule in rules()]
FROZEN = Path(__file__).parents[2] / "frozen" / "look-json"


def holds(expected: Any, found: Any) -> bool:
    """Whether `found` says all that `expected` says, and perhaps more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and holds(value, found[key]) for key, value in expected.items())
    return bool(expected == found)


@pytest.mark.parametrize(
    ("name", "example"),
    [(name, each) for name, examples in EXAMPLES.items() for each in examples],
)
def test_worked_example(name: str, example: Example, tmp_path: Path) -> None:
    (rule,) = (rule for rule in rules() if rule.name == name)
    trace = open_made(example.document(), tmp_path)
    found = analyses.run(rule, trace)
    if example.says is None:
        assert [finding.state for finding in found] == ["clear"], f"{example.about}: {found}"
        return
    assert found[0].state == "found", f"{example.about}: {found[0]}"
    assert holds(example.says, found[0].evidence), f"{example.about}: {dict(found[0].evidence)}"
    assert found[0].events, "a finding names events that prove it"
    assert set(found[0].events) <= set(range(trace.host.count))


def test_every_rule_finds_something_and_is_clear_elsewhere() -> None:
    """In its worked examples, or on the recordings whose answers are frozen."""
    said = {
        (name, "clear" if example.says is None else "found")
        for name, examples in EXAMPLES.items()
        for example in examples
    }
    for path in FROZEN.iterdir():
        document = json.loads(gzip.decompress(path.read_bytes()).split(b"\n")[1])
        said |= {(each["rule"], each["state"]) for each in document["findings"]}
    wanted = {(rule.name, state) for rule in rules() for state in ("found", "clear")}
    assert wanted - said == set()


@looped("rule", EVERY)
def test_rule_is_declared_in_full(rule: Rule) -> None:
    assert set(rule.needs) <= set(NEEDS)
    assert set(rule.fixes) <= {fix.name for fix in fixes()}
    assert not (rule.fixes and rule.realised), "the replay decides, or the rule's own bound"


@looped("rule", EVERY)
def test_rule_has_a_manual_page(rule: Rule) -> None:
    text = inspect.cleandoc(rule.check.__doc__ or "")
    places = [text.find(paragraph) for paragraph in PARAGRAPHS]
    assert min(places) > 0, f"{rule.name} lacks {PARAGRAPHS[places.index(min(places))]}"
    assert places == sorted(places)
    assert text.split("\n", 1)[0].endswith(".")


# An instant is an event, and nothing that lasts.
NOTHING = {"schemaVersion": 1, "traceEvents": [{"ph": "i", "name": "Record", "pid": 0, "ts": 1}]}


def test_an_empty_trace_is_skipped_or_clear(tmp_path: Path) -> None:
    found = analyses.run_all(open_made(NOTHING, tmp_path))
    assert {finding.state for finding in found} <= {"skipped", "clear"}
    assert sorted(finding.rule for finding in found) == [rule.name for rule in rules()]


def broken(trace: Trace) -> Iterator[Finding]:
    yield Finding("broken", "found", "said before it failed")
    raise ZeroDivisionError("on purpose")


def test_a_lacking_rule_names_the_option_and_a_crash_hides_no_other_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = open_made(Sketch().step().op("aten::add", kernel(ADD, 5)), tmp_path)
    before = analyses.run_all(trace)
    lacking = next(finding for finding in before if finding.rule == "fusable_pointwise")
    assert (lacking.state, lacking.detail) == (
        "skipped",
        "needs shapes: record with record_shapes=True",
    )
    monkeypatch.setattr(
        analyses, "rules", lambda: (Rule("broken", "A broken rule", broken), *rules())
    )
    after = analyses.run_all(trace)
    crashed = [finding for finding in after if finding.state == "crashed"]
    assert [(finding.rule, finding.detail) for finding in crashed] == [
        ("broken", "ZeroDivisionError: on purpose")
    ]
    assert [finding for finding in after if finding.rule != "broken"] == before


def test_the_order_is_by_what_could_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(name: str, state: str, at_most: int | None = None) -> Rule:
        return Rule(name, name, lambda trace: [Finding(name, state, name, at_most_ns=at_most)])

    made = (
        rule("z", "clear"),
        rule("b", "found", 5),
        rule("a", "found"),
        rule("c", "found", 7),
        rule("y", "skipped"),
    )
    monkeypatch.setattr(analyses, "rules", lambda: made)
    found = analyses.run_all(open_made(NOTHING, tmp_path))
    assert [finding.rule for finding in found] == ["c", "b", "a", "y", "z"]
    assert {finding.state for finding in found} <= {"found", "clear", "skipped", "crashed"}


def test_findings_do_not_depend_on_the_order_of_the_file(tmp_path: Path) -> None:
    document = dict(EXAMPLES["varying_kernels"][0].document())
    straight = analyses.run_all(open_made(document, tmp_path))
    document["traceEvents"] = document["traceEvents"][::-1]
    assert analyses.run_all(open_made(document, tmp_path)) == straight


def test_a_rule_needs_no_torch() -> None:
    assert "torch" not in {
        name for rule in rules() for name in vars(sys.modules[rule.check.__module__])
    }


def idle(*parts: tuple[int, int, int]) -> Idle:
    """Gaps by start, end and device."""
    start, end, device = np.array(parts, np.int64).reshape(-1, 3).T
    nothing = np.zeros(len(start), np.int64)
    return Idle(start, end, nothing, nothing, device, nothing, 0)


def test_parts_that_follow_each_other_are_one_gap_and_the_longest_comes_first() -> None:
    found = ranges(idle((5, 9, 0), (9, 10, 0), (0, 3, 0), (10, 12, 1), (12, 30, 1)))
    assert found == ((10, 30, 1), (5, 10, 0), (0, 3, 0))
    assert ranges(idle()) == ()
    many = ranges(idle(*((10 * at, 10 * at + 1, 0) for at in range(RANGES + 5))))
    assert len(many) == RANGES
