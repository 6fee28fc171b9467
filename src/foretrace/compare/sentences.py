"""A comparison in plain sentences. Names are given as the trace has them.

Two kinds of sentences need more than the comparison. A fusion saves memory traffic: what one kernel
writes is still in L2 for the next if L2 holds all that either of them moves, and then the traffic
takes less time than HBM's. A matmul may change its kernel because a size crossed a boundary of the
card's map. This is said only if both traces are of the map's card, the matmuls differ in one size,
and the map has exactly the kernels of the traces.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from foretrace.base import units
from foretrace.base.units import bytes_text, change_text, count_text, percent_text, plural
from foretrace.check import check, parse
from foretrace.compare.documents import ChangeEntry, ComparedOp
from foretrace.compare.fusion import Fusion
from foretrace.compare.sides import Kernel
from foretrace.compare.verdict import Comparison, differs
from foretrace.look.rules._seen import listing
from foretrace.trace.metadata import device_of
from foretrace.trace.trace import Trace
from foretrace.work.costs.limits import cache_rate, memory_rate, traffic_ns
from foretrace.work.device import Device
from foretrace.work.gemms import table
from foretrace.work.gemms.documents import MatmulSize
from foretrace.work.gemms.table import GemmMap, crossed, differing, gemm_point

FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form
LARGEST = 3  # fusions that get a sentence; the document has all
LEAST = 1_000_000  # bytes: less takes no time worth a sentence
MOST = 3  # sentences of one kind; `foretrace compare` lists all
SHOWN = 0.01  # of a sum: three digits are shown, so less is not visible
time_text, ratio_text = units.time_text, units.ratio_text


def called(name: str, short: str) -> str:
    """A kernel's name, or its short form where the name is long."""
    return name if len(name) <= LONG else short or name


def _listed(items: Iterable[tuple[str, int]], few: int = FEW) -> str:
    """`a (2), b, c and 3 more`, equal names joined."""
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    names = [
        name if count == 1 else f"{name} ({count_text(count)})" for name, count in counts.items()
    ]
    more = len(names) - few
    return listing([*names[:few], f"{count_text(more)} more"] if more > 0 else names)


def _traffic_line(device: Device, fusion: Fusion, word: str) -> str:
    saved, largest = fusion.bytes_saved or 0, fusion.largest_bytes
    names = _listed((op.removeprefix("aten::"), 1) for op in fusion.replaces)
    memory = saved / memory_rate(device) * 1e9
    text = f"Fusing {names} {word} {bytes_text(saved)} of memory traffic"
    if not largest or largest > (device.cache_bytes or 0) or not cache_rate(device):
        return f"{text}, {time_text(memory)} at the HBM roof."
    cached = traffic_ns(device, saved, largest)
    fits = f"A kernel moves at most {bytes_text(largest)}, which fits in L2"
    return f"{text}. {fits}: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM."


def _crossed(known: GemmMap, pairs: list[tuple[Kernel, Kernel]]) -> Iterator[str]:
    for a, b in pairs:
        before, after = matmul_of(a), matmul_of(b)
        if before is None or after is None or a.name == b.name:
            continue
        between = crossed(known, (before, a.name), (after, b.name))
        name = differing(before, after)
        if not between or not name:
            continue
        size, first = name.upper(), between[0]
        others = {each: getattr(before, each) for each in ("m", "n", "k") if each != name}
        fixed = ", ".join(f"{each.upper()} = {value}" for each, value in others.items())
        where = f"between {size} = {first.last} and {size} = {first.first}"
        if len(between) > 1:
            where = f"{len(between)} times on the way, first {where}"
        yield (
            f"The kernel changed ({a.short} to {b.short}) because {size} went from "
            f"{getattr(before, name)} to {getattr(after, name)}: for {fixed} the "
            f"map of the {known.facts.device} changes it {where}."
        )


def matmul_of(kernel: Kernel) -> MatmulSize | None:
    """The matmul that a kernel computed; None where the trace does not say."""
    if kernel.shapes is None:
        return None
    # sizes and types, as `sides.py` writes them: two JSON lists with a blank between
    at = kernel.shapes.find('] ["')
    try:
        dims = msgspec.json.decode(kernel.shapes[: at + 1], type=list[list[int]])
        types = msgspec.json.decode(kernel.shapes[at + 2 :], type=list[str])
    except msgspec.DecodeError:
        dims, types = [], []
    return gemm_point(kernel.op, dims, types, kernel.name)


def changed(found: Comparison) -> tuple[str, ...]:
    """Everything that differs; empty for a trace compared with itself."""
    per = f"per {found.unit.word}"
    lines = [*circumstances(found), *_once(found)]
    for name, value in _times(found):
        if differs(value):
            lines.append(_time(name, value, per))
            lines += _host_parts(found) if value is found.cpu_ns else []
    counts = [f"{count_text(a)} to {_many(b, name)}" for name, a, b in _counts(found) if a != b]
    lines += [f"Counts {per}: {listing(counts)}."] if counts else []
    lines += _changed_rows(found)
    device = device_of(found.a.trace.about)
    if device is None or device_of(found.b.trace.about) != device:
        traffic_lines = []
    else:
        rows = [(each, "avoids at most") for each in found.kernels.fusions]
        rows += [(each, "avoided at most") for each in found.kernels.undone]
        rows = [row for row in rows if (row[0].bytes_saved or 0) >= LEAST]
        rows.sort(key=lambda row: -(row[0].bytes_saved or 0))
        traffic_lines = [_traffic_line(device, each, word) for each, word in rows[:LARGEST]]
    changed = [(pair.a, pair.b) for pair in found.kernels.changed]
    matmuls = [(a, b) for a, b in changed if a and b and a.role == b.role == "gemm"]
    card = found.a.trace.about.device
    known = table.of_device(card) if card == found.b.trace.about.device and matmuls else None
    crossings = [] if known is None else list(dict.fromkeys(_crossed(known, matmuls)))[:MOST]
    lines += [*traffic_lines, *crossings]
    return (*lines, *_ops(found.ops.removed, "fewer", per), *_ops(found.ops.added, "more", per))


def _changed_rows(found: Comparison) -> list[str]:
    return [f"{row.text}." for row in found.work if row.fate != "same"]


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
    lines += [f"Same counts {per}: {listing(counts)}."] if counts else []
    if found.ops.same:
        calls = _listed((row.name, row.a) for row in found.ops.same)
        lines.append(f"Same op calls {per}: {calls}.")
    return tuple(lines)


def _times(found: Comparison) -> list[tuple[str, ChangeEntry]]:
    wall = [("Profiled wall time", found.wall_ns)]
    return [
        ("GPU time", found.gpu_ns),
        ("Profiled host time", found.cpu_ns),
        *(wall if found.wall_ns != found.cpu_ns else []),  # a CPU has no other
        ("Wall time without the profiler", found.bare_wall_ns),
    ]


def _time(name: str, value: ChangeEntry, per: str) -> str:
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
    cut = [side.trace.ledger.count("trace_truncated") for side in (found.a, found.b)]

    def differ(*values: object) -> bool:
        """Whether A and B differ; what a cut trace lacks may have followed the cut."""
        lost = any(value is None and count for value, count in zip(values, cut, strict=True))
        return values[0] != values[1] and not lost

    if differ(a.device, b.device) or differ(a.arch, b.arch):
        gpus = f"{a.device or 'unknown'} and {b.device or 'unknown'}"
        both = "Every ratio compares the GPUs as well as the programs."
        lines.append(f"The GPUs differ: {gpus}. {both}")
    if differ(a.rank, b.rank):
        ranks = ["unknown" if rank is None else str(rank) for rank in (a.rank, b.rank)]
        lines.append(f"The ranks differ: {listing(ranks)}.")
    for option in ("record_shapes", "with_stack", "profile_memory"):
        if differ(option in a.options or None, option in b.options or None):
            only = f"Only {'A' if option in a.options else 'B'} was recorded with {option}=True"
            adds = "which adds host time: host and wall times are not comparable"
            lines.append(f"{only}, {adds}.")
    return lines


def _once(found: Comparison) -> list[str]:
    lone = [name for name, side in (("A", found.a), ("B", found.b)) if len(side.repeats.spans) == 1]
    if not lone or not any(value.noise is None and differs(value) for _, value in _times(found)):
        return []
    have = f"{listing(lone)} {'has' if len(lone) == 1 else 'have'} one repeat only"
    return [f"{have}: the noise is unknown, and every time below is inconclusive."]


def _host_parts(found: Comparison) -> list[str]:
    """What one part of the host saves, another may cost: the parts shown add up to the net."""
    saved, cost = _spent(found.ops.removed), -_spent(found.ops.added)
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


def _spent(rows: Sequence[ComparedOp]) -> float:
    """What these take less in B."""
    return sum(row.self_cpu_ns.saved for row in rows)


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
            spent = time_text(abs(_spent(chosen)))
            counted = plural(sum(abs(row.a - row.b) for row in chosen), f"{word} {what}")
            names = _listed(((row.name, abs(row.a - row.b)) for row in chosen), few=3 * FEW)
            lines.append(f"{counted} {per} ({spent} self CPU time): {names}.")
    return lines


def changed_work(found: Comparison) -> list[str]:
    """What B does that A does not, without times. A CPU trace has no kernels: its ops show it."""
    per, ops = f"per {found.unit.word}", found.ops
    moved = [
        f"{name}s {count_text(a)} to {count_text(b)}" for name, a, b in _counts(found)[:3] if a != b
    ]
    lines = [f"{', '.join(moved)} {per}.".capitalize()] if moved else []
    lines += _changed_rows(found)[: 2 * MOST]
    if not _on_gpu(found):
        named = {"No longer called": _named(ops.removed), "New": _named(ops.added)}
        lines += [f"{word} {per}: {names}." for word, names in named.items() if names]
    # what torch.compile itself costs the host in each call
    if rows := [entry for entry in ops.added if entry.by_compiler]:
        spent = time_text(-_spent(rows))
        lines.append(f"torch.compile's own rows take {spent} of host time {per}.")
    return lines


def same_work(found: Comparison) -> list[str]:
    """What both do, without times."""
    per = f"per {found.unit.word}"
    kernels = [f"{row.text} {per}, the same." for row in found.work if row.fate == "same"]
    names = "" if _on_gpu(found) else _named(found.ops.same)
    return [*kernels, f"Called as often {per}: {names}."] if names else kernels


def _on_gpu(found: Comparison) -> bool:
    return bool(found.a.kernels or found.b.kernels)


def _named(rows: tuple[ComparedOp, ...]) -> str:
    own = [entry for entry in rows if not entry.by_compiler]
    counts = [(entry.name, abs(entry.a - entry.b) or entry.a) for entry in own]
    return _listed(counts, few=8) if counts else ""


def published(*names: str) -> str:
    """What `a100.toml` has under these names; empty for no name."""
    entries = [_read("a100")[name] for name in names if name]
    said = "; ".join(entry["text"] for entry in entries)
    return f"{said} ({entries[0]['source']})" if entries else ""


def published_of(*traces: Trace) -> str:
    """What the articles print of these programs; empty where one of them is not theirs."""
    found = {_program(trace) for trace in traces}
    shown = _read("articles")["shown"] if len(found) > 1 else []
    return next((published(*each["a100"]) for each in shown if found <= {*each["of"]}), "")


def _program(trace: Trace) -> str:
    """The program of the articles that a trace holds; empty for any other."""
    regions = trace.spans.region_groups().keys()
    for name, told in _read("articles")["program"].items():
        if regions & {*told["regions"]}:
            verdicts = check(trace, [parse(text) for text in told["holds"]])
            if all(each.verdict == "hit" for each in verdicts):
                return str(name)
    return ""


@cache
def _read(name: str) -> dict[str, Any]:
    place = files(__package__)
    return tomllib.loads(place.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
