"""The article's table: for each setup what changed against the plain one and what stayed the same,
from the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.comparison.comparison import Comparison
from foretrace.comparison.measure import Change
from foretrace.comparison.ops import OpPair
from foretrace.comparison.wording import changed_kernels, fusions, listed, same_kernels
from foretrace.units import count_text, ratio_text, time_text

MOST = 3  # sentences of one sort; `foretrace compare` has them all


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `changed` and `same` hold a sentence each."""

    setup: str
    changed: tuple[str, ...]
    same: tuple[str, ...]


def row(setup: str, found: Comparison) -> Row:
    """The line for what B is, seen from A."""
    per, changed, same = f"per {found.unit.word}", other_work(found), same_work(found)
    for name, value in (("GPU time", found.gpu_ns), ("Host time", found.cpu_ns)):
        if value.ratio is not None:
            (changed if value.beyond else same).append(_time(name, value, per))
    return Row(setup, tuple(changed), tuple(same))


def other_work(found: Comparison) -> list[str]:
    """What else is done, times aside: a sentence each."""
    per = f"per {found.unit.word}"
    return [
        *_counts(found, per),
        *fusions(found.kernels.fusions, per, undone=False)[:MOST],
        *changed_kernels(found.kernels.changed)[:MOST],
        *([] if _on_gpu(found) else _ops(found, per)),
        *_compiler_rows(found, per),
    ]


def same_work(found: Comparison) -> list[str]:
    """What is done as before, times aside: a sentence each."""
    per = f"per {found.unit.word}"
    return [
        *same_kernels(found.kernels.same, per),
        *([] if _on_gpu(found) else _same_ops(found, per)),
    ]


def _on_gpu(found: Comparison) -> bool:
    return bool(found.a.kernels or found.b.kernels)


def _counts(found: Comparison, per: str) -> list[str]:
    pairs = (
        ("kernels", len(found.a.kernels), len(found.b.kernels)),
        ("memcpys", found.a.memcpys, found.b.memcpys),
        ("memsets", found.a.memsets, found.b.memsets),
    )
    moved = [f"{name} {count_text(a)} to {count_text(b)}" for name, a, b in pairs if a != b]
    return [f"{', '.join(moved)} {per}.".capitalize()] if moved else []


def _time(name: str, value: Change, per: str) -> str:
    if value.ratio == 1:
        return f"{name}: {time_text(value.a)} {per} in both."
    noise = (
        "" if value.beyond else ", inside the noise" if value.beyond is False else ", no verdict"
    )
    return (
        f"{name}: {time_text(value.a)} to {time_text(value.b)} {per} "
        f"({ratio_text(value.ratio)}{noise})."
    )


def _compiler_rows(found: Comparison, per: str) -> list[str]:
    """What torch.compile itself costs the host in each call."""
    rows = [entry for entry in found.ops.added if entry.by_compiler]
    spent = sum(entry.b_ns - entry.a_ns for entry in rows)
    return [f"torch.compile's own rows take {time_text(spent)} of host time {per}."] if rows else []


def _ops(found: Comparison, per: str) -> list[str]:
    """A CPU trace has no kernels: its ops are what can be told."""
    sentences = ((found.ops.removed, "No longer called"), (found.ops.added, "New"))
    return [
        f"{word} {per}: {_named(rows)}."
        for rows, word in sentences
        if any(not entry.by_compiler for entry in rows)
    ]


def _same_ops(found: Comparison, per: str) -> list[str]:
    return [f"Called as often {per}: {_named(found.ops.same)}."] if found.ops.same else []


def _named(rows: tuple[OpPair, ...]) -> str:
    return listed(
        [
            (entry.name, abs(entry.a - entry.b) or entry.a)
            for entry in rows
            if not entry.by_compiler
        ],
        few=8,
    )
