"""The verdict: what bounds a step or call, the evidence, what to do first, and what then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.model.bounds import MOSTLY_IDLE, PARTLY_IDLE
from foretrace.schema.documents.look import FindingEntry, Look, LookVerdict
from foretrace.show.overview.fixes import FLOOR, TRIAGE, WORTH, captured, fixes
from foretrace.show.overview.measured_step import MeasuredStep

LABELS = {
    "host": "HOST-BOUND",
    "sync": "SYNC-BOUND",
    "copy": "COPY-BOUND",
    "comms": "COMMS-BOUND",
    "compute": "GPU-BOUND",
    "memory": "GPU-BOUND",
    "mixed": "MIXED",
    "unknown": "UNKNOWN",
}
KINDS = {
    "compute": "compute-bound kernels",
    "memory": "memory-bound kernels",
    "latency": "kernels too small for the GPU",
    "copy": "memcpys and memsets",
    "comms": "collectives",
    "unknown": "kernels of unknown cost",
}
# The profiler slowed the host by at most four times in 37 of the 44 recordings of the ladder (H200,
# torch 2.11, record_shapes on); the others launch one or two kernels. A GPU that is busy for less
# than this would idle for most of the step without it too.
SURELY_IDLE = MOSTLY_IDLE / 4
KIND_SHARE, KINDS_NAMED = 0.05, 3
ROOFS = ("compute", "memory")


def of_unit(unit: MeasuredStep | None, findings: Sequence[FindingEntry] = ()) -> LookVerdict:
    """The verdict on a step, a call or a recording; None launched nothing."""
    if unit is None:
        return LookVerdict("unknown", "it launched nothing")
    orders = [_order(row) for row in fixes(unit, findings)]
    first, then = (*orders, "", "")[:2]
    floor = next((row.title for row in findings if row.rule == FLOOR and row.state == "found"), "")
    return LookVerdict(unit.bound, "".join(_evidence(unit)), first, floor or then)


def verdict(unit: MeasuredStep | None, look: Look) -> LookVerdict:
    """The verdict on one trace."""
    if unit is None:
        return LookVerdict("unknown", _without_gpu(look))
    # the floor of a served batch has its own line, with the cache in it
    served = any(row.floor_ns for row in look.serving)
    return of_unit(unit, [row for row in look.findings if not (served and row.rule == FLOOR)])


def label(bound: str, unit: MeasuredStep | None) -> str:
    """The word in front: `HOST-BOUND`. A busy GPU bounds a step, whatever its kernels do."""
    busy = unit is not None and unit.busy_share >= 1 - PARTLY_IDLE
    if unit is None:
        return "NO GPU TIME"
    return "GPU-BOUND" if busy and bound in ("mixed", "unknown") else LABELS[bound]


def _order(row: FindingEntry) -> str:
    return f"{row.fix}: {_why(row)}; saves at most {time_text(row.at_most_ns)}"


def _why(row: FindingEntry) -> str:
    """The title of a finding; the parts of what compiling saves, whose title has its own line."""
    if row.rule != TRIAGE:
        return _inside(row.title)
    seen = row.evidence
    fused = f"{plural(seen['small_kernels'], 'fusable kernel')} {time_text(seen['small_ns'])}"
    dispatch = f"dispatch {time_text(seen['dispatch_ns'])} and " if seen["dispatch_ns"] else ""
    return f"{dispatch}{fused} per step"


def _inside(title: str) -> str:
    """A title within a sentence: its first word small, unless it is a name such as ReLU or CUDA."""
    word = title.partition(" ")[0]
    return title[:1].lower() + title[1:] if word[1:].islower() or len(word) == 1 else title


def _evidence(unit: MeasuredStep) -> Iterator[str]:
    """How busy the GPU is, then what the bound rests on."""
    gpus = "" if unit.devices == 1 else f"{unit.devices} GPUs together: "
    yield f"{gpus}GPU busy {_part(unit.busy_ns, unit.wall_ns)} {unit.per}"
    yield f" ({percent_text(unit.busy_share)})"
    if unit.bound == "host":
        yield f": {_launches(unit)}"
    elif unit.bound == "sync":
        yield ", idle mostly after the host waited for it"
    elif captured(unit):
        yield f": the host captured CUDA graphs for {time_text(unit.idle_by_cause['capture'])}"
    else:
        yield f": {_kinds(unit)}"
    if unit.queued_ns > WORTH * unit.wall_ns:
        yield f"; launched work waited {time_text(unit.queued_ns)} more in the queue"
    if unit.bound == "host" and unit.profiled and unit.busy_share > SURELY_IDLE:
        yield "; without the profiler the GPU may keep busy"


def _part(part: float, whole: float) -> str:
    """`1.07 of 30.4 ms`; both units where they differ."""
    (number, _, unit), total = time_text(part).partition(" "), time_text(whole)
    return f"{number if total.endswith(f' {unit}') else time_text(part)} of {total}"


def _launches(unit: MeasuredStep) -> str:
    words = plural(unit.launches, "launch", "launches")
    if unit.graph_launches:
        words += f" ({count_text(unit.graph_launches)} of a CUDA graph)"
    # a median distance says nothing of a time that is mostly a few long pauses
    if unit.apart_ns is not None and 2 * unit.apart_ns * unit.launches >= unit.wall_ns:
        words += f", one every {time_text(unit.apart_ns)}"
    return f"{words}; median kernel {time_text(unit.kernel_ns)}"


def _kinds(unit: MeasuredStep) -> str:
    """`71.3% of GPU time in compute-bound kernels (40.2% of it at the roof), 20.1% in …`."""
    total = max(sum(unit.by_bound.values()), 1)
    ordered = sorted(unit.by_bound.items(), key=lambda item: (-item[1], item[0]))
    words = []
    for kind, ns in ordered[:KINDS_NAMED]:
        roof = f" ({_of_it(unit.at_roof.get(kind, 0), ns)} at the roof)" if kind in ROOFS else ""
        if ns >= KIND_SHARE * total:
            words.append(f"{percent_text(ns / total)} in {KINDS[kind]}{roof}")
    return ", ".join(words).replace(" in ", " of GPU time in ", 1)


def _of_it(part: int, whole: int) -> str:
    """`30.4% of it`, `all` or `none`."""
    return "all" if part == whole else f"{percent_text(part / whole)} of it" if part else "none"


def _without_gpu(look: Look) -> str:
    """Where the host's time goes: in a region with more time than all ops, else in an op."""
    totals, rows = look.totals, look.ops
    ops, total = plural(totals.cpu_ops, "host op"), sum(row.self_cpu_ns for row in rows)
    region = max(look.regions, key=lambda row: row.cpu_ns, default=None)
    if region and region.cpu_ns > total:
        ops += f" ({time_text(total)})" if total else ""
        calls, each = plural(region.count, "call"), time_text(region.cpu_ns / region.count)
        ops += f", most host time in {region.name} ({calls}, {each} each)"
    elif total:
        ops += f", most self time in {rows[0].name} ({percent_text(rows[0].self_cpu_ns / total)})"
    if totals.kernels or totals.memcpys or totals.memsets:
        return f"no GPU event has a usable time; {ops}"
    if totals.launches:
        launches = plural(totals.launches, "launch", "launches")
        return f"the trace has {launches} and no GPU events: they were not recorded, or nothing ran"
    return f"the trace has no GPU events; {ops}"
