"""A comparison in plain sentences. Names are given as the trace has them.

Two kinds of sentences need more than the comparison. A fusion saves memory traffic: what one kernel
writes is still in L2 for the next if L2 holds all that either of them moves, and then the traffic
takes less time than HBM's. A matmul may change its kernel because a size crossed a boundary of the
card's map. This is said only if both traces are of the map's card, the matmuls differ in one size,
and the map has exactly the kernels of the traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foretrace.analyze.compare.fusion import Fusion, KernelPair
from foretrace.analyze.compare.measure import Change
from foretrace.analyze.compare.sides import Kernel
from foretrace.analyze.compare.verdict import Comparison, differs
from foretrace.base.units import (
    bytes_text,
    change_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.model.costs.limits import cache_rate, memory_rate, traffic_ns
from foretrace.model.metadata import device_of
from foretrace.names.gemms import table
from foretrace.names.gemms.table import Boundary, GemmMap, crossed, differing, gemm_point
from foretrace.schema.device import Device
from foretrace.schema.documents.compare import ComparedOp
from foretrace.schema.gemm_point import GemmPoint

FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form


def called(name: str, short: str) -> str:
    """A kernel's name, or its short form where the name is long."""
    return name if len(name) <= LONG else short or name


def listed(items: Sequence[tuple[str, int]], few: int = FEW) -> str:
    """`a (2), b, c and 3 more`, equal names joined."""
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    names = [
        name if count == 1 else f"{name} ({count_text(count)})" for name, count in counts.items()
    ]
    more = len(names) - few
    return joined([*names[:few], f"{count_text(more)} more"] if more > 0 else names)


def joined(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


LARGEST = 3  # fusions that get a sentence; the document has all
LEAST = 1_000_000  # bytes: less takes no time worth a sentence


def traffic_lines(found: Comparison) -> list[str]:
    """One sentence for each of the largest fusions, and for what was fused before."""
    device = device_of(found.a.trace.about)
    if device is None or device_of(found.b.trace.about) != device:
        return []
    rows = [(each, "avoids at most") for each in found.kernels.fusions]
    rows += [(each, "avoided at most") for each in found.kernels.undone]
    rows = [row for row in rows if (row[0].bytes_saved or 0) >= LEAST]
    rows.sort(key=lambda row: -(row[0].bytes_saved or 0))
    return [_traffic_line(device, each, word) for each, word in rows[:LARGEST]]


def _traffic_line(device: Device, fusion: Fusion, word: str) -> str:
    saved, largest = fusion.bytes_saved or 0, fusion.largest_bytes
    names = listed([(op.removeprefix("aten::"), 1) for op in fusion.replaces])
    memory = saved / memory_rate(device) * 1e9
    text = f"Fusing {names} {word} {bytes_text(saved)} of memory traffic"
    if not largest or largest > (device.cache_bytes or 0) or not cache_rate(device):
        return f"{text}, {time_text(memory)} at the HBM roof."
    cached = traffic_ns(device, saved, largest)
    fits = f"A kernel moves at most {bytes_text(largest)}, which fits in L2"
    return f"{text}. {fits}: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM."


MOST = 3  # sentences of one kind; `foretrace compare` lists all


def crossings(pairs: tuple[KernelPair, ...], a: str | None, b: str | None) -> list[str]:
    """Sentences about pairs that changed on devices of these names."""
    matmuls = [pair for pair in pairs if pair.a and pair.b and pair.a.role == pair.b.role == "gemm"]
    found = table.of_device(a) if a == b and matmuls else None
    return [] if found is None else list(dict.fromkeys(_crossed(found, matmuls)))[:MOST]


def _crossed(found: GemmMap, pairs: list[KernelPair]) -> Iterator[str]:
    for pair in pairs:
        assert pair.a
        assert pair.b
        before, after = matmul_of(pair.a), matmul_of(pair.b)
        if before is None or after is None or pair.a.name == pair.b.name:
            continue
        between = crossed(found, (before, pair.a.name), (after, pair.b.name))
        name = differing(before, after)
        if between and name:
            yield _crossing_line(name, (before, after), pair, between, found.facts.device)


def _crossing_line(
    name: str,
    points: tuple[GemmPoint, GemmPoint],
    pair: KernelPair,
    between: list[Boundary],
    device: str,
) -> str:
    old, new = (getattr(point, name) for point in points)
    size, (first, *_) = name.upper(), between
    others = {each: getattr(points[0], each) for each in ("m", "n", "k") if each != name}
    fixed = ", ".join(f"{each.upper()} = {value}" for each, value in others.items())
    kernels = f"{pair.a.short} to {pair.b.short}" if pair.a and pair.b else ""
    where = f"between {size} = {first.last} and {size} = {first.first}"
    if len(between) > 1:
        where = f"{len(between)} times on the way, first {where}"
    return (
        f"The kernel changed ({kernels}) because {size} went from {old} to {new}: for {fixed} the "
        f"map of the {device} changes it {where}."
    )


def matmul_of(kernel: Kernel) -> GemmPoint | None:
    """The matmul that a kernel computed; None where the trace does not say."""
    if kernel.shapes is None:
        return None
    return gemm_point(kernel.op, *_operands(kernel.shapes), kernel.name)


def _operands(text: str) -> tuple[list[list[int]], list[str]]:
    """Sizes and types, as `sides.py` writes them: two JSON lists with a blank between."""
    at = text.find('] ["')
    try:
        dims = msgspec.json.decode(text[: at + 1], type=list[list[int]])
        return dims, msgspec.json.decode(text[at + 2 :], type=list[str])
    except msgspec.DecodeError:
        return [], []


SHOWN = 0.01  # of a sum: three digits are shown, so less is not visible


def changed(found: Comparison) -> tuple[str, ...]:
    """Everything that differs; empty for a trace compared with itself."""
    per = f"per {found.unit.word}"
    lines = [*circumstances(found), *_once(found)]
    for name, value in _times(found):
        if differs(value):
            lines.append(_time(name, value, per))
            lines += _host_parts(found) if value is found.cpu_ns else []
    counts = [f"{count_text(a)} to {_many(b, name)}" for name, a, b in _counts(found) if a != b]
    lines += [f"Counts {per}: {joined(counts)}."] if counts else []
    lines += [f"{row.text}." for row in found.work if row.fate != "same"]
    lines += traffic_lines(found)
    devices = (side.trace.about.device for side in (found.a, found.b))
    lines += crossings(found.kernels.changed, *devices)
    return (*lines, *_ops(found.ops.removed, "fewer", per), *_ops(found.ops.added, "more", per))


def unchanged(found: Comparison) -> tuple[str, ...]:
    """What stayed the same, and what changed by no more than the noise."""
    per = f"per {found.unit.word}"
    lines = [f"{row.text} (same)." for row in found.work if row.fate == "same"]
    lines += [
        _time(name, value, per)
        for name, value in _times(found)
        if value.saved is not None and not differs(value)
    ]
    counts = [_many(a, name) for name, a, b in _counts(found) if a == b and a]
    lines += [f"Same counts {per}: {joined(counts)}."] if counts else []
    if found.ops.same:
        calls = listed([(row.name, row.a) for row in found.ops.same])
        lines.append(f"Same op calls {per}: {calls}.")
    return tuple(lines)


def _times(found: Comparison) -> list[tuple[str, Change]]:
    wall = [("Profiled wall time", found.wall_ns)]
    return [
        ("GPU time", found.gpu_ns),
        ("Profiled host time", found.cpu_ns),
        *(wall if found.wall_ns != found.cpu_ns else []),  # a CPU has no other
        ("Wall time without the profiler", found.bare_wall_ns),
    ]


def _time(name: str, value: Change, per: str) -> str:
    ratio, times = value.ratio, change_text(value.a, value.b)
    if ratio is None:
        return f"{name}: {times} {per}."
    if ratio == 1:
        return f"{name} is the same: {time_text(value.a)} {per}."
    if value.noise is None:
        return f"{name}: {times} {per} ({ratio_text(ratio)}); inconclusive, the noise is unknown."
    noise = percent_text(value.noise)
    if not value.beyond:
        subject = name.replace("Profiled", "profiled").replace("Wall", "wall")
        within = f"is within the noise of {noise}"
        return f"Inconclusive: {subject}, {times} {per} ({ratio_text(ratio)}), {within}."
    word = "falls" if ratio < 1 else "rises"
    percent = percent_text(abs(ratio - 1))
    return f"{name} {word} by {percent}: {times} {per} ({ratio_text(ratio)}, noise {noise})."


def circumstances(found: Comparison) -> list[str]:
    """How two recordings differ before the program does."""
    a, b, lines = found.a.trace.about, found.b.trace.about, []
    if _differ(found, a.device, b.device) or _differ(found, a.arch, b.arch):
        gpus = f"{a.device or 'unknown'} and {b.device or 'unknown'}"
        both = "Every ratio compares the GPUs as well as the programs."
        lines.append(f"The GPUs differ: {gpus}. {both}")
    if _differ(found, a.rank, b.rank):
        ranks = ["unknown" if rank is None else str(rank) for rank in (a.rank, b.rank)]
        lines.append(f"The ranks differ: {joined(ranks)}.")
    for option in ("record_shapes", "with_stack", "profile_memory"):
        if _differ(found, option in a.options or None, option in b.options or None):
            only = f"Only {'A' if option in a.options else 'B'} was recorded with {option}=True"
            adds = "which adds host time: host and wall times are not comparable"
            lines.append(f"{only}, {adds}.")
    return lines


def _differ(found: Comparison, *values: object) -> bool:
    """Whether A and B differ; what a cut trace lacks may have followed the cut."""
    cut = [side.trace.ledger.count("trace_truncated") for side in (found.a, found.b)]
    lost = any(value is None and count for value, count in zip(values, cut, strict=True))
    return values[0] != values[1] and not lost


def _once(found: Comparison) -> list[str]:
    lone = [name for name, side in (("A", found.a), ("B", found.b)) if len(side.repeats.spans) == 1]
    if not lone or not any(value.noise is None and differs(value) for _, value in _times(found)):
        return []
    have = f"{joined(lone)} {'has' if len(lone) == 1 else 'have'} one repeat only"
    return [f"{have}: the noise is unknown, and every time below is inconclusive."]


def _host_parts(found: Comparison) -> list[str]:
    """What one part of the host saves, another may cost: the parts shown add up to the net."""
    saved = sum(row.self_cpu_ns.saved for row in found.ops.removed)
    cost = -sum(row.self_cpu_ns.saved for row in found.ops.added)
    net = found.cpu_ns.saved
    if not net or saved <= 0 or cost <= 0:
        return []
    rest, others = net - saved + cost, ""
    if abs(rest) > SHOWN * max(saved, cost):
        word = "saves" if rest > 0 else "costs"
        named = "other ops, launches, gaps" if _on_gpu(found) else "other ops, Python"
        others = f"; the rest ({named}) {word} {time_text(abs(rest))}"
    return [
        f"Profiled host time by part: ops called less often save {time_text(saved)} (self CPU "
        f"time); ops called more often cost {time_text(cost)}{others}; net {time_text(abs(net))} "
        f"{'less' if net > 0 else 'more'}."
    ]


def _counts(found: Comparison) -> list[tuple[str, int, int]]:
    a, b = found.a, found.b
    return [
        ("kernel", len(a.kernels), len(b.kernels)),
        ("memcpy", a.memcpys, b.memcpys),
        ("memset", a.memsets, b.memsets),
        ("launch", a.launches, b.launches),
    ]


def _many(count: int, name: str) -> str:
    return plural(count, name, "launches" if name == "launch" else "")


def _ops(rows: Sequence[ComparedOp], word: str, per: str) -> list[str]:
    """Ops and the rows of torch.compile have a sentence each."""
    lines = []
    for what in ("op call", "torch.compile row"):
        chosen = [row for row in rows if row.by_compiler is (what != "op call")]
        if chosen:
            count = sum(abs(row.a - row.b) for row in chosen)
            spent = abs(sum(row.self_cpu_ns.saved for row in chosen))
            names = listed([(row.name, abs(row.a - row.b)) for row in chosen], few=3 * FEW)
            counted = plural(count, f"{word} {what}")
            lines.append(f"{counted} {per} ({time_text(spent)} self CPU time): {names}.")
    return lines


def changed_work(found: Comparison) -> list[str]:
    """What B does that A does not, without times."""
    per = f"per {found.unit.word}"
    return [
        *_changed_counts(found, per),
        *[f"{row.text}." for row in found.work if row.fate != "same"][: 2 * MOST],
        *([] if _on_gpu(found) else _changed_ops(found, per)),
        *_compiler_rows(found, per),
    ]


def same_work(found: Comparison) -> list[str]:
    """What both do, without times."""
    per = f"per {found.unit.word}"
    ops = [] if _on_gpu(found) or not found.ops.same else [_named(found.ops.same)]
    kernels = [f"{row.text} {per}, the same." for row in found.work if row.fate == "same"]
    return [*kernels, *(f"Called as often {per}: {names}." for names in ops)]


def _on_gpu(found: Comparison) -> bool:
    return bool(found.a.kernels or found.b.kernels)


def _changed_counts(found: Comparison, per: str) -> list[str]:
    pairs = (
        ("kernels", len(found.a.kernels), len(found.b.kernels)),
        ("memcpys", found.a.memcpys, found.b.memcpys),
        ("memsets", found.a.memsets, found.b.memsets),
    )
    moved = [f"{name} {count_text(a)} to {count_text(b)}" for name, a, b in pairs if a != b]
    return [f"{', '.join(moved)} {per}.".capitalize()] if moved else []


def _compiler_rows(found: Comparison, per: str) -> list[str]:
    """What torch.compile itself costs the host in each call."""
    rows = [entry for entry in found.ops.added if entry.by_compiler]
    spent = -sum(entry.self_cpu_ns.saved for entry in rows)
    return [f"torch.compile's own rows take {time_text(spent)} of host time {per}."] if rows else []


def _changed_ops(found: Comparison, per: str) -> list[str]:
    """A CPU trace has no kernels: its ops show what changed."""
    groups = ((found.ops.removed, "No longer called"), (found.ops.added, "New"))
    named = ((word, _named(rows)) for rows, word in groups if _own(rows))
    return [f"{word} {per}: {names}." for word, names in named]


def _own(rows: tuple[ComparedOp, ...]) -> list[ComparedOp]:
    return [entry for entry in rows if not entry.by_compiler]


def _named(rows: tuple[ComparedOp, ...]) -> str:
    return listed([(entry.name, abs(entry.a - entry.b) or entry.a) for entry in _own(rows)], few=8)
