"""Every sentence about counters: what a kernel moved by level, what stayed on chip, what fusing
saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.units import bytes_text, change_text, percent_text, plural, time_text
from foretrace.schema.cost import Certainty
from foretrace.schema.documents.counters import (
    CountedKernel,
    CountedRun,
    CountedTotal,
    MeasuredSaving,
    ReachedRoof,
)

# Counters of one kernel differ by less between runs (H200, memory kernels: 1% at HBM).
SAME = 0.05
OVER = "That is above the roof: time and counters are of different runs, and caches may differ."
_LEVEL = {"hbm": "HBM", "l2": "L2", "shared": "shared memory"}


def rate_text(rate: float, level: str) -> str:
    """`4.66e12` -> `4.66 TB/s`; operations as `733 TFLOP/s`, of integers as `TOP/s`."""
    if level.startswith("tensor"):
        unit = "TOP/s" if level.startswith("tensor int") else "TFLOP/s"
        return f"{rate / 1e12:.3g} {unit}"
    return f"{rate / 1e12:.2f} TB/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GB/s"


def level_text(level: str) -> str:
    """`tensor bf16` -> `bf16 tensor cores`."""
    kind = level.removeprefix("tensor ")
    return _LEVEL.get(level, f"{kind} tensor cores")


def reached_text(reached: ReachedRoof) -> str:
    """`4.47 TB/s of HBM, 95.9% of its roof`."""
    text = f"{rate_text(reached.rate, reached.level)} at {level_text(reached.level)}"
    return text if reached.share is None else f"{text}, {percent_text(reached.share)} of its roof"


def kernel_text(kernel: CountedKernel) -> str:
    """What one launch moved, what stayed on chip, and the nearest roof."""
    nearest = next((one for one in kernel.roofs if one.level == kernel.nearest), None)
    parts = [
        _hbm(kernel),
        _against_shapes(kernel),
        _l2(kernel),
        "" if nearest is None else f"Nearest roof: {reached_text(nearest)}.",
        OVER if nearest is not None and (nearest.share or 0) > 1 + SAME else "",
    ]
    return " ".join(filter(None, parts)) or "Nothing that this page shows was counted."


def _hbm(kernel: CountedKernel) -> str:
    read, written = kernel.bytes.hbm_read, kernel.bytes.hbm_written
    if read is None and written is None:
        return ""
    return f"HBM: {bytes_text(read)} read, {bytes_text(written)} written."


def _against_shapes(kernel: CountedKernel) -> str:
    """The traffic of HBM beside what the op must move, where its shapes state that."""
    must, moved = kernel.must_move, hbm_of(kernel.bytes.hbm_read, kernel.bytes.hbm_written)
    if (
        must is None
        or moved is None
        or kernel.certainty
        not in (
            Certainty.EXACT,
            Certainty.AT_LEAST,
        )
    ):
        return ""
    exact = kernel.certainty == Certainty.EXACT
    needed = f"The op must move {'' if exact else 'at least '}{bytes_text(must)}"
    if moved < must * (1 - SAME):
        return f"{needed}: {'' if exact else 'at least '}{bytes_text(must - moved)} stayed in L2."
    if not exact or moved <= must * (1 + SAME):
        return f"{needed}."
    why = "it read again, or wrote back what earlier kernels left in L2"
    return f"{needed}: HBM moved {bytes_text(moved - must)} more ({why})."


def _l2(kernel: CountedKernel) -> str:
    through, read, kept = kernel.bytes.l2, kernel.bytes.l2_read, kernel.bytes.kept_in_l2
    if through is None:
        return ""
    text = f"L2: {bytes_text(through)} to and from the multiprocessors"
    if read and kept is not None:
        return f"{text}; {percent_text(kept / read)} of the reads did not need HBM."
    return f"{text}."


def hbm_of(read: float | None, written: float | None) -> float | None:
    """Read and written together; None where one is not known."""
    return None if read is None or written is None else read + written


def run_sentences(
    runs: Sequence[CountedRun], total: CountedTotal, kernels: Sequence[CountedKernel]
) -> list[str]:
    """How many launches were joined, and what all of them moved."""
    return [*dict.fromkeys(_joined(run) for run in runs), *_totals(total, kernels)]


def _joined(run: CountedRun) -> str:
    launches = plural(run.launches, "launch", "launches")
    text = f"{run.joined:,} of {launches} joined to {run.place} ({plural(run.compared, 'kernel')})"
    return f"{text}: {run.note}." if run.note else f"{text}."


def _totals(total: CountedTotal, kernels: Sequence[CountedKernel]) -> list[str]:
    moved = hbm_of(total.bytes.hbm_read, total.bytes.hbm_written)
    if moved is None:
        return []
    time = "" if total.time_ns is None else f" in {time_text(total.time_ns)}"
    read, written = map(bytes_text, (total.bytes.hbm_read, total.bytes.hbm_written))
    counted = plural(total.launches, "launch", "launches")
    text = f"{counted}{time}: {read} read from HBM, {written} written."
    sure = all(one.certainty in (Certainty.EXACT, Certainty.AT_LEAST) for one in kernels)
    if total.must_move is None or not sure:
        return [text]
    must, least = total.must_move, "" if total.exact else "at least "
    needed = f"The ops must move {least}{bytes_text(must)}"
    if moved < must * (1 - SAME):
        kept = f"{least}{bytes_text(must - moved)} stayed in L2 between or inside kernels"
        return [text, f"{needed}: {kept}."]
    return [text, f"{needed}."]


def saving_sentences(saving: MeasuredSaving) -> list[str]:
    """What this run moves less or more than the earlier one, measured on both sides."""
    before, after = saving.before, saving.after
    rows = [
        ("GPU time", before.time_ns, after.time_ns, time_text),
        ("HBM", _hbm_total(before), _hbm_total(after), bytes_text),
        ("L2", before.bytes.l2, after.bytes.l2, bytes_text),
        ("L2 lookups", before.bytes.l2_lookups, after.bytes.l2_lookups, bytes_text),
        ("shared memory", before.bytes.shared, after.bytes.shared, bytes_text),
    ]
    counted = plural(after.launches, "launch", "launches")
    same = before.launches == after.launches
    found = [f"{counted} on both sides." if same else f"{before.launches:,} to {counted}."]
    for name, old, new, text in rows:
        if old is None or new is None or (not old and not new):
            continue
        if old and abs(new / old - 1) <= SAME:
            found.append(f"{name}: {change_text(old, new, text)}, within 5%.")
        else:
            change = f"{text(abs(new - old))} {'less' if new < old else 'more'}"
            found.append(f"{name}: {change_text(old, new, text)}, {change}.")
    return [*found, *_replaced(saving), *_estimated(saving)]


def _replaced(saving: MeasuredSaving) -> list[str]:
    """The kernels that changed, with what they moved on both sides."""
    if not saving.gone.kernels or not saving.new.kernels:
        return []
    sides = []
    for side in (saving.gone, saving.new):
        moved, time = _hbm_total(side.total), side.total.time_ns
        names = ", ".join(side.kernels[:4]) + (", …" if len(side.kernels) > 4 else "")
        facts = [
            "" if time is None else time_text(time),
            "" if moved is None else f"{bytes_text(moved)} of HBM",
        ]
        sides.append(f"{names} ({', '.join(filter(None, facts))})")
    return [f"Replaced: {sides[0]} by {sides[1]}."]


def _estimated(saving: MeasuredSaving) -> list[str]:
    """What shapes alone would have promised, beside what was counted."""
    old, new = saving.before.must_move, saving.after.must_move
    counted = [_hbm_total(saving.before), _hbm_total(saving.after)]
    if old is None or new is None or counted[0] is None or counted[1] is None:
        return []
    if not saving.before.exact or not saving.after.exact:
        return []
    promised, found = old - new, counted[0] - counted[1]
    if promised <= 0:
        return []
    return [
        f"From shapes alone the saving would be {bytes_text(promised)}; counted at HBM: "
        f"{bytes_text(found)}."
    ]


def _hbm_total(total: CountedTotal) -> float | None:
    return hbm_of(total.bytes.hbm_read, total.bytes.hbm_written)
