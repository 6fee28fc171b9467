"""The summary of a trace: what ran, its launching ops, bound, largest cost, savings, unknowns.

This is the only author: terminal, Markdown, HTML and notebooks show these sentences. Names in them
are as the trace wrote them; renderers escape them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from foretrace.overview.page import EACH_STEP, WHOLE, LaunchSequence
from foretrace.schema import compiled
from foretrace.schema.documents.look import KernelRow, Look, RegionRow, StepRow, Totals, TraceEntry
from foretrace.schema.ledger import ABSENT
from foretrace.units import count_text, percent_text, plural, time_text, times_text

BOUNDS = {
    "overhead": "It is host-bound: the GPU is idle for more than half of a call or step.",
    "compute": "It is compute-bound: most GPU time is in kernels near the GPU's peak FLOP/s.",
    "memory": "It is memory-bound: most GPU time is in kernels near the GPU's peak bandwidth.",
    "comms": "It is communication-bound: most GPU time is in collectives.",
    "mixed": "It has no single bound: no kind of kernel dominates its GPU time.",
}
# Findings that say where the time goes rather than what to change; the summary names a change.
NO_REMEDY = frozenset({"idle_gaps", "metadata_only"})
# Savings that the summary names, and how small beside the largest one is too small for it; the list
# of findings has all.
NAMED, SMALL = 2, 0.05
# Wrapped around other ops by the compiler and the autograd engine: they launch nothing themselves.
WRAPPERS = (compiled.REGION, "autograd::engine", compiled.FUNCTION)
LAUNCHERS = 6  # ops that one sentence can name
UNKNOWN_SHARE = 0.1  # of kernel time without a known cost that is worth a word
ROLES = 4  # that one sentence can name


def sentences(look: Look, sequences: Sequence[LaunchSequence]) -> list[str]:
    """The sentences, in order."""
    if not look.totals.kernels:
        ops = plural(look.totals.cpu_ops, "host op")
        found = [_gap(look), f"The trace has no GPU kernels. It has {ops}.", _unknown(look)]
    else:
        region = _main_region(look)
        about = region.name if region else EACH_STEP if look.steps else WHOLE
        launched = next((each for each in sequences if each.region == about), None)
        ran = _region_ran(region, launched) if region else _ran(look)
        found = [_gap(look), ran, _launched_by(launched), _bound(look, region)]
        found += [_by_role(look.kernels), _largest(look.kernels), _savings(look), _unknown(look)]
    return [sentence for sentence in found if sentence]


def headline(trace: TraceEntry) -> str:
    """`NVIDIA H200 (sm90), rank 0 · 243 events · 3 steps · 1 region`."""
    rank = f", rank {trace.rank}" if trace.rank is not None else ""
    counts = ((trace.events, "event"), (trace.steps, "step"), (trace.regions, "region"))
    return " · ".join([device_text(trace) + rank, *(plural(count, one) for count, one in counts)])


def device_text(trace: TraceEntry) -> str:
    """`NVIDIA H200 (sm90)`."""
    arch = f" ({trace.arch})" if trace.arch else ""
    return f"{trace.device or 'no GPU named'}{arch}"


def roles_text(roles: Mapping[str, float], most: int = ROLES) -> str:
    """`3 GEMMs, 2 pointwise`, the commonest first; many roles are cut short."""
    ordered = sorted(roles.items(), key=lambda item: (-item[1], item[0]))
    words = [_role_count(role, count) for role, count in ordered[:most]]
    rest = sum(count for _, count in ordered[most:])
    return ", ".join([*words, f"{plural(rest, 'other')}"] if rest else words)


def _role_count(role: str, count: float) -> str:
    if role in ("gemm", "gemv"):
        return plural(count, role.upper())
    return plural(count, "copy", "copies") if role == "copy" else f"{count_text(count)} {role}"


def _gap(look: Look) -> str:
    """What the summary of an incomplete trace must say first."""
    missing = [note.text for note in look.ledger.notes if note.code in ABSENT]
    return f"The trace is incomplete: {missing[0]}." if missing else ""


def _ran(look: Look) -> str:
    totals, steps = look.totals, look.steps
    if not steps:
        busy = time_text(totals.gpu_busy_ns)
        return f"The recording has {_work(totals)} and {busy} of GPU time."
    middle = sorted(steps, key=lambda step: step.kernels)[len(steps) // 2]
    about = "with" if len(steps) == 1 else "each with about"
    busy = time_text(middle.gpu_busy_ns)
    count = plural(len(steps), "step")
    return f"The recording has {count}, {about} {_work(middle)} and {busy} of GPU time."


def _work(row: StepRow | Totals) -> str:
    counts = ((row.kernels, "kernel"), (row.memcpys, "memcpy"), (row.memsets, "memset"))
    return ", ".join(plural(count, kind) for count, kind in counts if count)


def _region_ran(region: RegionRow, own: LaunchSequence | None) -> str:
    launched = f"{plural(region.kernels_per_call, 'kernel')} ({roles_text(region.roles_per_call)})"
    copies = ((own.memcpys, "memcpy"), (own.memsets, "memset")) if own else ()
    others = [plural(count, kind) for count, kind in copies if count]
    if others:
        launched = " and ".join([", ".join([launched, *others[:-1]]), others[-1]])
    busy = None if region.gpu_busy_ns is None else region.gpu_busy_ns / region.count
    each = "It" if region.count == 1 else "Each call"
    ran = f"{region.name} ran {times_text(region.count)}."
    return f"{ran} {each} launched {launched}: {time_text(busy)} of GPU time."


def _launched_by(sequence: LaunchSequence | None) -> str:
    """Which ops launched the kernels of one call: the outermost op of each path."""
    by_op: dict[str, Counter[str]] = {}
    for row in sequence.rows if sequence else ():
        ops = [op for op in row.chain[:-1] if not op.startswith(WRAPPERS)]
        if ops and not row.name.startswith(("Memcpy", "Memset")):
            by_op.setdefault(ops[0], Counter())[row.role] += row.times
    words = [f"{op} ({roles_text(roles)})" for op, roles in by_op.items()]
    return f"Launched by: {'; '.join(words)}." if 0 < len(words) <= LAUNCHERS else ""


def _bound(look: Look, region: RegionRow | None) -> str:
    bounds = [region.bound] if region else [step.bound for step in look.steps] or ["unknown"]
    said = BOUNDS.get(max(bounds, key=bounds.count), "Its bound is unknown.")
    busy, span = look.totals.gpu_busy_ns, look.totals.gpu_span_ns
    if not busy or not span:
        return said
    share = f"{percent_text(busy / span)} of the time"
    return f"{said} From its first to its last operation the GPU was busy for {share}."


def _by_role(kernels: Sequence[KernelRow]) -> str:
    """How kernel time divides among the roles; nothing where there is one role."""
    roles: Counter[str] = Counter()
    for row in kernels:
        roles[row.role] += row.total_ns or 0
    total = roles.total()
    shares = [f"{percent_text(ns / total)} {role}" for role, ns in roles.most_common(ROLES) if ns]
    return f"Kernel time by role: {', '.join(shares)}." if len(shares) > 1 else ""


def _largest(kernels: Sequence[KernelRow]) -> str:
    total = sum(row.total_ns or 0 for row in kernels)
    if not total:
        return ""
    first = kernels[0]
    op = f" ({first.ops[0]})" if first.ops else ""
    cost = f"{plural(first.count, 'launch', 'launches')}, {time_text(first.total_ns)}"
    share = f"{percent_text((first.total_ns or 0) / total)} of kernel time{_rate(first)}"
    return f"The largest cost is {first.short or first.name}{op}: {cost}, {share}."


def _rate(row: KernelRow) -> str:
    if row.tflops and row.tflops >= 1:
        return f" at {row.tflops:,.0f} TFLOP/s"
    if row.gbps and row.gbps >= 100:
        return f" at {row.gbps / 1000:.2f} TB/s"
    return f" at {row.gbps:,.1f} GB/s" if row.gbps else ""


def _savings(look: Look) -> str:
    per = " per step" if look.steps else ""
    useful = [
        (row.at_most_ns, row.title)
        for row in look.findings
        if row.state == "found" and row.at_most_ns and row.rule not in NO_REMEDY
    ]
    words = [
        f"{title} (at most {time_text(ns)}{per})"
        for ns, title in useful[:NAMED]
        if ns >= SMALL * useful[0][0]
    ]
    return f"Possible savings: {'; '.join(words)}." if words else ""


def _unknown(look: Look) -> str:
    """Rules that lacked data, and GPU operations of unknown origin or cost."""
    findings, kernels = look.findings, look.kernels
    needs = [row.detail.removeprefix("needs ") for row in findings if row.state == "skipped"]
    words = sorted({need.split(":")[0] for need in needs})
    unlinked = sum(row.evidence.get("count", 0) for row in findings if row.rule == "unlinked_work")
    if unlinked:
        words.append(f"the launch of {plural(unlinked, 'GPU operation')}")
    total = sum(row.total_ns or 0 for row in kernels)
    without = sum(row.total_ns or 0 for row in kernels if row.flops is None and row.bytes is None)
    if total and without >= UNKNOWN_SHARE * total:
        words.append(f"FLOPs and bytes of {percent_text(without / total)} of kernel time")
    return f"Not in the trace: {'; '.join(words)}." if words else ""


def _main_region(look: Look) -> RegionRow | None:
    """The region that holds most of the GPU work, if one holds at least half of it."""
    rows = [row for row in look.regions if row.kernels_per_call and row.gpu_busy_ns]
    largest = max(rows, key=lambda row: row.gpu_busy_ns or 0, default=None)
    busy = largest.gpu_busy_ns or 0 if largest else 0
    return largest if 2 * busy >= (look.totals.gpu_busy_ns or 0) else None
