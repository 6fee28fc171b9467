"""The story of a trace in a few plain sentences, made from the document of `look`: what ran, who
asked for it, what it is bound by, what costs most, what could be saved, and what could not be
known.
"""

from __future__ import annotations

from typing import Any

from foretrace.schema import compiled
from foretrace.schema.ledger import ABSENT
from foretrace.units import count_text, percent_text, time_text

BOUNDS = {
    "overhead": "by overhead: the GPU spends more than half of the time waiting for the host",
    "compute": "by compute: most of its GPU time is in kernels near the card's peak rate",
    "memory": "by memory: most of its GPU time is in kernels near the card's bandwidth",
    "comms": "by communication: most of its GPU time is in collectives",
    "mixed": "by nothing in particular: no one kind of kernel dominates its GPU time",
}
# Findings that say where the time goes rather than what to change; the story names a change.
NO_REMEDY = frozenset({"idle_gaps", "metadata_only"})
# Savings that the story names, and how small beside the largest one is too small for it; the list
# of findings has all.
NAMED, SMALL = 2, 0.05
# Wrapped around other ops by the compiler and the autograd engine: they ask for nothing themselves.
WRAPPERS = (compiled.REGION, "autograd::engine", compiled.FUNCTION)
ASKERS = 6  # ops that one sentence can name
DARK = 0.1  # share of kernel time without a known cost that is worth a word


def story(document: dict[str, Any], sequences: list[dict[str, Any]]) -> list[str]:
    """The sentences, in order. Names in them are as the trace wrote them: whoever draws makes them
    safe.
    """
    if not document["totals"]["kernels"]:
        ops = _count(document["totals"]["cpu_ops"], "host op")
        alone = f"No GPU kernel is recorded: the trace holds {ops}."
        return [sentence for sentence in (_gap(document), alone, _unknown(document)) if sentence]
    region = _main_region(document)
    about = (
        region["name"] if region else "each step" if document["steps"] else "the whole recording"
    )
    asked = _asked(next((entry for entry in sequences if entry["region"] == about), None))
    sentences = (
        _gap(document),
        _ran(document, sequences),
        asked,
        _bound(document),
        _largest(document),
        _saved(document),
    )
    return [sentence for sentence in (*sentences, _unknown(document)) if sentence]


def _gap(document: dict[str, Any]) -> str:
    """What a story of a part must say first."""
    missing = [note["text"] for note in document["ledger"]["notes"] if note["code"] in ABSENT]
    return f"This is a part of a trace: {missing[0]}." if missing else ""


def roles_text(roles: dict[str, float], most: int = 4) -> str:
    """`3 gemm, 2 pointwise`, the commonest first; many roles are cut short."""
    ordered = sorted(roles.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{count_text(count)} {role}" for role, count in ordered[:most]]
    rest = sum(count for _, count in ordered[most:])
    return ", ".join([*words, f"{count_text(rest)} others"] if rest else words)


def _ran(document: dict[str, Any], sequences: list[dict[str, Any]]) -> str:
    region, steps = _main_region(document), document["steps"]
    if region:
        return _region_ran(region, sequences)
    if not steps:
        totals = document["totals"]
        return f"{_work(totals)} ran, {time_text(totals['gpu_busy_ns'])} of GPU work in all."
    middle = sorted(steps, key=lambda step: step["kernels"])[len(steps) // 2]
    about = "with" if len(steps) == 1 else "each with about"
    return (
        f"{_count(len(steps), 'step')} ran, {about} {_work(middle)} and "
        f"{time_text(middle['gpu_busy_ns'])} of GPU work."
    )


def _region_ran(region: dict[str, Any], sequences: list[dict[str, Any]]) -> str:
    own = next((entry for entry in sequences if entry["region"] == region["name"]), None)
    kernels = (
        f"{_count(region['kernels_per_call'], 'kernel')} ({roles_text(region['roles_per_call'])})"
    )
    others = [
        _count(own[kind + "s"], kind) for kind in ("memcpy", "memset") if own and own[kind + "s"]
    ]
    launched = " and ".join([", ".join([kernels, *others][:-1]), others[-1]]) if others else kernels
    busy = None if region["gpu_busy_ns"] is None else region["gpu_busy_ns"] / region["count"]
    each = "it" if region["count"] == 1 else "each call"
    times = _count(region["count"], "time")
    return (
        f"{region['name']} ran {times}; {each} launched {launched}, and kept the GPU busy for "
        f"{time_text(busy)}."
    )


def _work(row: dict[str, Any]) -> str:
    return ", ".join(
        _count(row[kind + "s"], kind) for kind in ("kernel", "memcpy", "memset") if row[kind + "s"]
    )


def _asked(entry: dict[str, Any] | None) -> str:
    """Which ops asked for the kernels of one call: the outermost op of each path."""
    asked: dict[str, dict[str, float]] = {}
    for row in entry["rows"] if entry else ():
        ops = [op for op in row["chain"][:-1] if not op.startswith(WRAPPERS)]
        if ops and not row["name"].startswith(("Memcpy", "Memset")):
            roles = asked.setdefault(ops[0], {})
            roles[row["role"]] = roles.get(row["role"], 0) + row["times"]
    words = [f"{op} for {roles_text(roles)}" for op, roles in asked.items()]
    return f"Who asked: {'; '.join(words)}." if 0 < len(words) <= ASKERS else ""


def _bound(document: dict[str, Any]) -> str:
    region = _main_region(document)
    bounds = (
        [region["bound"]]
        if region
        else [step["bound"] for step in document["steps"]] or ["unknown"]
    )
    found = max(bounds, key=bounds.count)
    busy, span = document["totals"]["gpu_busy_ns"], document["totals"]["gpu_span_ns"]
    said = (
        f"It is bound {BOUNDS[found]}."
        if found in BOUNDS
        else "What it is bound by cannot be told."
    )
    if not busy or not span:
        return said
    return (
        f"{said} From the first to the last kernel the GPU was busy for "
        f"{percent_text(busy / span)} of the time."
    )


def _largest(document: dict[str, Any]) -> str:
    kernels = [row for row in document["kernels"] if row["total_ns"]]
    if not kernels:
        return ""
    first, total = kernels[0], sum(row["total_ns"] for row in kernels)
    op = f" for {first['ops'][0]}" if first["ops"] else ""
    cost = f"{_count(first['count'], 'launch', 'launches')}, {time_text(first['total_ns'])}"
    share = f"{percent_text(first['total_ns'] / total)} of kernel time{_rate(first)}"
    return f"The largest cost is {first['short'] or first['name']}{op}: {cost}, {share}."


def _rate(row: dict[str, Any]) -> str:
    if row["tflops"] and row["tflops"] >= 1:
        return f" at {row['tflops']:,.0f} TFLOP/s"
    return f" at {row['gbps'] / 1000:.2f} TB/s" if row["gbps"] else ""


def _saved(document: dict[str, Any]) -> str:
    per = " per step" if document["steps"] else ""
    found = [row for row in document["findings"] if row["state"] == "found" and row["at_most_ns"]]
    useful = [row for row in found if row["rule"] not in NO_REMEDY]
    worth = [row for row in useful if row["at_most_ns"] >= SMALL * useful[0]["at_most_ns"]]
    words = [
        f"{row['title']} (at most {time_text(row['at_most_ns'])}{per})" for row in worth[:NAMED]
    ]
    return f"What could be saved: {'; '.join(words)}." if words else ""


def _unknown(document: dict[str, Any]) -> str:
    """Rules that lacked data, and GPU work whose origin or cost nobody can tell."""
    findings, kernels = document["findings"], document["kernels"]
    lacking = {
        row["detail"].removeprefix("needs ").split(":", 1)[0]
        for row in findings
        if row["state"] == "skipped"
    }
    unlinked = sum(
        row["evidence"].get("count", 0) for row in findings if row["rule"] == "unlinked_work"
    )
    time = sum(row["total_ns"] or 0 for row in kernels)
    dark = sum(
        row["total_ns"] or 0 for row in kernels if row["flops"] is None and row["bytes"] is None
    )
    words = [f"the trace has no {what}" for what in sorted(lacking)]
    words += (
        [f"{_count(unlinked, 'piece')} of GPU work without a launch belong to no op"]
        if unlinked
        else []
    )
    if time and dark >= DARK * time:
        words.append(f"what {percent_text(dark / time)} of kernel time had to compute and move")
    return f"Not known: {'; '.join(words)}." if words else ""


def _main_region(document: dict[str, Any]) -> dict[str, Any] | None:
    """The region that holds most of the GPU work, if one holds at least half of it."""
    rows = [row for row in document["regions"] if row["kernels_per_call"] and row["gpu_busy_ns"]]
    largest = max(rows, key=lambda row: row["gpu_busy_ns"], default=None)
    return (
        largest
        if largest and 2 * largest["gpu_busy_ns"] >= (document["totals"]["gpu_busy_ns"] or 0)
        else None
    )


def _count(count: float, one: str, many: str = "") -> str:
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
