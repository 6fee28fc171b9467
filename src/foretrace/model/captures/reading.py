"""The captures of a trace, read and joined; what was not used is noted in the trace's ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from foretrace.base.errors import TraceError
from foretrace.base.units import plural
from foretrace.model.captures import Captured, batch
from foretrace.model.captures.join import Join
from foretrace.model.captures.windows import replays
from foretrace.model.recording import Recording
from foretrace.read import captures as found_in
from foretrace.read.captures import CaptureFile
from foretrace.schema.ledger import CODES, Note

LISTED = 5  # files that are named


def join(
    trace: Recording,
    found: Sequence[CaptureFile],
    folder: str | None,
    read: Callable[[str], Recording],
) -> None:
    """Read the captures that may belong to the graphs of a trace, and link what fits. A trace may
    hold the captures of its own graphs.
    """
    launched = np.array([each.launch for each in replays(trace)], np.int64)
    own = [(CaptureFile("this trace", None, None), trace)] if len(trace.host.captures.start) else []
    if not len(launched) or not (found or own):
        if folder:
            where = os.path.basename(os.path.abspath(folder))
            why = "holds no trace" if len(launched) else "is not needed: no graph is replayed here"
            _note(trace, [f"{where} {why}"])
        return
    sizes = batch.around(trace, launched)
    files = found_in.chosen(found, sizes, trace.about.rank)
    opened, problems = _opened(files[: found_in.MOST], read)
    if len(files) > found_in.MOST:
        problems.append(f"{len(files) - found_in.MOST:,} more files are not read")
    opened = own + opened
    made = Join(trace, [each for _, each in opened], [file.size for file, _ in opened])
    trace.captures = tuple(each for _, each in opened)
    trace.captured = Captured(made.capture, made.launch)
    names = [os.path.basename(file.path) for file, _ in opened]
    _conclude(trace, made, names, problems)


def _opened(
    files: Sequence[CaptureFile], read: Callable[[str], Recording]
) -> tuple[list[tuple[CaptureFile, Recording]], list[str]]:
    opened, problems = [], []
    for file in files:
        name = os.path.basename(file.path)
        try:
            capture = read(file.path)
        except TraceError as problem:
            problems.append(f"{name}: {problem.message}")
            continue
        opened.append((file, capture))
        if capture.ledger.gap:
            problems.append(f"{name}: {capture.ledger.gap}")
    return opened, problems


def _conclude(trace: Recording, made: Join, names: Sequence[str], problems: list[str]) -> None:
    """What was linked, what was not, and which files were of no use."""
    rows = sum(len(each.rows) for each in made.replays)
    linked = int((made.launch >= 0).sum())
    whole = f"{plural(rows, 'replayed GPU event')}"
    notes = []
    if linked:
        text = f"{linked:,} of {whole} have the op of their graph's capture"
        notes.append(_made("captured", linked, text))
    if linked < rows:
        text = f"{rows - linked:,} of {whole} fit no capture of their graph: their ops are unknown"
        notes.append(_made("capture_mismatch", rows - linked, text))
        said = {problem.partition(": ")[0] for problem in problems}
        unused = [place for place in range(len(names)) if place not in made.used]
        problems += [f"{names[at]}: {made.why(at)}" for at in unused if names[at] not in said]
    trace.ledger = trace.ledger.with_notes(tuple(notes))
    _note(trace, problems)


def _note(trace: Recording, problems: Sequence[str]) -> None:
    """One note per file, for the first few."""
    shown = list(problems[:LISTED])
    if len(problems) > LISTED:
        shown.append(f"and {len(problems) - LISTED:,} more")
    notes = [_made("capture_left_out", 1, text) for text in shown]
    trace.ledger = trace.ledger.with_notes(tuple(notes))


def _made(code: str, count: int, text: str) -> Note:
    return Note(code, CODES[code][0], count, text)
