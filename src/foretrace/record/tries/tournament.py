"""Which fixes are tried on a script, in which order and together; the answer is a document.

1. The script untouched: its time, its noise, which fixes apply, and a recording for the replay.
2. It again, untouched: how far results of two runs differ.
3. Each fix that applies and may help, in a process of its own, the best prediction first.
4. The fixes that paid, together: the best, then the next on top of it, while that pays.
5. The patch, run in the place of the script.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import UsageError, UserCodeError
from foretrace.record.tries import patch
from foretrace.record.tries.judging import (
    LEAST,
    Gain,
    apart,
    difference,
    gain,
    is_narrow,
    is_same,
    quieter,
    spread,
)
from foretrace.record.tries.rounds import (
    OUT_OF_TIME,
    Facts,
    Kept,
    Processes,
    ProcessReport,
    TrySpec,
)
from foretrace.schema.documents.tries import (
    DIFFERS,
    KEPT,
    NO_GAIN,
    NOT_APPLIED,
    NOT_TRIED,
    RAISED,
    TriedBaseline,
    TriedBest,
    TriedFix,
    TriedPatch,
    TryDocument,
)

if TYPE_CHECKING:
    from foretrace.analyze.fixes import Predicted
    from foretrace.record.tries.session import Applied

Say = Callable[[str], None]
COSTLY_NS = 1_000_000_000  # first steps that take this much longer are worth a line
FRESH_ROUNDS = 4  # pairs of processes, where a fix cannot be turned inside one
MOST_PROCESSES = 4  # for the pairs of one fix, where the script ends early
ENOUGH_PROCESSES = 3  # for a gain whose interval stays wide: processes differ too
# why a fix that applies is left out
UNNAMED = "left out by --only"
SLOW = "takes minutes: --all tries it"
USELESS = "predicted to bring nothing: --all tries it"


class TryOptions(Struct, frozen=True):
    """What the user requested. `only` are names of fixes; `block` the steps of a block, or 0."""

    pairs: int = 11
    block: int = 0
    budget_s: float = 600
    everything: bool = False
    only: tuple[str, ...] = ()
    dry: bool = False


class OutOfTimeError(Exception):
    """The budget is spent; what was measured until then is the answer."""


class MeasuredPairs(Struct, frozen=True):
    """What processes of one kind reported together."""

    pairs: list[tuple[float, float]]
    kept: Kept | None
    peak_bytes: int
    failure: str


class Tournament:
    """The processes of one script, its fixes, and the time left for them."""

    def __init__(
        self,
        told: TrySpec,
        fixes: Mapping[str, Applied],
        options: TryOptions,
        processes: Processes,
        say: Say,
    ) -> None:
        self.told = replace(told, block=options.block)
        self.fixes, self.options, self.processes, self.say = fixes, options, processes, say
        self.ends = time.monotonic() + options.budget_s
        self.off: list[float] = []  # the untouched script, a median for each process

    def run(self, what: str, **changes: object) -> ProcessReport:
        """One process."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        self.say(f"{what} ({left:.0f} s left)")
        spec = replace(self.told, **changes)
        environment: dict[str, str] = {}
        for name in (*spec.on, *spec.turned):
            environment |= self.fixes[name].environment
            if self.fixes[name].compiles:  # an empty cache: else compiling costs nothing
                environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.processes.folder / name)
        found = self.processes.run(spec, limit_s=left, environment=environment)
        if found.stopped == OUT_OF_TIME:
            raise OutOfTimeError
        return found

    def measured(self, what: str, on: Sequence[str], turned: Sequence[str]) -> MeasuredPairs:
        """The pairs of `turned` off and on, with `on` on both sides."""
        if any(self.fixes[name].fresh for name in turned):
            return self._in_processes(what, tuple(on), tuple(turned))
        pairs: list[tuple[float, float]] = []
        kept: Kept | None = None
        peak, block, wanted = 0, self.options.block, self.options.pairs
        for number in range(MOST_PROCESSES):
            start = time.monotonic()
            found = self.run(what, on=tuple(on), turned=tuple(turned), pairs=wanted, block=block)
            pairs += found.pairs()
            kept = kept or found.kept
            peak = max([peak, *(each.peak_bytes for each in found.blocks if each.on)])
            is_whole = found.end is not None and found.end.finished
            fits = 2 * time.monotonic() - start < self.ends  # another one as long as this one
            if found.failure or (is_whole and not (fits and _is_unsure(pairs, number))):
                return self._noted(MeasuredPairs(pairs, kept, peak, found.failure), bool(on))
            block = block or (1 if not pairs else found.blocks[-1].steps)
            wanted = self.options.pairs if is_whole else max(wanted - len(found.pairs()), 1)
        short = "" if pairs else "the script ends before two blocks of steps are measured"
        return self._noted(MeasuredPairs(pairs, kept, peak, short), bool(on))

    def _in_processes(
        self, what: str, on: tuple[str, ...], turned: tuple[str, ...]
    ) -> MeasuredPairs:
        """Processes without and with the fixes in turns."""
        times: dict[bool, list[float]] = {False: [], True: []}
        kept, peak = None, 0
        for number in range(2 * FRESH_ROUNDS):
            if number == FRESH_ROUNDS and not _promising(times):
                break
            with_it = number % 4 in (1, 2)  # off on on off off on on off
            found = self.run(what, on=(*on, *turned) if with_it else on, turned=(), pairs=3)
            if not found.blocks:
                return MeasuredPairs([], kept, peak, found.failure or "the script ends too early")
            times[with_it].append(statistics.median(each.ns for each in found.blocks))
            if with_it:
                kept = kept or found.kept
                peak = max([peak, *(each.peak_bytes for each in found.blocks)])
        pairs = apart(times[False], times[True])
        return self._noted(MeasuredPairs(pairs, kept, peak, ""), bool(on))

    def _noted(self, found: MeasuredPairs, changed: bool) -> MeasuredPairs:
        if found.pairs and not changed:
            self.off.append(statistics.median(off for off, _ in quieter(found.pairs)))
        return found


def _is_unsure(pairs: list[tuple[float, float]], number: int) -> bool:
    """Whether a fix that pays needs another process to tell how much."""
    return number + 1 < ENOUGH_PROCESSES and gain(pairs).ratio >= LEAST and not is_narrow(pairs)


def _promising(times: Mapping[bool, list[float]]) -> bool:
    """Whether half the processes already show a gain."""
    return statistics.median(times[False]) / statistics.median(times[True]) >= LEAST


class Untouched(Struct, frozen=True):
    """The script as it is."""

    facts: Facts
    kept: Kept
    noise: float | None
    pairs: list[tuple[float, float]]
    predicted: Predicted | None
    steps: int


def tried(tournament: Tournament, name: str) -> TryDocument:
    """The whole: measure, combine, and write the patch."""
    try:
        untouched = _untouched(tournament)
    except OutOfTimeError:
        message = "the budget was spent before the untouched script was measured"
        raise UsageError(f"{message}: raise --budget") from None
    rows = [_listed(tournament, untouched, each) for each in tournament.fixes.values()]
    rows.sort(key=lambda row: _order(row, tournament.fixes[row.name]))
    notes: list[str] = []
    best = Combination()
    found: TriedPatch | None = None
    try:
        if not tournament.options.dry:
            for number, row in enumerate(rows):
                rows[number] = _tried(tournament, untouched, row)
            _combine(tournament, untouched, rows, best)
            found = _patch(tournament, untouched, best.names)
    except OutOfTimeError:
        notes.append("the budget was spent before everything was tried: raise --budget")
        rows = [replace(row, why=OUT_OF_TIME) if _wanted(row) else row for row in rows]
        if not best.names:
            best.begin(rows)
    return _document(tournament, untouched, rows, best, found, name, notes)


def _order(row: TriedFix, fix: Applied) -> tuple[bool, bool, float, bool, str]:
    """What compiles, and so takes long, comes last; otherwise the best prediction comes first."""
    return (fix.compiles, row.predicted_ns is None, row.predicted_ns or 0, fix.fresh, fix.name)


def _untouched(tournament: Tournament) -> Untouched:
    """The script as it is: its time, its noise, and what applies."""
    trace = tournament.processes.folder / "untouched.json.gz"
    pairs = tournament.options.pairs
    first = tournament.run("the script untouched", watch=True, pairs=pairs, trace=str(trace))
    if first.facts is None or first.kept is None:
        raise _refused(first)
    found = first.pairs()
    if found:
        tournament.off.append(statistics.median(off for off, _ in quieter(found)))
    else:
        found = tournament.measured("the script untouched, again", (), ()).pairs
    if not found:
        raise _refused(first)
    again = tournament.run("the script untouched, again", seed=1)
    noise = None if again.kept is None else difference(first.kept, again.kept)
    steps = first.blocks[-1].steps if first.blocks else 1
    return Untouched(first.facts, first.kept, noise, found, _predicted(trace), steps)


def _refused(found: ProcessReport) -> Exception:
    """Why the script cannot be tried, in one line."""
    failure = found.failure
    if failure and found.end is not None and found.end.code == UsageError.exit_code:
        return UsageError(failure)
    if "EOFError" in failure:
        return UsageError("the script asks for input: give it arguments instead")
    if found.end is None or failure or found.end.code:
        words = failure or f"it exits with code {found.end.code if found.end else found.code}"
        last = found.log.strip().splitlines()[-1:] or [""]
        more = f" ({last[0]})" if last[0] and last[0] not in words else ""
        return UserCodeError(f"the untouched script fails: {words}{more}")
    if not found.end.steps:
        words = "no step was found: the script calls no module, or only in other processes"
        return UsageError(f"{words}; see --steps-at, or try a function: file.py:function")
    words = f"the script ends after {found.end.steps} steps, too few to compare"
    return UsageError(f"{words}: let it run for 30 or more")


def _predicted(trace: Path) -> Predicted | None:
    """The replay of a typical step; None where it cannot be replayed."""
    from foretrace.analyze.fixes._typical import predicted
    from foretrace.base.errors import ForetraceError
    from foretrace.model.opening import open as open_trace

    if not trace.exists():
        return None
    try:
        return predicted(open_trace(trace))
    except ForetraceError:
        return None


def _listed(tournament: Tournament, untouched: Untouched, fix: Applied) -> TriedFix:
    """The row of a fix before it is tried: whether it applies, and what the replay says."""
    edits = untouched.facts.edits.get(fix.name, [])
    row = TriedFix(fix.name, fix.title, NOT_TRIED, patch.line_to_write(edits) or fix.write)
    options = tournament.options
    if options.only and fix.name not in options.only:
        return replace(row, why=UNNAMED)
    if why_not := untouched.facts.why_not.get(fix.name, ""):
        return replace(row, state=NOT_APPLIED, why=why_not)
    if fix.rare and not options.everything and not options.only:
        return replace(row, why=SLOW)
    known = untouched.predicted
    if known is None or not fix.realises:
        return replace(row, why="the replay does not know it" if known else "")
    share = _share(known, fix)
    row = replace(row, predicted_ns=share)
    if share == 1 and not options.everything and not options.only:
        return replace(row, why=USELESS)
    return row


def _share(known: Predicted, fix: Applied) -> float:
    """What the fix leaves of a step, as the replay sees it. Its time of now is its own."""
    brings = [each.ns for each in known.fixes if each.fix in fix.realises]
    return min([*brings, known.now_ns]) / known.now_ns


def _wanted(row: TriedFix) -> bool:
    return row.state == NOT_TRIED and row.why not in (UNNAMED, SLOW, USELESS)


def _tried(
    tournament: Tournament, untouched: Untouched, row: TriedFix, base: Sequence[str] = ()
) -> TriedFix:
    """The row with what was measured."""
    if not _wanted(row):
        return row
    fix = tournament.fixes[row.name]
    what = f"{'+ ' if base else ''}{fix.title}"
    return _judged(tournament, untouched, row, tournament.measured(what, base, (fix.name,)), base)


def _judged(
    tournament: Tournament,
    untouched: Untouched,
    row: TriedFix,
    found: MeasuredPairs,
    base: Sequence[str] = (),
) -> TriedFix:
    fix = tournament.fixes[row.name]
    row = replace(row, base=list(base), peak_bytes=found.peak_bytes or None)
    if found.failure and not found.pairs:
        return replace(row, state=RAISED, why=found.failure)
    off_by = None if found.kept is None else difference(untouched.kept, found.kept)
    tolerance = max([fix.tolerance, *(tournament.fixes[each].tolerance for each in base)])
    same = is_same(off_by, untouched.noise, tolerance)
    row = replace(row, same=same, difference=off_by, noise=untouched.noise)
    faster = gain(found.pairs)
    row = _timed(row, faster)
    if same is False:
        return replace(
            row, state=DIFFERS, why=f"{off_by:.1e} apart, noise {untouched.noise or 0:.1e}"
        )
    if found.failure:
        return replace(row, state=RAISED, why=found.failure)
    if faster.is_gain:
        row = replace(row, state=KEPT, why="")
    else:
        row = replace(row, state=NO_GAIN, why="" if faster.high >= 1 else "slower")
    return _with_cost(row, untouched, found)


def _with_cost(row: TriedFix, untouched: Untouched, found: MeasuredPairs) -> TriedFix:
    """The row with what its first steps cost, and when that is paid back."""
    cost = 0.0 if found.kept is None else found.kept.took_ns - untouched.kept.took_ns
    if cost < COSTLY_NS:
        return row
    saved = statistics.median(off - on for off, on in found.pairs)
    steps = math.ceil(cost / saved) if row.state == KEPT and saved > 0 else None
    return replace(row, cost_ns=cost, break_even_steps=steps)


def _timed(row: TriedFix, faster: Gain) -> TriedFix:
    """The row with its times, as shares of the untouched step until the document is made."""
    return replace(
        row,
        median_ns=1 / faster.ratio,
        low_ns=1 / faster.high,
        high_ns=1 / faster.low,
        ratio=faster.ratio,
        pairs=faster.pairs,
    )


def _scaled(row: TriedFix, by: float) -> TriedFix:
    """The row with its measured times, and what was predicted, multiplied."""
    times = {name: getattr(row, name) for name in ("median_ns", "low_ns", "high_ns")}
    times["predicted_ns"] = row.predicted_ns
    return replace(row, **{name: ns and ns * by for name, ns in times.items()})


class Combination(Struct):
    """The fixes that pay together, and how many times faster they are."""

    names: list[str] = []
    ratio: float = 1.0

    def begin(self, rows: list[TriedFix]) -> None:
        """With the fix that brought most by itself."""
        kept = [row for row in rows if row.state == KEPT and not row.base and row.ratio]
        if kept:
            first = max(kept, key=lambda row: row.ratio or 1)
            self.names, self.ratio = [first.name], first.ratio or 1


def _combine(
    tournament: Tournament, untouched: Untouched, rows: list[TriedFix], best: Combination
) -> None:
    """The best fix, then the next on top while it pays; and all of them against the script."""
    best.begin(rows)
    alone = best.ratio
    for row in _next(tournament, rows, best):
        group = tournament.fixes[row.name].group
        if group and any(tournament.fixes[name].group == group for name in best.names):
            continue
        on_top = _tried(tournament, untouched, replace(row, state=NOT_TRIED, why=""), best.names)
        rows.append(_scaled(on_top, 1 / best.ratio))
        if on_top.state == KEPT:
            best.names, best.ratio = [*best.names, row.name], best.ratio * (on_top.ratio or 1)
    if len(best.names) < 2:
        return
    together = tournament.measured("all that paid", (), best.names).pairs
    # each paid on top of the others; where all at once fail, the best one alone is the answer
    best.names = best.names if together else best.names[:1]
    best.ratio = gain(together).ratio if together else alone


def _next(tournament: Tournament, rows: list[TriedFix], best: Combination) -> Iterator[TriedFix]:
    """The fixes that paid, the best first; then those that the replay expects to pay by now."""
    kept = sorted((row for row in rows if row.state == KEPT), key=lambda row: -(row.ratio or 1))
    for row in kept[1:]:
        yield replace(row, predicted_ns=None)
    left = [row for row in rows if row.why == USELESS]
    if not best.names or not left:
        return
    trace = tournament.processes.folder / "best.json.gz"
    tournament.run("what is left", on=tuple(best.names), trace=str(trace))
    known = _predicted(trace)
    for row in left:
        share = 1.0 if known is None else _share(known, tournament.fixes[row.name])
        if share < 1:
            rows.remove(row)
            yield replace(row, predicted_ns=share)


def _patch(tournament: Tournament, untouched: Untouched, best: list[str]) -> TriedPatch | None:
    """The fixes written into the source, and that source run against the script."""
    told = tournament.told
    if not best or told.module or told.function:
        return None
    source = Path(told.script).read_text(encoding="utf-8")
    edits = {name: untouched.facts.edits.get(name, []) for name in best}
    text, left_out = patch.patched(source, edits)
    if text == source:
        return None
    words = patch.diff(source, text, Path(told.script).name)
    found = tournament.run("the patch", source=text, pairs=3)
    if found.failure or not found.blocks:  # a patch that does not run is not handed over
        return TriedPatch("", 0, "", None, best)
    ratio = statistics.median(tournament.off) / statistics.median(each.ns for each in found.blocks)
    return TriedPatch("", patch.changed_lines(words), words, ratio, left_out)


def _document(
    tournament: Tournament,
    untouched: Untouched,
    rows: list[TriedFix],
    best: Combination,
    found: TriedPatch | None,
    name: str,
    notes: list[str],
) -> TryDocument:
    median = statistics.median(tournament.off)
    low, high = spread(untouched.pairs)
    baseline = TriedBaseline(median, median * low, median * high)
    rows = [_scaled(row, median) for row in rows]
    order = {KEPT: 0, NO_GAIN: 1, DIFFERS: 1, RAISED: 2, NOT_TRIED: 3, NOT_APPLIED: 4}
    rows = sorted(rows, key=lambda row: (order[row.state], -(row.ratio or 0), row.name))
    facts = untouched.facts
    return TryDocument(
        script=name,
        device=facts.device_name,
        found_by=facts.found_by,
        baseline=baseline,
        fixes=rows,
        best=TriedBest(best.names, median / best.ratio, best.ratio),
        patch=found,
        steps=untouched.steps,
        rounds=tournament.options.pairs,
        noise=high / low - 1,
        torch=facts.torch,
        notes=notes,
    )
