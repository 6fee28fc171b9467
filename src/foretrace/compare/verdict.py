"""Is B faster than A, and is the change worth its cost? Answered only where something proves it.

Two programs are not compared. An eager and a compiled program share few ops and most kernels; one
program at two sizes or on two GPUs shares its ops. Then run records decide, else the bounds of GPU
and host time, else a replay of both steps: `docs/compare.md` ("The verdict") says how.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from foretrace.base.display import Displayed, View, view
from foretrace.base.units import change_text, percent_text, plural, ratio_text, time_text
from foretrace.compare.changes import KernelTable, WorkChange, spent
from foretrace.compare.documents import ChangeEntry, ComparedOps, CompareVerdict, MarkedFix, Worth
from foretrace.compare.matching import MATMULS
from foretrace.compare.measure import Sample, measured
from foretrace.compare.sides import Kernel, OpCalls, RepeatUnit, Side

if TYPE_CHECKING:
    from foretrace.look.fixes import FixPrediction, Predicted

# Recorded pairs of one program on an H200 share 94% or more of the GPU time of one side, or 71% of
# their ops; an H100's and an MI300X's share 99%. Unrelated pairs share at most 42% and 39%.
ENOUGH = 0.5


class Likeness(Struct, frozen=True):
    """Shares of the GPU time of A and of B, and of the op calls, that have a counterpart."""

    a: float
    b: float
    ops: float

    @property
    def one_program(self) -> bool:
        """Whether anything but totals can be compared."""
        return max(self.a, self.b, self.ops) >= ENOUGH

    @property
    def text(self) -> str:
        """What shows that there are two programs."""
        gpu = f"{percent_text(self.a)} of the GPU time of A and {percent_text(self.b)} of that of B"
        return (
            f"only {gpu} have a counterpart in the other, and {percent_text(self.ops)} of the ops"
        )


def likeness(
    table: KernelTable, ops_a: Mapping[str, OpCalls], ops_b: Mapping[str, OpCalls]
) -> Likeness | None:
    """How much corresponds; None where a side has no GPU work to judge by."""

    def corresponds(a: Kernel, b: Kernel) -> bool:
        same_call = a.op == b.op and a.shapes is not None and a.shapes == b.shapes
        same_matmul = bool(a.flops) and a.flops == b.flops and a.role == b.role in MATMULS
        return a.name == b.name or same_call or same_matmul

    pairs = [row for row in table.changed if row.a and row.b and corresponds(row.a, row.b)]
    fused = [part for part in table.parts if part.fusion is not None or part.undone is not None]
    shares = []
    for side, lone in (("a", table.removed), ("b", table.added)):
        total, known = (
            sum(getattr(row, f"spent_{side}") or 0 for row in rows)
            for rows in ((*table.same, *table.changed, *lone), (*table.same, *pairs))
        )
        known += sum(spent(getattr(part, side)) or 0 for part in fused)
        shares.append(min(known / total, 1.0) if total else None)
    a, b = shares
    calls = [sum(op.calls for op in side.values()) for side in (ops_a, ops_b)]
    both = sum(min(op.calls, ops_b[name].calls) for name, op in ops_a.items() if name in ops_b)
    shared = both / max(calls) if any(calls) else 0.0
    return None if a is None or b is None else Likeness(a, b, shared)


# A record whose host takes this share of the time is limited by it.
HOST_LIMITED = 0.9
# Shared cores made a step up to six times as long (two threads that wait for each other, beside two
# busy processes); what is further apart has another reason.
MOST_BY_SHARING = 10.0
WORDS = {"faster": "Yes", "slower": "No", "same": "No change", "inconclusive": "Inconclusive"}
WORDS["different"] = "Not comparable"


def weigh(verdict: CompareVerdict, gpu: ChangeEntry, cost_s: float | None, word: str) -> Worth:
    """Weigh what one `word` (call, step, run) saves against what the change costs once."""
    least, most = verdict.saves_at_least_ns, verdict.saves_at_most_ns
    saves = least if verdict.answer == "faster" else most
    if verdict.basis == RECORDS and least is not None and most is not None:
        saves = (least + most) / 2  # measured, not bounded
    calls, text = break_even(saves, cost_s), f"{WORDS[verdict.answer]}: {verdict.text}"
    if verdict.answer == "faster":
        return Worth(saves, cost_s, calls, text + cost_text(cost_s, calls, word))
    more = on_the_gpu(gpu, cost_s, word) if verdict.answer == "slower" else ""
    return Worth(saves, cost_s, calls, f"{text}.{more}")


def break_even(saves: float | None, cost_s: float | None) -> int | None:
    """After how many calls the cost is saved; None where nothing is saved or a part is unknown."""
    if saves is None or saves <= 0 or cost_s is None:
        return None
    return math.ceil(cost_s * 1e9 / saves)


def cost_text(cost_s: float | None, calls: int | None, word: str) -> str:
    """The break-even, or why there is none."""
    if cost_s is None or calls is None:
        return ". The compile time is not recorded: pass --compile-seconds to get the break-even."
    if cost_s == 0:
        return ". Nothing was compiled."
    return f"; compile time ({time_text(cost_s * 1e9)}) breaks even after {plural(calls, word)}."


def on_the_gpu(gpu: ChangeEntry, cost_s: float | None, word: str) -> str:
    """The GPU alone got faster: this helps where the host is not the bottleneck."""
    if not gpu.beyond or gpu.saved is None or gpu.saved <= 0:
        return ""
    calls = break_even(gpu.saved, cost_s or None)
    tail = f" and breaks even after {plural(calls, word)}" if calls is not None else ""
    where = "Where it is (larger inputs, CUDA graphs), the change saves"
    saved = f"{time_text(gpu.saved)} of GPU time"
    return f" The GPU is not the bottleneck. {where} {saved}{tail}."


DECIDE = "to decide, time both without the profiler (`foretrace record`)"
RECORDS, BOUNDS, TRACES, REPLAY = "run records", "bounds", "traces", "replay"


def judge(
    a: Side,
    b: Side,
    likeness: Likeness | None,
    wall: ChangeEntry,
    work: tuple[WorkChange, ...],
    steps: Sequence[Predicted | None] = (),
) -> CompareVerdict:
    """The verdict on B against A; `wall` is one call without the profiler, where both have it, and
    `steps` are the replayed steps.
    """
    per = f"per {a.unit.word}"
    if likeness is not None and not likeness.one_program:
        what = f"two programs: {likeness.text}"
        return _by_replay(steps, per, f"; {what}") or CompareVerdict("different", what, TRACES)
    if wall.saved is not None:
        # Why the slower side may be slow for another reason: it shared its cores while it was
        # timed. Sharing makes no program faster, so that a faster side stays so.
        name, side = ("B", b) if (wall.saved or 0) < 0 else ("A", a)
        timing = side.trace.run.timing
        length = timing.wall_ns_per_call or 0
        is_host = (timing.host_ns_per_call or 0) >= HOST_LIMITED * length
        further = length > MOST_BY_SHARING * min(wall.a or 0, wall.b or 0)
        if not (timing.is_crowded and is_host) or further:
            crowded = ""
        else:
            often = f"{timing.preempted_per_s or 0:.0f} times a second"
            crowded = f"other programs took a core from {name} {often}: record it again"
        return _by_records(wall, per, crowded)
    times = [measured(a.gpu, b.gpu), measured(a.cpu, b.cpu), measured(a.wall, b.wall)]
    alike = all(row.fate == "same" for row in work) if work else _calls(a) == _calls(b)
    if alike and not _untimed(a, b) and not any(map(differs, times)):
        gpu, host, _ = times
        spent = change_text(gpu.a, gpu.b) if gpu.saved else time_text(gpu.a)
        what = f"the same GPU work, {spent} {per}" if work else f"the same ops {per}"
        noise = "" if work or host.noise is None else f" of {percent_text(host.noise)}"
        return CompareVerdict("same", f"{what}, no time beyond the noise{noise}", TRACES)
    return _by_bounds(a, b, per) or _by_replay(steps, per) or _open(a, b, times, per)


def _by_replay(
    steps: Sequence[Predicted | None], per: str, note: str = ""
) -> CompareVerdict | None:
    """The verdict if the predicted times of a step without the profiler do not overlap."""
    known = [each for each in steps if each is not None]
    if len(known) != 2:
        return None
    a, b = known
    least, most = a.low_ns - b.high_ns, a.high_ns - b.low_ns
    if least <= 0 <= most:
        return None
    sides = [
        f"{time_text(each.now_ns)} ({time_text(each.low_ns)} to {time_text(each.high_ns)})"
        for each in (a, b)
    ]
    text = f"{sides[0]} to {sides[1]} {per}, predicted without the profiler{note}"
    return CompareVerdict("faster" if least > 0 else "slower", text, REPLAY, least, most)


def _calls(side: Side) -> dict[str, int]:
    return {name: op.calls for name, op in side.ops.items()}


def _untimed(a: Side, b: Side) -> list[str]:
    """The traces whose GPU work has no usable time."""
    return [name for name, side in (("A", a), ("B", b)) if side.work and side.gpu.median is None]


def differs(value: ChangeEntry) -> bool:
    """Larger than the noise; where the noise is unknown, any difference."""
    return value.saved not in (None, 0) and value.beyond is not False


def _by_records(wall: ChangeEntry, per: str, crowded: str = "") -> CompareVerdict:
    saved, times = wall.saved or 0.0, change_text(wall.a, wall.b)
    how = f"without the profiler ({ratio_text(wall.ratio)})"
    if saved == 0:
        return CompareVerdict("same", f"{time_text(wall.a)} {per} in both run records", RECORDS)
    if not wall.beyond:
        within = f"within the noise of {percent_text(wall.noise)}"
        noise = "the noise is unknown" if wall.noise is None else within
        return CompareVerdict("inconclusive", f"{times} {per} {how}: {noise}", RECORDS)
    if crowded:
        return CompareVerdict("inconclusive", f"{times} {per} {how}: {crowded}", RECORDS)
    word, off = ("less" if saved > 0 else "more"), (wall.noise or 0) * max(wall.a or 0, wall.b or 0)
    low, high = abs(saved) - off, abs(saved) + off
    interval = f"{time_text(abs(saved))} ({time_text(low)} to {time_text(high)})"
    text = f"{interval} {word} {per}: {times} {how}"
    answer = "faster" if saved > 0 else "slower"
    return CompareVerdict(answer, text, RECORDS, saved - off, saved + off)


def _by_bounds(a: Side, b: Side, per: str) -> CompareVerdict | None:
    """The verdict if the possible times of A and B do not overlap."""
    least, most = _gap(a.gpu, b.pace), _gap(a.pace, b.gpu)
    if least is not None and least > 0:
        answer, word, low, high = "faster", "less", least, most
    elif most is not None and most < 0:
        answer, word, low, high = "slower", "more", -most, None if least is None else -least
    else:
        return None
    times = [change_text(side.gpu.median, side.pace.median) for side in (a, b)]
    span = change_text(low, high) if high is not None and high > low else time_text(low)
    proof = f"A takes {times[0]}, B takes {times[1]} (GPU time, and with the profiler)"
    return CompareVerdict(answer, f"{span} {word} {per}: {proof}", BOUNDS, least, most)


def _gap(a: Sample, b: Sample) -> float | None:
    """A less B where that is beyond the noise, else 0; None where it is unknown."""
    change = measured(a, b)
    return change.saved if change.beyond else None if change.beyond is None else 0.0


def _open(a: Side, b: Side, times: list[ChangeEntry], per: str) -> CompareVerdict:
    """What is known, and how to decide."""
    (gpu, host, _), known = times, list[str]()
    if gpu.saved is not None:
        ratio = ratio_text(gpu.ratio) if differs(gpu) else "no change beyond the noise"
        known.append(f"GPU time {change_text(gpu.a, gpu.b)} {per} ({ratio})")
    known += [f"the GPU time of {name} is unknown" for name in _untimed(a, b)]
    if any(len(side.repeats.spans) == 1 for side in (a, b)):
        known.append("one repeat only, so the noise is unknown")
    if host.saved is not None:
        known.append(f"host {change_text(host.a, host.b)}, which includes profiler overhead")
    return CompareVerdict("inconclusive", "; ".join([*known, DECIDE]), TRACES)


# How the tool's own predictions fared: a fix was made where A has its cause and B does not. The
# prediction is that for A with all fixes that were made. What counts as measured is the step of B
# without the profiler: from its run record, or as its own replay gives it.
CLOSE = 0.3  # of the measured time: a prediction that is nearer is a hit


def marked_fix(before: Predicted | None, after: Predicted | None) -> MarkedFix | None:
    """The prediction for what changed; None where no known fix was made."""
    if before is None or after is None:
        return None
    found = made_between(before.fixes, after)
    # what compiled code already does is no second fix
    made = [
        each
        for each in found
        if not any(other is not each and before.contains(other, each) for other in found)
    ]
    if not made:
        return None
    expected, (low, high) = before.together(made), before.interval(made)
    hit = low <= after.now_ns <= high or abs(expected / after.now_ns - 1) <= CLOSE
    names, orders = [each.fix for each in made], [each.proposal.order for each in made]
    return MarkedFix(names, orders, before.now_ns, expected, low, high, after.now_ns, hit)


def made_between(before: list[FixPrediction], after: Predicted) -> list[FixPrediction]:
    """Those of the fixes that the other step shows to be made."""
    from foretrace.look.fixes import fixes  # known where a step is replayed

    shown, left = {fix.name: fix.made for fix in fixes()}, {each.fix for each in after.every}
    return [
        each
        for each in before
        if each.fix not in left and ((test := shown[each.fix]) is None or test(after.step))
    ]


def mark_text(mark: MarkedFix) -> str:
    """`boolean_mask: about 1.30 ms (1.0 to 1.9) predicted, 1.20 ms measured: hit`."""
    span = f"{time_text(mark.low_ns)} to {time_text(mark.high_ns)}"
    said = f"about {time_text(mark.predicted_ns)} ({span}) after {', '.join(mark.fixes)}"
    return f"{said}; measured {time_text(mark.measured_ns)}: {'hit' if mark.hit else 'miss'}"


class Comparison(Displayed, Struct, frozen=True):
    """B compared with A: medians over the repeats of `unit`, counts of a typical repeat.

    `verdict` says whether B is faster. `work` has one row for each change on the GPU; its rows add
    up to the GPU work of both sides. `bare_wall_ns` and `bare_host_ns` are one unit without the
    profiler, unknown unless both run records have them. `changed` and `unchanged` (within the
    noise) have one sentence each. With more than two traces `others` compares each further one
    with A. `published` is what the articles print, where the traces are their programs.
    """

    unit: RepeatUnit
    a: Side
    b: Side
    verdict: CompareVerdict
    work: tuple[WorkChange, ...]
    kernels: KernelTable
    ops: ComparedOps
    gpu_ns: ChangeEntry
    cpu_ns: ChangeEntry
    wall_ns: ChangeEntry
    idle_ns: ChangeEntry
    bare_wall_ns: ChangeEntry
    bare_host_ns: ChangeEntry
    cost_s: float | None
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    others: tuple[Comparison, ...] = ()
    mark: MarkedFix | None = None
    published: str = ""

    @property
    def worth(self) -> Worth:
        """What the change saves against what it costs once."""
        return weigh(self.verdict, self.gpu_ns, self.cost_s, self.unit.word)

    def plot(self) -> View:
        """All its traces on one ruler, for a notebook."""
        more = (other.b.trace for other in self.others)
        return view("timeline", self.a.trace, self.b.trace, *more)
