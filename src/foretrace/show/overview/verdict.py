"""The verdict: what bounds a step or call, the evidence, what to do first, and what then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.analyze.fixes import Predicted
from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.model.bounds import PARTLY_IDLE
from foretrace.schema.documents.look import FindingEntry, Look, LookVerdict
from foretrace.show.overview.measured_step import (
    FIRST_USE,
    WORTH,
    MeasuredStep,
    captured,
    title_of,
    whole_ns,
)
from foretrace.show.overview.predictions import first_text, next_fix, then_text

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
KIND_SHARE, KINDS_NAMED = 0.05, 3
ROOFS = ("compute", "memory")


def verdict_of(step: MeasuredStep | None, findings: Sequence[FindingEntry] = ()) -> LookVerdict:
    """The verdict on a step, a call or a recording; None launched nothing."""
    if step is None:
        return LookVerdict("unknown", "it launched nothing")
    first = _largest(step, findings)
    return LookVerdict(step.bound, "".join(_evidence(step)), first)


def verdict(
    step: MeasuredStep | None,
    look: Look,
    on_cpu: Predicted | None = None,
    bare_ns: float | None = None,
) -> LookVerdict:
    """The verdict on one trace: what to do is ranked by the predicted time of a step.

    What a CPU gains depends on the machine more than a trace can tell: the order is said there,
    without a time. `bare_ns` is a step without the profiler, as the run record has it.
    """
    if step is None:
        found = [each.proposal for each in (on_cpu.fixes if on_cpu else ())]
        orders = [f"{each.order}: {each.why}" for each in found]
        return LookVerdict("unknown", _without_gpu(look, bare_ns), *orders[:2])
    if look.step is None:
        return verdict_of(step, look.findings)
    # the first of them that can be done now leads the list
    if setup := title_of(look.findings, FIRST_USE):
        first = f"run the step once before the recording: {_inside(setup)}"
        return LookVerdict(step.bound, "".join(_evidence(step)), first)
    first = first_text(look.step, look.fixes[0]) if look.fixes else ""
    after = next_fix(look.fixes)
    then = then_text(after) if after else ""
    return LookVerdict(step.bound, "".join(_evidence(step)), first, then)


def _largest(step: MeasuredStep, findings: Sequence[FindingEntry]) -> str:
    """Where a step cannot be replayed: the fix that may save most, with its bound."""
    if captured(step):
        return ""
    least = max(WORTH * whole_ns(step), 1)
    rows = [row for row in findings if row.fix and (row.at_most_ns or 0) >= least]
    if not rows:
        return ""
    row = max(rows, key=lambda row: row.at_most_ns or 0)
    return f"{row.fix}: {_inside(row.title)}; saves at most {time_text(row.at_most_ns)}"


def label(bound: str, step: MeasuredStep | None, *, on_cpu: bool = False) -> str:
    """The word in front: `HOST-BOUND`. A busy GPU bounds a step, whatever its kernels do."""
    busy = step is not None and step.busy_share >= 1 - PARTLY_IDLE
    if step is None:
        return "CPU TIME" if on_cpu else "NO GPU TIME"
    return "GPU-BOUND" if busy and bound in ("mixed", "unknown") else LABELS[bound]


def _inside(title: str) -> str:
    """A title within a sentence: its first word small, unless it is a name such as ReLU or CUDA."""
    word = title.partition(" ")[0]
    return title[:1].lower() + title[1:] if word[1:].islower() or len(word) == 1 else title


def _evidence(step: MeasuredStep) -> Iterator[str]:
    """How busy the GPU is, then what the bound rests on."""
    gpus = "" if step.devices == 1 else f"{step.devices} GPUs together: "
    yield f"{gpus}GPU busy {_part(step.busy_ns, step.wall_ns)} {step.per}"
    recorded = f", recorded {time_text(step.recorded_ns)}" if step.recorded_ns else ""
    yield f" ({percent_text(step.busy_share)}{recorded})"
    if step.bound == "host":
        yield f": {_launches(step)}"
    elif step.bound == "sync":
        yield ", idle mostly after the host waited for it"
    elif captured(step):
        yield f": the host captured CUDA graphs for {time_text(step.idle_by_cause['capture'])}"
    else:
        yield f": {_kinds(step)}"
    if step.queued_ns > WORTH * step.wall_ns:
        yield f"; launched work waited {time_text(step.queued_ns)} in the queue"


def _part(part: float, whole: float) -> str:
    """`1.07 of 30.4 ms`; both units where they differ."""
    (number, _, suffix), total = time_text(part).partition(" "), time_text(whole)
    return f"{number if total.endswith(f' {suffix}') else time_text(part)} of {total}"


def _launches(step: MeasuredStep) -> str:
    words = plural(step.launches, "launch", "launches")
    if step.graph_launches:
        words += f" ({count_text(step.graph_launches)} of a CUDA graph)"
    # a median distance says nothing of a time that is mostly a few long pauses
    if step.apart_ns is not None and 2 * step.apart_ns * step.launches >= step.wall_ns:
        words += f", one every {time_text(step.apart_ns)}"
    return f"{words}; median kernel {time_text(step.kernel_ns)}"


def _kinds(step: MeasuredStep) -> str:
    """`71.3% of GPU time in compute-bound kernels (40.2% of it at the roof), 20.1% in …`."""
    total = max(sum(step.by_bound.values()), 1)
    ordered = sorted(step.by_bound.items(), key=lambda item: (-item[1], item[0]))
    words = []
    for kind, ns in ordered[:KINDS_NAMED]:
        at_roof = step.at_roof.get(kind, 0)
        part = f"{percent_text(at_roof / ns)} of it" if at_roof else "none"
        roof = f" ({'all' if at_roof == ns else part} at the roof)" if kind in ROOFS else ""
        if ns >= KIND_SHARE * total:
            words.append(f"{percent_text(ns / total)} in {KINDS[kind]}{roof}")
    return ", ".join(words).replace(" in ", " of GPU time in ", 1)


def _without_gpu(look: Look, bare_ns: float | None) -> str:
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
    return f"{_cpu_time(look, bare_ns) if look.cpu else 'the trace has no GPU events'}; {ops}"


def _cpu_time(look: Look, bare_ns: float | None) -> str:
    """`20.4 ms per step without the profiler, 28.1 ms with it`."""
    profiled = time_text(look.cpu[0].total_ns)
    if not look.steps:
        return f"{profiled} in {look.cpu[0].name} with the profiler"
    if bare_ns is None:
        return f"{profiled} per step with the profiler"
    return f"{time_text(bare_ns)} per step without the profiler, {profiled} with it"
