"""Which fixes are tried on a script, in which order and together; the answer is a document.

1. The script untouched: its time, its noise, which fixes apply, and a recording for the replay.
2. It again, untouched: how far results of two runs differ.
3. Each fix that applies and may help, in a process of its own, the best prediction first.
4. The fixes that paid, together: the best, then the next on top of it, while that pays.
5. The patch, run in the place of the script: the fixes as a change of its source. Lines are found
   by the syntax tree. A statement that the tree does not show as expected is left alone, and the
   fix is listed as one to write by hand.
"""

from __future__ import annotations

import ast
import difflib
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import ForetraceError, UsageError, UserCodeError
from foretrace.read.tried import (
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
from foretrace.record.tries import judging
from foretrace.record.tries.rounds import (
    OUT_OF_TIME,
    Edit,
    Facts,
    Kept,
    Processes,
    ProcessReport,
    TrySpec,
)

if TYPE_CHECKING:
    from foretrace.look.fixes import Predicted
    from foretrace.record.tries.session import Switch

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
    """The processes of one script, its fixes, the time left for them, and what is known so far.

    Of the untouched script: `facts`, what it `kept`, its `noise`, its `pairs` of times, what the
    replay has `predicted`, and the `steps` of a block.
    """

    facts: Facts
    kept: Kept
    noise: float | None
    pairs: list[tuple[float, float]]
    predicted: Predicted | None
    steps: int

    def __init__(
        self,
        told: TrySpec,
        fixes: Mapping[str, type[Switch]],
        options: TryOptions,
        processes: Processes,
        say: Say,
    ) -> None:
        self.told = replace(told, block=options.block)
        self.fixes, self.options, self.processes, self.say = fixes, options, processes, say
        self.ends = time.monotonic() + options.budget_s
        self.off: list[float] = []  # the untouched script, a median for each process
        self.rows: list[TriedFix] = []
        self.best: list[str] = []  # the fixes that pay together
        self.ratio = 1.0  # how many times faster they are
        self.stopped: KeyboardInterrupt | None = None  # what the user ended it with

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
        fresh = any(self.fixes[name].fresh for name in turned)
        found = (self._in_processes if fresh else self._in_turns)(what, tuple(on), tuple(turned))
        if found.pairs and not on:
            self._note_off(found.pairs)
        return found

    def _note_off(self, pairs: list[tuple[float, float]]) -> None:
        self.off.append(statistics.median(off for off, _ in judging.quieter(pairs)))

    def _in_turns(self, what: str, on: tuple[str, ...], turned: tuple[str, ...]) -> MeasuredPairs:
        """Blocks without and with the fixes in one process, or in a few where it ends early."""
        pairs: list[tuple[float, float]] = []
        kept: Kept | None = None
        peak, block, wanted = 0, self.options.block, self.options.pairs
        for number in range(MOST_PROCESSES):
            start = time.monotonic()
            found = self.run(what, on=on, turned=turned, pairs=wanted, block=block)
            pairs += found.pairs()
            kept = kept or found.kept
            peak = max([peak, *(each.peak_bytes for each in found.blocks if each.on)])
            is_whole = found.end is not None and found.end.finished
            fits = 2 * time.monotonic() - start < self.ends  # another one as long as this one
            may = fits and number + 1 < ENOUGH_PROCESSES
            if found.failure or (is_whole and not (may and _is_unsure(pairs))):
                return MeasuredPairs(pairs, kept, peak, found.failure)
            block = block or (1 if not pairs else found.blocks[-1].steps)
            wanted = self.options.pairs if is_whole else max(wanted - len(found.pairs()), 1)
        short = "" if pairs else "the script ends before two blocks of steps are measured"
        return MeasuredPairs(pairs, kept, peak, short)

    def _in_processes(
        self, what: str, on: tuple[str, ...], turned: tuple[str, ...]
    ) -> MeasuredPairs:
        """Processes without and with the fixes in turns."""
        times: dict[bool, list[float]] = {False: [], True: []}
        kept, peak = None, 0
        for number in range(2 * FRESH_ROUNDS):
            if number == FRESH_ROUNDS:  # half of them show already whether it may be a gain
                off, with_fix = (statistics.median(times[side]) for side in (False, True))
                if off / with_fix < judging.LEAST:
                    break
            with_it = number % 4 in (1, 2)  # off on on off off on on off
            found = self.run(what, on=(*on, *turned) if with_it else on, turned=(), pairs=3)
            if not found.blocks:
                return MeasuredPairs([], kept, peak, found.failure or "the script ends too early")
            times[with_it].append(statistics.median(each.ns for each in found.blocks))
            if with_it:
                kept = kept or found.kept
                peak = max([peak, *(each.peak_bytes for each in found.blocks)])
        return MeasuredPairs(judging.apart(times[False], times[True]), kept, peak, "")

    def measure_untouched(self) -> None:
        """Run the script as it is, twice; list the fixes, what compiles last, the best first."""
        trace = self.processes.folder / "untouched.json.gz"
        pairs = self.options.pairs
        first = self.run("the script untouched", watch=True, pairs=pairs, trace=str(trace))
        if first.facts is None or first.kept is None:
            raise _refused(first)
        self.facts, self.kept, self.pairs = first.facts, first.kept, first.pairs()
        if self.pairs:
            self._note_off(self.pairs)
        else:
            self.pairs = self.measured("the script untouched, again", (), ()).pairs
        if not self.pairs:
            raise _refused(first)
        again = self.run("the script untouched, again", seed=1)
        self.noise = None if again.kept is None else judging.difference(self.kept, again.kept)
        self.steps = first.blocks[-1].steps if first.blocks else 1
        self.predicted = _predicted(trace)

        def order(row: TriedFix) -> tuple[bool, bool, float, bool, str]:
            fix, predicted = self.fixes[row.name], row.predicted_ns
            return fix.compiles, predicted is None, predicted or 0, fix.fresh, fix.name

        self.rows = sorted(map(self._listed, self.fixes.values()), key=order)

    def _listed(self, fix: type[Switch]) -> TriedFix:
        """The row of a fix before it is tried: whether it applies, and what the replay says."""
        edits = self.facts.edits.get(fix.name, [])
        row = TriedFix(fix.name, fix.title, NOT_TRIED, line_to_write(edits) or fix.write)
        options = self.options
        if options.only and fix.name not in options.only:
            return replace(row, why=UNNAMED)
        if why_not := self.facts.why_not.get(fix.name, ""):
            return replace(row, state=NOT_APPLIED, why=why_not)
        if fix.rare and not options.everything and not options.only:
            return replace(row, why=SLOW)
        if self.predicted is None or not fix.realises:
            return replace(row, why="the replay does not know it" if self.predicted else "")
        row = replace(row, predicted_ns=_share(self.predicted, fix))
        useless = row.predicted_ns == 1 and not options.everything and not options.only
        return replace(row, why=USELESS) if useless else row

    def try_each(self) -> None:
        """Every fix that is wanted, by itself."""
        for number, row in enumerate(self.rows):
            if _wanted(row):
                self.rows[number] = self._tried(row)

    def _tried(self, row: TriedFix, base: Sequence[str] = ()) -> TriedFix:
        """The row with what was measured, on top of `base`."""
        fix = self.fixes[row.name]
        found = self.measured(f"{'+ ' if base else ''}{fix.title}", base, (fix.name,))
        row = replace(row, base=list(base), peak_bytes=found.peak_bytes or None)
        if found.failure and not found.pairs:
            return replace(row, state=RAISED, why=found.failure)
        off_by = None if found.kept is None else judging.difference(self.kept, found.kept)
        tolerance = max([fix.tolerance, *(self.fixes[each].tolerance for each in base)])
        same = judging.is_same(off_by, self.noise, tolerance)
        faster = judging.gain(found.pairs)
        row = replace(
            row,
            same=same,
            difference=off_by,
            noise=self.noise,
            # as shares of the untouched step until the document is made
            median_ns=1 / faster.ratio,
            low_ns=1 / faster.high,
            high_ns=1 / faster.low,
            ratio=faster.ratio,
            pairs=faster.pairs,
        )
        if same is False:
            apart = f"{off_by:.1e} apart, noise {self.noise or 0:.1e}"
            return replace(row, state=DIFFERS, why=apart)
        if found.failure:
            return replace(row, state=RAISED, why=found.failure)
        state, why = (KEPT, "") if faster.is_gain else (NO_GAIN, faster.why_not)
        row = replace(row, state=state, why=why)
        cost = 0.0 if found.kept is None else found.kept.took_ns - self.kept.took_ns
        if cost < COSTLY_NS:
            return row
        saved = statistics.median(off - on for off, on in found.pairs)
        steps = math.ceil(cost / saved) if row.state == KEPT and saved > 0 else None
        return replace(row, cost_ns=cost, break_even_steps=steps)

    def begin_with_best(self) -> None:
        """The fix that brought most by itself."""
        kept = [row for row in self.rows if row.state == KEPT and not row.base and row.ratio]
        if kept:
            first = max(kept, key=lambda row: row.ratio or 1)
            self.best, self.ratio = [first.name], first.ratio or 1

    def combine(self) -> None:
        """The best fix, then the next on top while it pays; and all of them against the script."""
        self.begin_with_best()
        alone = self.ratio
        for row in self._next():
            group = self.fixes[row.name].group
            if group and any(self.fixes[name].group == group for name in self.best):
                continue
            on_top = self._tried(replace(row, state=NOT_TRIED, why=""), self.best)
            self.rows.append(_scaled(on_top, 1 / self.ratio))
            if on_top.state == KEPT:
                self.best, self.ratio = [*self.best, row.name], self.ratio * (on_top.ratio or 1)
        if len(self.best) < 2:
            return
        together = self.measured("all that paid", (), self.best).pairs
        # each paid on top of the others; where all at once fail, the best one alone is the answer
        self.best = self.best if together else self.best[:1]
        self.ratio = judging.gain(together).ratio if together else alone

    def _next(self) -> Iterator[TriedFix]:
        """The fixes that paid, the best first; then those that the replay expects to pay by now."""
        kept = [row for row in self.rows if row.state == KEPT]
        for row in sorted(kept, key=lambda row: -(row.ratio or 1))[1:]:
            yield replace(row, predicted_ns=None)
        left = [row for row in self.rows if row.why == USELESS]
        if not self.best or not left:
            return
        trace = self.processes.folder / "best.json.gz"
        self.run("what is left", on=tuple(self.best), trace=str(trace))
        known = _predicted(trace)
        for row in left:
            share = 1.0 if known is None else _share(known, self.fixes[row.name])
            if share < 1:
                self.rows.remove(row)
                yield replace(row, predicted_ns=share)

    def patch(self) -> TriedPatch | None:
        """The fixes written into the source, and that source run against the script."""
        told, best = self.told, self.best
        if not best or told.module or told.function:
            return None
        source = Path(told.script).read_text(encoding="utf-8")
        edits = {name: self.facts.edits.get(name, []) for name in best}
        text, left_out = patched(source, edits)
        if text == source:
            return None
        words = diff(source, text, Path(told.script).name)
        found = self.run("the patch", source=text, pairs=3)
        if found.failure or not found.blocks:  # a patch that does not run is not handed over
            return TriedPatch("", 0, "", None, best)
        ratio = statistics.median(self.off) / statistics.median(each.ns for each in found.blocks)
        return TriedPatch("", changed_lines(words), words, ratio, left_out)

    def end_early(self, why: str) -> None:
        """Leave the rest untried; what was best by itself is the answer, if nothing else is."""
        self.rows[:] = [replace(row, why=why) if _wanted(row) else row for row in self.rows]
        if not self.best:
            self.begin_with_best()

    def document(self, name: str, found: TriedPatch | None, notes: list[str]) -> TryDocument:
        """What was measured until now."""
        median = statistics.median(self.off)
        low, high = judging.spread(self.pairs)
        order = {KEPT: 0, NO_GAIN: 1, DIFFERS: 1, RAISED: 2, NOT_TRIED: 3, NOT_APPLIED: 4}
        rows = [_scaled(row, median) for row in self.rows]
        return TryDocument(
            script=name,
            device=self.facts.device_name,
            found_by=self.facts.found_by,
            baseline=TriedBaseline(median, median * low, median * high),
            fixes=sorted(rows, key=lambda row: (order[row.state], -(row.ratio or 0), row.name)),
            best=TriedBest(self.best, median / self.ratio, self.ratio),
            patch=found,
            steps=self.steps,
            rounds=self.options.pairs,
            noise=high / low - 1,
            torch=self.facts.torch,
            notes=notes,
        )


def tried(tournament: Tournament, name: str) -> TryDocument:
    """The whole: measure, combine, and write the patch."""
    try:
        tournament.measure_untouched()
    except OutOfTimeError:
        message = "the budget was spent before the untouched script was measured"
        raise UsageError(f"{message}: raise --budget") from None
    notes: list[str] = []
    found: TriedPatch | None = None
    try:
        if not tournament.options.dry:
            tournament.try_each()
            tournament.combine()
            found = tournament.patch()
    except OutOfTimeError:
        notes.append(f"{OUT_OF_TIME} before everything was tried: raise --budget")
        tournament.end_early(OUT_OF_TIME)
    except KeyboardInterrupt as stopped:  # what took minutes to measure is not thrown away
        notes.append("stopped before everything was tried")
        tournament.end_early("stopped")
        tournament.stopped = stopped
    return tournament.document(name, found, notes)


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
    from foretrace.look.fixes import predicted
    from foretrace.trace.opening import open as open_trace

    try:
        return predicted(open_trace(trace)) if trace.exists() else None
    except ForetraceError:
        return None


def _share(known: Predicted, fix: type[Switch]) -> float:
    """What the fix leaves of a step, as the replay sees it. Its time of now is its own."""
    brings = [each.ns for each in known.fixes if each.fix in fix.realises]
    return min([*brings, known.now_ns]) / known.now_ns


def _is_unsure(pairs: list[tuple[float, float]]) -> bool:
    """Whether a fix that pays needs another process to tell how much."""
    return judging.gain(pairs).ratio >= judging.LEAST and not judging.is_narrow(pairs)


def _wanted(row: TriedFix) -> bool:
    return row.state == NOT_TRIED and row.why not in (UNNAMED, SLOW, USELESS)


def _scaled(row: TriedFix, by: float) -> TriedFix:
    """The row with its measured times, and what was predicted, multiplied."""
    names = ("median_ns", "low_ns", "high_ns", "predicted_ns")
    times = {name: getattr(row, name) for name in names}
    return replace(row, **{name: ns and ns * by for name, ns in times.items()})


Insertion = tuple[int, int, str]  # line and column, from 0, and the text to put there


def patched(source: str, edits: Mapping[str, Iterable[Edit]]) -> tuple[str, list[str]]:
    """The source with the edits of each fix, and the fixes that could not be written."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    found: set[Insertion] = set()
    left_out: list[str] = []
    for name, wanted in edits.items():
        places = [PLACES[edit.kind](tree, lines, edit) for edit in wanted]
        if not places or None in places:
            left_out.append(name)
        found |= {each for each in places if each is not None}
    for line, column, text in sorted(found, reverse=True):
        if line >= len(lines):
            lines.append(text)
            continue
        raw = lines[line].encode()
        lines[line] = (raw[:column] + text.encode() + raw[column:]).decode()
    return "".join(lines), left_out


def line_to_write(edits: Sequence[Edit]) -> str:
    """What the script's own calls get, and where; empty where that is not known."""
    calls = {
        "add": "{0.name}(..., {0.words}) in line {0.line}",
        "by hand": "{0.words} in line {0.line}",
    }
    if any(each.kind not in calls for each in edits):
        return ""
    return "; ".join(calls[each.kind].format(each) for each in edits)


def diff(before: str, after: str, name: str) -> str:
    """The change as `patch -p1` and `git apply` read it."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def changed_lines(text: str) -> int:
    """How many lines a diff adds."""
    return sum(line.startswith("+") and not line.startswith("+++") for line in text.splitlines())


def _keywords(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Before the closing bracket of the call at that line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not _spans(node, edit.line):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", "")) != edit.name:
            continue
        given = {each.arg for each in node.keywords}
        if None in given or any(f"{name}=" in edit.words for name in given):
            return None
        line, column = (node.end_lineno or 1) - 1, (node.end_col_offset or 1) - 1
        last = [*node.args, *(each.value for each in node.keywords)]
        text = edit.words if not last else _after_comma(last[-1], line, column, lines) + edit.words
        return line, column, text
    return None


def _after_comma(last: ast.expr, line: int, column: int, lines: list[str]) -> str:
    """A comma and a blank, unless the call ends with a comma."""
    end = (last.end_lineno or 1) - 1
    parts = [each.encode() for each in lines[end : line + 1]]
    parts[-1] = parts[-1][:column]
    between = parts[0][last.end_col_offset or 0 :] + b"".join(parts[1:])
    code = b"".join(each.split(b"#")[0] for each in between.splitlines())
    return "" if b"," in code else ", "


def _spans(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _below_imports(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Below the last import at the top level; torch must be among them."""
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {part.asname or part.name for each in imports for part in each.names}
    if "torch" not in names and not any(each.startswith("torch.") for each in names):
        return None
    return (imports[-1].end_lineno or 1, 0, edit.words + "\n")


def _below(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Below the assignment to one name at that line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not _spans(node, edit.line):
            continue
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name | ast.Attribute):
            return None
        name = ast.unparse(node.targets[0])
        text = " " * node.col_offset + edit.words.format(name=name) + "\n"
        return node.end_lineno or 1, 0, text
    return None


PLACES: dict[str, Callable[[ast.Module, list[str], Edit], Insertion | None]] = {
    "add": _keywords,
    "top": _below_imports,
    "after": _below,
    "by hand": lambda *_: None,
}
