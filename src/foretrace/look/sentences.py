"""The first screen of a trace in words: the verdict and its evidence, what to do first and what
then, serving, memory, notes.

Terminal, Markdown, HTML and notebooks show these lines, and escape the names in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from foretrace.base.errors import first_line
from foretrace.base.tables import Line
from foretrace.base.units import bytes_text, count_text, percent_text, plural, ratio_text, time_text
from foretrace.look import fixes
from foretrace.look.documents import (
    FindingEntry,
    IgnoredEntry,
    Look,
    LookVerdict,
    ServingRow,
    TraceMemory,
)
from foretrace.look.fixes import Predicted
from foretrace.look.measured_step import (
    FIRST_USE,
    HARDLY,
    TRIAGE,
    WORTH,
    MeasuredStep,
    captured,
    title_of,
    whole_ns,
)
from foretrace.look.on_cpu import cpu_lines
from foretrace.look.predictions import first_text, next_fix, no_fix, then_text
from foretrace.look.steering import FIX, IGNORED, RULE
from foretrace.look.trust import MILD, trust_lines
from foretrace.trace.bounds import PARTLY_IDLE
from foretrace.trace.metadata import TraceEntry

ROLES = 4  # that one phrase can name
NAMED = 4  # rules or fixes that the line of ignored ones names
REASON = 80  # characters of the user's reason that it shows
CAPTURES = ("capture_mismatch", "capture_left_out")
FLOORS = {
    "memory": "weights and KV cache read once",
    "weights": "weights read once; the KV cache is not known",
    "compute": "its FLOP at the peak",
}
SHOWN = 3  # kinds of batches on the first screen; `--json` has all
PARTS = 3  # of the peak of memory that fit one line
LEAST = 0.005  # of the peak: less is not worth a word
SLOW = ("record_shapes", "with_stack", "profile_memory")  # what slows the host most


def lines(look: Look, step: MeasuredStep | None) -> list[Line]:
    """The lines of the first screen above and below its table."""
    said, trust = look.verdict, [*trust_lines(look.trust)]
    mild = {each.cause for each in look.trust} <= MILD
    recorded = "recorded " if step and step.recorded_ns else ""
    return [
        *([] if mild else trust),
        Line(label(said.bound, step, on_cpu=bool(look.cpu)), said.text),
        *cpu_lines(look.cpu),
        *(Line(row.kind.upper(), _served(row, recorded)) for row in look.serving[:SHOWN]),
        *([Line("DO FIRST", said.first)] if said.first else _nothing(look, step)),
        *([Line("THEN", said.then)] if said.then else []),
        *([Line("COMPILE", answer)] if (answer := _compiling(look)) else []),
        *_memory_lines(look.memory),
        *(trust if mild else []),
        *ignored_lines(look.ignored),
    ]


def _served(row: ServingRow, recorded: str) -> str:
    """One kind of batch."""
    mean = "" if row.context is None else count_text(round(row.context / row.requests))
    each = f", mean context {mean}" if mean else ""
    speed = f"{plural(row.tokens, 'token')} in {recorded}{time_text(row.time_ns)}"
    rate = "" if row.tokens_per_s is None else f", {count_text(round(row.tokens_per_s))} tokens/s"
    more = f" besides {time_text(row.unrecorded_ns)} not recorded" if row.unrecorded_ns else ""
    limits = "".join(_limits(row))
    return f"{plural(row.requests, 'request')}{each}: {speed}{more}{rate}{limits}"


def _limits(row: ServingRow) -> Iterator[str]:
    if row.floor_ns:
        what = FLOORS[row.floor_by]
        times = row.time_ns / row.floor_ns
        far = ratio_text(times) if times < 10 else f"{times:,.0f}x"
        yield f"; {far} its floor of {time_text(row.floor_ns)} ({what})"
    shares = [("MBU", row.mbu), ("MFU", row.mfu)]
    words = [f"{name} {percent_text(share)}" for name, share in shares if share is not None]
    if words:
        yield f"; {', '.join(words)}"


def ignored_lines(rows: Sequence[IgnoredEntry]) -> Iterator[Line]:
    """What the user wants not to hear of, counted, so that nothing is hidden without a word."""
    for word, is_ignored in (("IGNORED", True), ("NOT SELECTED", False)):
        if mine := [row for row in rows if (row.how == IGNORED) is is_ignored]:
            yield Line(word, _counted(mine))


def _counted(rows: Sequence[IgnoredEntry]) -> str:
    """`2 findings: sync_stalls (an eval loop), gemm_choice; 1 fix: cuda_graph`."""
    parts = []
    for kind, what in ((RULE, ("finding", "findings")), (FIX, ("fix", "fixes"))):
        mine = [row for row in rows if row.kind == kind]
        count = sum(row.findings for row in mine) if kind == RULE else len(mine)
        why = [f" ({first_line(row.reason, REASON)})" if row.reason else "" for row in mine]
        told = [row.name + each for row, each in zip(mine[:NAMED], why, strict=False)]
        told += ["…"] * (len(mine) > NAMED)
        parts += [f"{plural(count, *what)}: {', '.join(told)}"] if mine else []
    return "; ".join(parts)


def _memory_lines(found: TraceMemory | None) -> list[Line]:
    """`MEMORY  peak 7.02 GB: activations 4.40 GB, …`."""
    if found is None:
        return []
    said = f"peak {bytes_text(found.peak_bytes)}"
    if found.reserved_bytes is not None:
        said += f", reserved {bytes_text(found.reserved_bytes)}"
    large = [item for item in found.parts.items() if item[1] >= LEAST * found.peak_bytes]
    if large:
        said += f": {', '.join(f'{name} {bytes_text(size)}' for name, size in large[:PARTS])}"
    elif found.before_bytes:
        said += f"; {bytes_text(found.before_bytes)} were in use when the recording began"
    more = f" (foretrace memory {found.source})" if found.source else ""
    return [Line("MEMORY", said + more)]


def _compiling(look: Look) -> str:
    """Whether compiling helps: the predicted steps, or what a rule says of a step that is not
    replayed.
    """
    answer, step = title_of(look.findings, TRIAGE).removeprefix("Compiling "), look.step
    if title_of(look.findings, FIRST_USE):
        return ""
    if step is None or not answer or answer.startswith(HARDLY):
        return answer
    # The step in both modes of torch.compile; the one with CUDA graphs fuses kernels as well.
    named = [each for name in _WAYS for each in look.fixes if each.name == name]
    firsts = [f" without {each.first}" if each.first else "" for each in named]
    told = [f"about {time_text(e.compiled_ns or e.ns)} with {_WAYS[e.name]}" for e in named]
    if len(set(firsts)) == 1:
        ways = ", ".join(told) + (f";{firsts[0]}" if firsts[0] else "")
    else:
        ways = ", ".join(map("".join, zip(told, firsts, strict=True)))
    if not ways and any(row.name in _WAYS for row in look.ignored):
        return ""  # what compiling brings is known, and not wanted
    if not ways and "record_shapes" not in look.options:
        return answer
    if not ways:
        return "predicted to gain less than 3%"
    return f"{time_text(step.ns)} to {ways}"


_WAYS = {"compile": "torch.compile", "cuda_graph": 'mode="reduce-overhead"'}


def notes(look: Look, step: MeasuredStep | None) -> str:
    """One line of facts below the table: `MFU 0.3% of wall · 3 findings below 1% of the step`."""
    found = sum(row.state == "found" for row in look.findings)
    count = [plural(found, "finding")] if found else []
    return " · ".join([*_rates(look, step), *count, *_captures(look), *_unknown(look, step)])


def headline(look: Look) -> str:
    """`NVIDIA H200, rank 0 · 3 steps · profiled, record_shapes on: host times inflated`."""
    trace = look.trace
    rank = f", rank {trace.rank}" if trace.rank is not None else ""
    parts = [f"{'CPU' if look.cpu else device_text(trace)}{rank}"]
    parts += [plural(trace.steps, "step")] if trace.steps else []
    totals = look.totals
    if not (totals.cpu_ops or totals.launches or totals.kernels + totals.memcpys + totals.memsets):
        return " · ".join([*(parts if trace.device else parts[1:]), "no torch op was recorded"])
    if not look.host_times_profiled:
        return " · ".join([*parts, "wall times from the run record"])
    # how far host times can be trusted; the options named are those that slow the host
    said = {"with_stack"} if any(each.cause == "stacks" for each in look.trust) else set()
    slow = [option for option in SLOW if option in look.options and option not in said]
    options = f", {', '.join(slow)} on" if slow else ""
    return " · ".join([*parts, f"profiled{options}: host times inflated"])


def device_text(trace: TraceEntry) -> str:
    """`NVIDIA H200 (sm90)`."""
    arch = f" ({trace.arch})" if trace.arch else ""
    return f"{trace.device or 'GPU not named'}{arch}"


def roles_text(roles: Mapping[str, float], most: int = ROLES) -> str:
    """`3 GEMMs, 2 pointwise`, the commonest first; many roles are cut short."""
    ordered = sorted(roles.items(), key=lambda item: (-item[1], item[0]))
    named = {"gemm": ("GEMM", "GEMMs"), "gemv": ("GEMV", "GEMVs"), "copy": ("copy", "copies")}
    words = [
        plural(count, *named[role]) if role in named else f"{count_text(count)} {role}"
        for role, count in ordered[:most]
    ]
    rest = sum(count for _, count in ordered[most:])
    return ", ".join([*words, f"{plural(rest, 'other')}"] if rest else words)


def _nothing(look: Look, step: MeasuredStep | None) -> Iterator[Line]:
    """No fix: said only where the rules could look."""
    if step is None:
        return
    if captured(step):
        yield Line("DO FIRST", "record the replays: a capture runs nothing on the GPU")
        return
    skipped = [row.detail for row in look.findings if row.state == "skipped"]
    lacking = f"; {plural(len(skipped), 'rule')} lacked data (--findings)" if skipped else ""
    none = no_fix(skipped, other=any(row.kind == FIX for row in look.ignored))
    if look.step is None:
        none = "no step can be replayed, so no fix is predicted (foretrace look --fixes)"
    yield Line("DO FIRST", none + lacking)


def _rates(look: Look, step: MeasuredStep | None) -> Iterator[str]:
    whole = "recorded wall" if step and step.recorded_ns else "wall"  # the verdict has another
    for name, wall, gpu in (("MFU", look.mfu, look.mfu_gpu), ("MBU", look.mbu, look.mbu_gpu)):
        shares = ((wall, whole), (gpu, "GPU time"))
        words = [f"{percent_text(share)} of {of}" for share, of in shares if share is not None]
        if words:
            yield f"{name} {', '.join(words)}"


def _captures(look: Look) -> Iterator[str]:
    """That captures were of no use; `--findings` has each file."""
    said = {note.code: note.text for note in look.ledger.notes if note.code in CAPTURES}
    text = said.get(CAPTURES[0]) or said.get(CAPTURES[1])
    if text:
        yield f"captures: {text} (--findings)"


def _unknown(look: Look, step: MeasuredStep | None) -> Iterator[str]:
    """What the trace lacks: data of rules, launches, costs that the verdict does not name."""
    details = [row.detail for row in look.findings if row.state == "skipped" and not look.cpu]
    words = sorted({re.split("[:,]", detail.removeprefix("needs "))[0] for detail in details})
    found = [row.evidence for row in look.findings if row.rule == "unlinked_work"]
    unlinked = sum(evidence.get("count", 0) for evidence in found)
    if unlinked:
        words.append(f"the launch of {plural(unlinked, 'GPU operation')}")
    is_idle, by_bound = step and step.bound in ("host", "sync"), step.by_bound if step else {}
    share = by_bound.get("unknown", 0) / max(sum(by_bound.values()), 1) if is_idle else 0.0
    if share >= 0.1:  # of GPU time in kernels without a known cost that is worth a word
        words.append(f"the cost of kernels with {percent_text(share)} of GPU time")
    if words:
        yield f"not in the trace: {', '.join(words)}"


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
    # a rule may bound what no replay predicts, such as collectives that overlap with nothing
    bounded = _largest(step, look.findings, fixes.WORTH)
    first = first_text(look.step, look.fixes[0]) if look.fixes else bounded
    after = next_fix(look.fixes)
    then = then_text(after) if after else ""
    return LookVerdict(step.bound, "".join(_evidence(step)), first, then)


def _largest(step: MeasuredStep, findings: Sequence[FindingEntry], worth: float = WORTH) -> str:
    """Where no fix is predicted: the one that may save most, with its bound."""
    if captured(step):
        return ""
    least = max(worth * whole_ns(step), 1)
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
        words = plural(step.launches, "launch", "launches")
        if step.graph_launches:
            words += f" ({count_text(step.graph_launches)} of a CUDA graph)"
        # a median distance says nothing of a time that is mostly a few long pauses
        if step.apart_ns is not None and 2 * step.apart_ns * step.launches >= step.wall_ns:
            words += f", one every {time_text(step.apart_ns)}"
        yield f": {words}; median kernel {time_text(step.kernel_ns)}"
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
    if not look.cpu:
        return f"the trace has no GPU events; {ops}"
    profiled, where = time_text(look.cpu[0].total_ns), "per step"
    if not look.steps:
        where = f"in {look.cpu[0].name}"
    elif bare_ns is not None:
        bare = f"{time_text(bare_ns)} per step without the profiler"
        return f"{bare}, {profiled} with it; {ops}"
    return f"{profiled} {where} with the profiler; {ops}"
