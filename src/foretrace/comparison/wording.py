"""Kernels and fusions of a comparison in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from foretrace.comparison.fusion import Fusion
from foretrace.comparison.kernels import KernelPair
from foretrace.units import bytes_text, change_text, count_text, percent_text, plural, ratio_text

FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form
BACKENDS = {"cublas": "cuBLAS", "cudnn": "cuDNN"}
BACKENDS |= {"inductor": "Inductor", "liger": "Liger", "triton": "Triton"}
VERBS = {
    "name": "replaces {}",
    "place": "takes the place of {}",
    "epilogue": "computes {} in one kernel",
    "merged": "computes {} in one kernel",
}


def called(name: str, short: str) -> str:
    """A kernel's name, or its short form where the name is long."""
    return name if len(name) <= LONG else short or name


def fusions(found: Sequence[Fusion], per: str, *, undone: bool) -> list[str]:
    """One sentence for each of those that save most, one for the rest."""
    ranked = sorted(found, key=lambda fusion: -abs(fusion.ns_saved or 0))
    shown, rest = ranked[: 2 * FEW], ranked[2 * FEW :]
    lines = [(_undone if undone else _fused)(fusion, per) for fusion in shown]
    if rest:
        before = sum(fusion.ns_before or 0 for fusion in rest)
        after = sum(fusion.ns_after or 0 for fusion in rest)
        times = change_text(after, before) if undone else change_text(before, after)
        only = " only in A" if undone else ""
        lines.append(f"{plural(len(rest), 'more fusion')}{only}: {times} {per}.")
    return lines


def _fused(fusion: Fusion, per: str) -> str:
    maker = BACKENDS.get(fusion.backend, fusion.backend)
    launches = f", {count_text(fusion.count)} launches" if fusion.count > 1 else ""
    ops = joined(fusion.replaces)
    if fusion.kernels != len(fusion.replaces):
        ops = f"{plural(fusion.kernels, 'call' if fusion.sign == 'merged' else 'kernel')} of {ops}"
    who = f"{called(fusion.kernel, fusion.short)} ({maker}{launches})"
    times = change_text(fusion.ns_before, fusion.ns_after)
    return f"{who} {VERBS[fusion.sign].format(ops)}: {times} {per}; {_traffic(fusion)}."


def _traffic(fusion: Fusion) -> str:
    before, saved = fusion.bytes_before, fusion.bytes_saved
    if saved is None or before is None:
        return "memory traffic unknown"
    copy = f", {bytes_text(fusion.copied_bytes)} of it for a copy" if fusion.copied_bytes else ""
    if saved == 0:
        return f"same memory traffic ({bytes_text(before)}{copy})"
    change = change_text(before, before - saved, bytes_text)
    word = "less" if saved > 0 else "more"
    return f"{bytes_text(abs(saved))} {word} memory traffic ({change}{copy})"


def _undone(fusion: Fusion, per: str) -> str:
    saved = fusion.bytes_saved or 0
    traffic = f"; {bytes_text(saved)} more memory traffic" if saved > 0 else ""
    return (
        f"{called(fusion.kernel, fusion.short)} is no longer fused: {joined(fusion.replaces)} run "
        f"as separate kernels, {change_text(fusion.ns_after, fusion.ns_before)} {per}{traffic}."
    )


def changed_kernels(rows: Sequence[KernelPair]) -> list[str]:
    """One sentence for each of the few that matter most, one for the rest."""
    ranked = sorted(rows, key=lambda row: -row.total_ns)
    lines, rest = [_changed_kernel(row) for row in ranked[:FEW]], ranked[FEW:]
    if rest:
        before = sum((row.ns.a or 0) * row.count for row in rest)
        after = sum((row.ns.b or 0) * row.count for row in rest)
        more = plural(sum(row.count for row in rest), "more kernel")
        lines.append(f"{more} changed: {change_text(before, after)} in total.")
    return lines


def _changed_kernel(row: KernelPair) -> str:
    a, b = row.kernel, row.b or row.kernel
    many = f" each ({count_text(row.count)} launches)" if row.count > 1 else ""
    times = f"{change_text(row.ns.a, row.ns.b)}{many}"
    old, new = called(a.name, a.short), called(b.name, b.short)
    if a.name == b.name:
        return f"{old} is launched differently ({joined(row.why)}): {times}."
    kernel = f"{a.role} kernel" if a.role != "other" else "kernel"
    of = f" of {a.op}" if a.op and a.op == b.op else ""
    # Inductor's ops have the names of their kernels
    if a.op not in (a.name, b.op) and b.op != b.name:
        old, new = f"{old} ({a.op or 'no op'})", f"{new} ({b.op or 'no op'})"
    return f"The {kernel}{of} changes from {old} to {new}: {times}."


def other_times(rows: Sequence[KernelPair], gpu_ns: float) -> list[str]:
    """The same kernels with another time, where that is a hundredth of the GPU time or more."""
    other = [row for row in rows if row.ns.beyond and abs(row.saved_ns) >= gpu_ns / 100]
    return [
        f"{called(row.kernel.name, row.kernel.short)} is the same kernel but "
        f"{'faster' if row.saved_ns > 0 else 'slower'}: {change_text(row.ns.a, row.ns.b)} "
        f"({ratio_text(row.ns.ratio)}, noise {percent_text(row.ns.noise)})."
        for row in sorted(other, key=lambda row: -abs(row.saved_ns))[:FEW]
    ]


def lone_kernels(rows: Sequence[KernelPair], word: str, per: str) -> list[str]:
    """Kernels without a partner that belong to no fusion."""
    lone = [row for row in rows if not row.why]
    if not lone:
        return []
    names = listed([(row.kernel.short or row.kernel.name, row.count) for row in lone])
    return [f"{plural(sum(row.count for row in lone), 'kernel')} {word} {per}: {names}."]


def same_kernels(rows: Sequence[KernelPair], per: str) -> list[str]:
    """By role, with names where they are few."""
    roles: defaultdict[str, list[KernelPair]] = defaultdict(list)
    for row in rows:
        roles[row.kernel.role].append(row)
    counts = Counter({role: sum(row.count for row in members) for role, members in roles.items()})
    if len(rows) > 2 * FEW:
        what = joined([f"{count_text(count)} {role}" for role, count in counts.most_common()])
        return [f"{plural(counts.total(), 'kernel')} {per} are the same ({_agreed(rows)}): {what}."]
    lines = []
    for role, count in counts.most_common():
        kernels = [(called(row.kernel.name, row.kernel.short), row.count) for row in roles[role]]
        lines.append(
            f"{plural(count, f'{role} kernel')} {per} {'is' if count == 1 else 'are'} the same "
            f"({_agreed(roles[role])}): {listed(kernels)}."
        )
    return lines


def _agreed(rows: Sequence[KernelPair]) -> str:
    sides = [side for row in rows for side in (row.a, row.b)]
    if all(side is not None and side.shapes is not None for side in sides):
        return "name, launch configuration and shapes"
    return "name and launch configuration; not all shapes are recorded"


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
