"""What an expert would say about a trace: one file per rule.

A file declares its rule with `@rule(...)`, and its docstring is the manual page. Adding a file is
all it takes; other packages bring rules through the entry point group `foretrace.analyses`. A rule
returns findings and draws nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foretrace.base import budget, plugins
from foretrace.base.errors import LimitError
from foretrace.schema import compiled
from foretrace.schema.finding import Finding, Findings, Rule
from foretrace.schema.ledger import ABSENT

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def _has_ops(trace: Trace) -> bool:
    return bool(trace.host.is_op.any()) or bool(trace.origins.is_captured.any())


def _has_launches(trace: Trace) -> bool:
    return bool((trace.gpu.launch >= 0).any())


def _has_one_clock(trace: Trace) -> bool:
    return trace.gpu.aligned


def _has_footprint(trace: Trace) -> bool:
    return trace.tables["gpu"]["registers"].is_not_null().any()


def _has_records(trace: Trace) -> bool:
    """Code that is not compiled has no records, and needs none."""
    if not any(map(compiled.is_row, trace.host.names)):
        return True
    return bool(trace.compiled) or trace.compiler_run is not None


# What a rule may need: how to tell whether the trace has it, and which capture option supplies it.
NEEDS: dict[str, tuple[Callable[[Trace], bool], str]] = {
    "gpu": (
        lambda trace: trace.has("gpu"),
        "GPU events: record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "ops": (_has_ops, "host ops: record with ProfilerActivity.CPU among the activities"),
    "launches": (_has_launches, "launches of GPU operations: record host and GPU together"),
    "clock": (_has_one_clock, "one clock for GPU and host"),
    "shapes": (lambda trace: trace.has("shapes"), "shapes: record with record_shapes=True"),
    "steps": (
        lambda trace: trace.has("steps"),
        "steps: record with schedule=... and call prof.step() after every step",
    ),
    "compiler": (
        _has_records,
        "the compiler's records of compiled code: record with `foretrace record --why`",
    ),
    "footprint": (
        _has_footprint,
        "registers and shared memory per kernel, which this trace lacks (AMD's never have them)",
    ),
}


INCOMPLETE = ABSENT | {"gpu_events_missing"}


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by name."""
    found = plugins.declared(sys.modules[__name__], "_check", Rule, "foretrace.analyses")
    return tuple(sorted(found, key=lambda rule: rule.name))


def run_all(trace: Trace) -> Findings:
    """Every rule on one trace: findings by largest possible saving, then the rest by name.

    A rule that fails is listed as crashed and hides no other.
    """
    return ordered(finding for rule in rules() for finding in run(rule, trace))


def ordered(found: Iterable[Finding]) -> Findings:
    """Findings by largest possible saving, then the rest by name."""

    def place(finding: Finding) -> tuple[bool, int, str]:
        known = finding.state == "found"
        saving = finding.at_most_ns if finding.at_most_ns is not None else -1
        return not known, -saving if known else 0, finding.rule

    return Findings(sorted(found, key=place))


def run(rule: Rule, trace: Trace) -> list[Finding]:
    """What one rule says: its findings, or one finding that says why it has no others.

    Where events are missing, finding nothing proves nothing.
    """
    # shapes are those of ops: a trace without ops lacks more than an option
    needs = {*rule.needs, "ops"} if "shapes" in rule.needs else {*rule.needs}
    for need, (has, advice) in NEEDS.items():
        if need in needs and not has(trace):
            return [Finding(rule.name, "skipped", rule.title, f"needs {advice}")]
    try:
        budget.check()
        found = [_limited(finding, trace) for finding in rule.check(trace)]
    except (LimitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad rule must not hide the others
        return [Finding(rule.name, "crashed", rule.title, f"{type(error).__name__}: {error}")]
    missing = next((note for note in trace.ledger.notes if note.code in INCOMPLETE), None)
    if found or missing is None:
        return found or [Finding(rule.name, "clear", rule.title)]
    return [Finding(rule.name, "skipped", rule.title, f"needs a complete trace: {missing.text}")]


def _limited(finding: Finding, trace: Trace) -> Finding:
    """At most the time of a step: kernels that overlap take more than that together."""
    from foretrace.analyze.rules._seen import step_ns

    most = finding.at_most_ns
    if most is None or not (limit := step_ns(trace)):
        return finding
    return replace(finding, at_most_ns=min(most, limit))
