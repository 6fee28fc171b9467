"""How kernels and fusions are put into words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from foretrace.comparison.fusion import Fusion
from foretrace.comparison.kernels import KernelRow
from foretrace.comparison.launched import Kernel
from foretrace.units import bytes_text, count_text, percent_text, ratio_text, time_text

FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form
BACKENDS = {
    "inductor": "Inductor",
    "liger": "Liger",
    "triton": "Triton",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
}


def called(kernel: Kernel) -> str:
    """A kernel's name, or its short form where the name is C++ of many lines."""
    return kernel.name if len(kernel.name) <= LONG else kernel.short or kernel.name


def fusions(found: Sequence[Fusion], per: str, *, undone: bool) -> list[str]:
    """One sentence for each of those that save most, one for the rest."""
    ranked = sorted(found, key=lambda fusion: -abs(fusion.ns_saved or 0))
    lines, rest = (
        [(_undone if undone else _fused)(fusion, per) for fusion in ranked[: 2 * FEW]],
        ranked[2 * FEW :],
    )
    if rest:
        before, after = (
            sum(getattr(fusion, name) or 0 for fusion in rest) for name in ("ns_before", "ns_after")
        )
        first, second = (after, before) if undone else (before, after)
        lines.append(
            f"{count_text(len(rest))} more fusions{' are undone' if undone else ''}: "
            f"{time_text(first)} become "
            f"{time_text(second)} {per}."
        )
    return lines


def _fused(fusion: Fusion, per: str) -> str:
    verb = {
        "name": "replaces",
        "place": "takes the place of",
        "epilogue": "does",
        "merged": "does",
    }[fusion.sign]
    once = " in one kernel" if fusion.sign in ("epilogue", "merged") else ""
    times = f", {count_text(fusion.count)} times," if fusion.count > 1 else ""
    ops = joined(fusion.replaces)
    if fusion.kernels != len(fusion.replaces):
        ops = (
            f"{count_text(fusion.kernels)} {'kernels' if fusion.sign != 'merged' else 'calls'} "
            f"of {ops}"
        )
    made = BACKENDS.get(fusion.backend, fusion.backend)
    return f"{_fused_name(fusion)} ({made}){times} {verb} {ops}{once}: {_gain(fusion, per)}."


def _fused_name(fusion: Fusion) -> str:
    return fusion.kernel if len(fusion.kernel) <= LONG else fusion.short


def _gain(fusion: Fusion, per: str) -> str:
    parts = [f"{time_text(fusion.ns_before)} become {time_text(fusion.ns_after)} {per}"]
    copied = (
        f", {bytes_text(fusion.copied_bytes)} of them for a copy beside it"
        if fusion.copied_bytes
        else ""
    )
    if fusion.bytes_saved is None or fusion.bytes_before is None:
        parts.append("the bytes are not known")
    elif fusion.bytes_saved > 0:
        left = fusion.bytes_before - fusion.bytes_saved
        parts.append(
            f"{bytes_text(fusion.bytes_saved)} no longer travel "
            f"({bytes_text(fusion.bytes_before)} to "
            f"{bytes_text(left)}{copied})"
        )
    else:
        parts.append(
            f"no bytes are saved ({bytes_text(fusion.bytes_before - fusion.bytes_saved)} "
            f"travel{copied})"
        )
    return ", and ".join(parts)


def _undone(fusion: Fusion, per: str) -> str:
    travel = (
        f", and {bytes_text(fusion.bytes_saved)} travel again"
        if fusion.bytes_saved and fusion.bytes_saved > 0
        else ""
    )
    return (
        f"{_fused_name(fusion)} is undone: {joined(fusion.replaces)} run as kernels of their own, "
        f"{time_text(fusion.ns_after)} become {time_text(fusion.ns_before)} {per}{travel}."
    )


def changed_kernels(rows: Sequence[KernelRow]) -> list[str]:
    """One sentence for each of the few that matter most, one for the rest."""
    ranked = sorted(rows, key=lambda row: -max(row.ns.a or 0, row.ns.b or 0) * row.count)
    lines, rest = [_changed_kernel(row) for row in ranked[:FEW]], ranked[FEW:]
    if rest:
        before, after = (
            sum((getattr(row.ns, side) or 0) * row.count for row in rest) for side in ("a", "b")
        )
        lines.append(
            f"Others or launched otherwise: {count_text(sum(row.count for row in rest))} more, "
            f"{time_text(before)} to "
            f"{time_text(after)} together."
        )
    return lines


def _changed_kernel(row: KernelRow) -> str:
    assert row.a is not None
    assert row.b is not None
    many = f" each, {count_text(row.count)} times" if row.count > 1 else ""
    times = f"{time_text(row.ns.a)} to {time_text(row.ns.b)}{many}"
    if row.a.name == row.b.name:
        return f"{called(row.a)} runs with {joined(row.why)}: {times}."
    op = f" for {row.a.op}" if row.a.op and row.a.op == row.b.op else ""
    own = row.a.op in (row.a.name, row.b.op) or row.b.op == row.b.name
    moved = "" if own else f" ({row.a.op or 'no op'} to {row.b.op or 'no op'})"
    return (
        f"Another {row.a.role} kernel runs{op}: {called(row.a)} became {called(row.b)}{moved}, "
        f"{times}."
    )


def other_times(rows: Sequence[KernelRow], gpu_ns: float) -> list[str]:
    """Kernels that are the same and yet take another time, where that makes a hundredth of the GPU
    time or more.
    """
    ranked = sorted(
        (row for row in rows if row.ns.beyond and abs(row.saved_ns) >= gpu_ns / 100),
        key=lambda row: -abs(row.saved_ns),
    )
    return [
        f"{called(row.kernel)} is the same kernel and takes {time_text(row.ns.b)} instead of "
        f"{time_text(row.ns.a)} "
        f"({ratio_text(row.ns.ratio)}, noise {percent_text(row.ns.noise)})."
        for row in ranked[:FEW]
    ]


def lone_kernels(rows: Sequence[KernelRow], word: str, per: str) -> list[str]:
    """Kernels without a partner; those that belong to a fusion have had their sentence."""
    lone = [row for row in rows if not row.why]
    count = sum(row.count for row in lone)
    if not lone:
        return []
    names = listed([(row.kernel.short or row.kernel.name, row.count) for row in lone])
    return [
        f"{count_text(count)} {'kernel is' if count == 1 else 'kernels are'} {word} {per}: {names}."
    ]


def same_kernels(rows: Sequence[KernelRow], per: str) -> list[str]:
    """By role, with names where they are few."""
    roles: defaultdict[str, list[KernelRow]] = defaultdict(list)
    for row in rows:
        roles[row.kernel.role].append(row)
    counts = Counter({role: sum(row.count for row in members) for role, members in roles.items()})
    if len(rows) > 2 * FEW:
        what = joined([f"{count_text(count)} {role}" for role, count in counts.most_common()])
        return [
            f"{count_text(counts.total())} kernels {per} are the same by {_agreed(rows)}: {what}."
        ]
    return [
        f"{count_text(count)} {role} {'kernel is' if count == 1 else 'kernels are'} the same "
        f"{per} by "
        f"{_agreed(roles[role])}: "
        f"{listed([(called(row.kernel), row.count) for row in roles[role]])}."
        for role, count in counts.most_common()
    ]


def _agreed(rows: Sequence[KernelRow]) -> str:
    """What was there to agree."""
    shaped = all(
        side is not None and side.shapes is not None for row in rows for side in (row.a, row.b)
    )
    return (
        "name, launch configuration and shapes"
        if shaped
        else "name and launch configuration (not all shapes are recorded)"
    )


def listed(items: Sequence[tuple[str, int]], few: int = FEW) -> str:
    """`a (2), b, c and 3 more`, equal names joined."""
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    shown = [
        name if count == 1 else f"{name} ({count_text(count)})"
        for name, count in list(counts.items())[:few]
    ]
    more = len(counts) - len(shown)
    return joined([*shown, f"{count_text(more)} more"] if more > 0 else shown)


def joined(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
