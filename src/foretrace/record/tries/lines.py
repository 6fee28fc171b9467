"""What each fix brought to a script, for people."""

from __future__ import annotations

from foretrace.base.terminal import Section, filled
from foretrace.base.units import DASH, bytes_text, plural, time_text
from foretrace.read.tried import NOT_APPLIED, NOT_TRIED, RAISED, TriedFix, TryDocument

HEAD = ("fix", "predicted", "measured", "results", "memory", "")
NOT_HERE = 4  # reasons why fixes do not apply that a screen has room for


def page(found: TryDocument) -> list[Section]:
    """The untouched script, the best that was found, and a row for each fix."""
    return filled(parts(found, NOT_HERE))


def parts(found: TryDocument, not_here: int | None = None) -> list[Section]:
    """The head, the table, the lines below it, and the notes; each may be empty.

    With `not_here` so many of the reasons why fixes do not apply, and how many fixes have others.
    """
    rows = measured(found)
    table = Section("", head=HEAD, rows=[_cells(each) for each in rows], left=(0, 3, 5))
    how = f"step found by itself ({found.found_by})"
    blocks = f"{plural(found.steps, 'step')} a block, {found.rounds} pairs of blocks in turns"
    where = f"{found.script} · {found.device} · torch {found.torch} · {how} · {blocks}"
    base = found.baseline
    span = f"{time_text(base.low_ns)} to {time_text(base.high_ns)}"
    lines = [("BASELINE", f"{time_text(base.median_ns)} per step ({span})")]
    if found.best.fixes:
        known = {each.name: each for each in found.fixes}
        names = ", then ".join(known[name].title for name in found.best.fixes)
        best = f"{time_text(found.best.median_ns)} ({found.best.ratio:.2f}x): {names}"
        lines.append(("BEST", best))
        lines += [("WRITE", known[name].write) for name in found.best.fixes]
    elif rows:
        lines.append(("BEST", "the script as it is: no fix that was tried pays"))
    costs = []  # of the fixes that compile, and when that is paid back
    for each in rows:
        if each.cost_ns is not None and not each.base:
            steps = each.break_even_steps
            paid = (
                "never paid back" if steps is None else f"paid back after {plural(steps, 'step')}"
            )
            text = f"{each.title}: its first steps take {time_text(each.cost_ns)} longer, {paid}"
            costs.append(("BREAK-EVEN", text))
    if (guess := found.guess) is not None:
        [row] = [each for each in found.fixes if each.name == guess.name and not each.base]
        result = f"measured {row.ratio:.2f}x" if row.ratio else f"{row.state}: {row.why}"
        lines.append(("YOUR GUESS", f"{row.title}, {guess.ratio:.2f}x; {result.rstrip(': ')}"))
    return [
        Section("", [where], labelled=lines),
        table if rows else Section(""),
        Section("", labelled=[*costs, *_patch(found), *_others(found, not_here)]),
        Section("", found.notes),
    ]


def measured(found: TryDocument) -> list[TriedFix]:
    """The fixes with a time: the rows of the table."""
    return [each for each in found.fixes if each.ratio is not None]


def _others(found: TryDocument, not_here: int | None) -> list[tuple[str, str]]:
    """The fixes without a time: those that failed one by one, the rest by their reason."""
    raised = [
        ("RAISED", f"{each.title}: {each.why}") for each in found.fixes if each.state == RAISED
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
        rest += [(label, "; ".join(words))] if words else []
    return [*raised, *rest]


def _cells(fix: TriedFix) -> list[str]:
    predicted = DASH if fix.predicted_ns is None else time_text(fix.predicted_ns)
    title = f"+ {fix.title}" if fix.base else fix.title
    time = f"{time_text(fix.median_ns)} ({fix.ratio:.2f}x)"
    results = {True: "same", False: "differ", None: "unknown"}[fix.same]
    memory = DASH if fix.peak_bytes is None else bytes_text(fix.peak_bytes)
    state = f"{fix.state}: {fix.why}".removesuffix(": ")
    return [title, predicted, time, results, memory, state]


def _patch(found: TryDocument) -> list[tuple[str, str]]:
    patch = found.patch
    if patch is None:
        return []
    by_hand = f"write by hand: {', '.join(patch.left_out)}" if patch.left_out else ""
    if patch.ratio is None:
        return [("PATCH", f"none: the changed script did not run; {by_hand}")]
    took = time_text(found.baseline.median_ns / patch.ratio)
    ran = f"checked: applies, and runs at {took} in a process of its own"
    if patch.ratio < 1 + (found.best.ratio - 1) / 2 and not by_hand:
        ran += ", less than measured above: the script may set the same thing again"
    where = f"{patch.path} ({plural(patch.lines, 'line')})"
    return [("PATCH", "; ".join(filter(None, [f"{where}, {ran}", by_hand])))]
