"""What each fix brought to a script, for people."""

from __future__ import annotations

from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, filled, paragraphs
from foretrace.base.units import plural, time_text
from foretrace.read.tried import NOT_APPLIED, NOT_TRIED, RAISED, TriedFix, TryDocument

NOT_HERE = 4  # reasons why fixes do not apply that a screen has room for


_SAME = {True: "same", False: "differ", None: "unknown"}
_FIXES = (
    Column("fix", lambda fix: f"+ {fix.title}" if fix.base else fix.title, WORDS),
    Column("predicted", "predicted_ns"),
    Column("measured", lambda fix: f"{time_text(fix.median_ns)} ({fix.ratio:.2f}x)", TEXT),
    Column("results", lambda fix: _SAME[fix.same], WORDS),
    Column("memory", "peak_bytes"),
    Column("", lambda fix: f"{fix.state}: {fix.why}".removesuffix(": "), WORDS),
)


def page(found: TryDocument) -> list[Table]:
    """The untouched script, the best that was found, and a row for each fix."""
    return filled(parts(found, NOT_HERE))


def parts(found: TryDocument, not_here: int | None = None) -> list[Table]:
    """The head, the table, the lines below it, and the notes; each may be empty.

    With `not_here` so many of the reasons why fixes do not apply, and how many fixes have others.
    """
    rows = measured(found)
    how = f"step found by itself ({found.found_by})"
    blocks = f"{plural(found.steps, 'step')} a block, {found.rounds} pairs of blocks in turns"
    where = f"{found.script} · {found.device} · torch {found.torch} · {how} · {blocks}"
    base = found.baseline
    span = f"{time_text(base.low_ns)} to {time_text(base.high_ns)}"
    lines = [Line("", where), Line("BASELINE", f"{time_text(base.median_ns)} per step ({span})")]
    if found.best.fixes:
        known = {each.name: each for each in found.fixes}
        names = ", then ".join(known[name].title for name in found.best.fixes)
        best = f"{time_text(found.best.median_ns)} ({found.best.ratio:.2f}x): {names}"
        lines.append(Line("BEST", best))
        lines += [Line("WRITE", known[name].write) for name in found.best.fixes]
    elif rows:
        lines.append(Line("BEST", "the script as it is: no fix that was tried pays"))
    costs = []  # of the fixes that compile, and when that is paid back
    for each in rows:
        if each.cost_ns is not None and not each.base:
            steps = each.break_even_steps
            paid = (
                "never paid back" if steps is None else f"paid back after {plural(steps, 'step')}"
            )
            text = f"{each.title}: its first steps take {time_text(each.cost_ns)} longer, {paid}"
            costs.append(Line("BREAK-EVEN", text))
    if (guess := found.guess) is not None:
        [row] = [each for each in found.fixes if each.name == guess.name and not each.base]
        result = f"measured {row.ratio:.2f}x" if row.ratio else f"{row.state}: {row.why}"
        lines.append(Line("YOUR GUESS", f"{row.title}, {guess.ratio:.2f}x; {result.rstrip(': ')}"))
    return [
        Table(lines=lines),
        Table("", _FIXES, rows),
        Table(lines=[*costs, *_patch(found), *_others(found, not_here)]),
        paragraphs("", *found.notes),
    ]


def measured(found: TryDocument) -> list[TriedFix]:
    """The fixes with a time: the rows of the table."""
    return [each for each in found.fixes if each.ratio is not None]


def _others(found: TryDocument, not_here: int | None) -> list[Line]:
    """The fixes without a time: those that failed one by one, the rest by their reason."""
    raised = [
        Line("RAISED", f"{each.title}: {each.why}") for each in found.fixes if each.state == RAISED
    ]
    rest = []
    for state, label, most in ((NOT_TRIED, "NOT TRIED", None), (NOT_APPLIED, "NOT HERE", not_here)):
        why: dict[str, list[str]] = {}
        for each in found.fixes:
            if each.state == state and "--only" not in each.why:
                why.setdefault(each.why, []).append(each.title)
        words = [
            f"{', '.join(names)} ({key})" if key else ", ".join(names) for key, names in why.items()
        ][:most]
        left = sum(map(len, [*why.values()][len(words) :]))
        words += [f"and {left} more (--json has each reason)"] if left else []
        rest += [Line(label, "; ".join(words))] if words else []
    return [*raised, *rest]


def _patch(found: TryDocument) -> list[Line]:
    patch = found.patch
    if patch is None:
        return []
    by_hand = f"write by hand: {', '.join(patch.left_out)}" if patch.left_out else ""
    if patch.ratio is None:
        return [Line("PATCH", f"none: the changed script did not run; {by_hand}")]
    took = time_text(found.baseline.median_ns / patch.ratio)
    ran = f"checked: applies, and runs at {took} in a process of its own"
    if patch.ratio < 1 + (found.best.ratio - 1) / 2 and not by_hand:
        ran += ", less than measured above: the script may set the same thing again"
    where = f"{patch.path} ({plural(patch.lines, 'line')})"
    return [Line("PATCH", "; ".join(filter(None, [f"{where}, {ran}", by_hand])))]
