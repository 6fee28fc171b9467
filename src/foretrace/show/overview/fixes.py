"""Which findings name the fixes of the first screen: the largest first, nothing saved twice.

A rule promises what its own fix can save. Fixes overlap: a graph saves all dispatch, compiling
saves views and fuses kernels. The second line is what the first one leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from foretrace.model.bounds import MOSTLY_IDLE
from foretrace.schema.documents.look import FindingEntry
from foretrace.show.overview.measured_step import MeasuredStep

# A fix that saves less of the step than this is not worth a line of the first screen.
WORTH = 0.01
# A graph saves all dispatch, so no part of it is a second fix; with a run record its saving has
# all idle time in it, that after waits too. How far a decode step is from reading its weights once
# says more than the next fix.
GRAPH, FLOOR = "launch_bound", "weights_floor"
VIEWS, FUSES = "metadata_only", "fusable_pointwise"
DISPATCH, WAITS = frozenset({VIEWS, "idle_gaps"}), frozenset({"sync_stalls"})
TRIAGE = "compile_triage"  # has its own line; another rule with the same fix is more exact
IN_GRAPHS = "fusable_in_graphs"
BY_COMPILING = frozenset({VIEWS, FUSES})
OPTIMIZER, HARDLY = "unfused_optimizer", "can hardly help"


def fixes(step: MeasuredStep, findings: Sequence[FindingEntry]) -> list[FindingEntry]:
    """Findings that name a fix worth doing, by largest possible saving; no fix twice.

    None where the host captured a graph: it does so once, and what counts is the replay.
    """
    least, found = max(WORTH * whole_ns(step), 1), dict[str, FindingEntry]()
    if captured(step):
        return []
    for row in sorted(findings, key=lambda row: row.rule == TRIAGE):
        if row.fix and (row.at_most_ns or 0) >= least:
            found.setdefault(row.fix, row)
    left_out = _left_out(step, list(found.values()), triage(findings))
    worth = [row for row in found.values() if row.rule not in left_out]
    if any(row.rule == GRAPH for row in worth):
        worth = [row for row in map(_after_graph, worth) if (row.at_most_ns or 0) >= least]
    worth.sort(key=lambda row: -(row.at_most_ns or 0))
    return [row for row in worth if row is worth[0] or not _part_of(row, worth[0])]


def _part_of(row: FindingEntry, first: FindingEntry) -> bool:
    """Whether the first fix removes most of what this one would change."""
    return 2 * len(set(row.events) & set(first.events)) > len(row.events)


def _left_out(step: MeasuredStep, rows: Sequence[FindingEntry], answer: str) -> frozenset[str]:
    """Rules whose saving is host time that the profiler inflated, or part of another's saving;
    where compiling can hardly help, those whose fix it is.
    """
    left_out = BY_COMPILING if answer.startswith(HARDLY) else frozenset()
    if any(row.rule in (FUSES, TRIAGE) for row in rows):
        left_out |= {VIEWS}  # the same change
    if any(row.rule == IN_GRAPHS for row in rows):
        left_out |= {"casts"}  # among the kernels that fuse
    rules, all_in_one = {row.rule for row in rows}, any(map(_saves_dispatch, rows))
    if step.profiled and step.bound != "host" and step.busy_share > 1 - MOSTLY_IDLE:
        return left_out | DISPATCH | {GRAPH} | ({TRIAGE} if all_in_one else set())
    if GRAPH in rules:
        return left_out | DISPATCH | (frozenset() if step.profiled else WAITS)
    return left_out | DISPATCH | BY_COMPILING if all_in_one else left_out


def captured(step: MeasuredStep) -> bool:
    """Whether capturing CUDA graphs took most of the time."""
    return step.idle_by_cause.get("capture", 0) > step.wall_ns / 2


def _saves_dispatch(row: FindingEntry) -> bool:
    """Whether this advises to compile for dispatch, more than for kernels that fuse."""
    return row.rule == TRIAGE and "reduce-overhead" in row.fix


def _after_graph(row: FindingEntry) -> FindingEntry:
    """What a fix saves beside a graph, which already saves the idle time before an optimizer."""
    if row.rule != OPTIMIZER:
        return row
    return replace(row, at_most_ns=(row.at_most_ns or 0) - row.evidence["idle_ns"])


def triage(findings: Sequence[FindingEntry]) -> str:
    """Whether compiling helps, where a rule could tell."""
    found = (row.title for row in findings if row.rule == TRIAGE and row.state == "found")
    return next(found, "").removeprefix("Compiling ")


def whole_ns(step: MeasuredStep) -> float:
    """What the savings of findings are of: a step, or without steps the recording."""
    return step.wall_ns if step.per == "per step" else step.wall_ns * step.calls
