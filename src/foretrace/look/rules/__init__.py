"""What an expert would say about a trace: one function per rule.

`@rule(...)` declares a function as a rule of its name, and its docstring is the manual page. To
write it into one of these files is all it takes; other packages bring rules through the entry point
group `foretrace.analyses`. A rule returns findings and draws nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from foretrace.base import budget, plugins
from foretrace.base.errors import LimitError
from foretrace.look.finding import Finding, Findings, Rule
from foretrace.read.compiler import rows as compiled
from foretrace.read.ledger import ABSENT

if TYPE_CHECKING:
    from foretrace.trace.trace import Trace


def _has_records(trace: Trace) -> bool:
    """Code that is not compiled has no records, and needs none."""
    needed = any(map(compiled.is_row, trace.host.names))
    return not needed or bool(trace.compiled) or trace.compiler_run is not None


# What a rule may need: how to tell whether the trace has it, and which capture option supplies it.
NEEDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "gpu": (
        lambda trace: trace.has("gpu"),
        "GPU events: record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "ops": (
        lambda trace: bool(trace.host.is_op.any() or trace.origins.is_captured.any()),
        "host ops: record with ProfilerActivity.CPU among the activities",
    ),
    "launches": (
        lambda trace: bool((trace.gpu.launch >= 0).any()),
        "launches of GPU operations: record host and GPU together",
    ),
    "clock": (lambda trace: trace.gpu.aligned, "one clock for GPU and host"),
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
        lambda trace: trace.tables["gpu"]["registers"].is_not_null().any(),
        "registers and shared memory per kernel, which this trace lacks (AMD's never have them)",
    ),
}


INCOMPLETE = ABSENT | {"gpu_events_missing"}


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by name."""
    found = plugins.declared(sys.modules[__name__], Rule, "foretrace.analyses")
    return tuple(sorted(found, key=lambda rule: rule.name))


def run_all(trace: Trace) -> Findings:
    """Every rule on one trace; one that fails is listed as crashed and hides no other."""
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
    from foretrace.look.rules._seen import step_ns

    try:
        budget.check()
        found = list(rule.check(trace))
        # kernels that overlap take more than a step together
        if any(each.at_most_ns for each in found) and (limit := step_ns(trace)):
            found = [
                replace(each, at_most_ns=each.at_most_ns and min(each.at_most_ns, limit))
                for each in found
            ]
    except (LimitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad rule must not hide the others
        return [Finding(rule.name, "crashed", rule.title, f"{type(error).__name__}: {error}")]
    missing = next((note for note in trace.ledger.notes if note.code in INCOMPLETE), None)
    if found or missing is None:
        return found or [Finding(rule.name, "clear", rule.title)]
    return [Finding(rule.name, "skipped", rule.title, f"needs a complete trace: {missing.text}")]
