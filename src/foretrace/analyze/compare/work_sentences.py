"""What two programs do differently and what both do, a sentence each, without times."""

from __future__ import annotations

from foretrace.analyze.compare.comparison import Comparison
from foretrace.analyze.compare.ops import OpPair
from foretrace.analyze.compare.wording import listed
from foretrace.base.units import count_text, time_text

_MOST = 3  # sentences of one kind; `foretrace compare` lists all


def changed_work(found: Comparison) -> list[str]:
    """What B does that A does not, without times."""
    per = f"per {found.unit.word}"
    return [
        *_counts(found, per),
        *[f"{row.text}." for row in found.work if row.fate != "same"][: 2 * _MOST],
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


def _counts(found: Comparison, per: str) -> list[str]:
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
    spent = sum(entry.b_ns - entry.a_ns for entry in rows)
    return [f"torch.compile's own rows take {time_text(spent)} of host time {per}."] if rows else []


def _changed_ops(found: Comparison, per: str) -> list[str]:
    """A CPU trace has no kernels: its ops show what changed."""
    groups = ((found.ops.removed, "No longer called"), (found.ops.added, "New"))
    named = ((word, _named(rows)) for rows, word in groups if _own(rows))
    return [f"{word} {per}: {names}." for word, names in named]


def _own(rows: tuple[OpPair, ...]) -> list[OpPair]:
    return [entry for entry in rows if not entry.by_compiler]


def _named(rows: tuple[OpPair, ...]) -> str:
    return listed([(entry.name, abs(entry.a - entry.b) or entry.a) for entry in _own(rows)], few=8)
