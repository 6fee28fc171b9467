"""A lesson for a terminal: the list, a question, an answer with what decides it, the end.

What decides is drawn: lanes for the host and the GPU of one call. The tour is made of lessons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from msgspec.structs import replace

from foretrace.base.tables import Line, Table, bulleted, paragraphs, text
from foretrace.base.terminal import layout, painted, plain
from foretrace.base.units import plural, time_text
from foretrace.learn.ladder.lines import score
from foretrace.learn.lessons.documents import (
    AskedStep,
    Lanes,
    LaneSlice,
    Lesson,
    LessonDocument,
    MarkedAnswer,
)
from foretrace.read.tried import TryDocument
from foretrace.record.lab_documents import LadderDocument
from foretrace.record.tries.lines import page as try_page

WIDTH = 80
KEYS = "? hint, s skip, b back, q stop"
INFLATED = "Numbers are of the recording named; CPU times include profiler overhead."
_MARKS = {"hit": "hit", "miss": "MISS", "unknown": "unknown"}
_COLUMNS = ("Name (profiled)", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls")


def list_text(lessons: Sequence[Lesson], standing: Mapping[str, str]) -> str:
    """One line per lesson, with how it stands."""
    rows = [
        [str(lesson.number), lesson.title, plural(len(lesson.steps), "question"), stands]
        for lesson in lessons
        for stands in [standing.get(lesson.name, "")]
    ]
    return layout(["lesson", "", "", ""], rows, left=(1, 2, 3), width=WIDTH, indent="")


def title_text(lesson: Lesson, *, bold: bool = False) -> str:
    """The first line of a lesson, with the keys."""
    head = f"LESSON {lesson.number}" if lesson.number else "LESSON"
    return f"{painted(head) if bold else head}  {lesson.title}  ({KEYS})"


def asked_text(asked: AskedStep, *, bold: bool = False) -> str:
    """The code where it is new, the question, and what may be answered."""
    count = f"{asked.number} of {asked.of}"
    if asked.skipped:
        why = f"{count}  not asked on this machine: {asked.skipped}"
        return text([paragraphs("", why)], width=WIDTH)
    source = Table(f"{count}  {asked.recording}, {asked.device}", code=asked.code)
    question = asked.text if asked.code else f"{count}  {asked.text}"
    choices = [f"{digit}  {choice}" for digit, choice in enumerate(asked.choices, 1)]
    line = "   ".join(choices)
    lines = [line] if 0 < len(line) <= WIDTH else choices
    below = text([paragraphs("", *question.split("\n"), *lines)], width=WIDTH)
    return "\n".join([text([source], bold=bold, width=WIDTH), below]) if asked.code else below


def marked_text(marked: MarkedAnswer, *, bold: bool = False) -> str:
    """Hit or miss, the reason, one call drawn, and the row of the profiler's table."""
    wrong = f"Not {marked.answer}. {marked.misread}" if marked.misread else ""
    mark = _MARKS[marked.verdict]
    reasons = filter(None, (wrong, answer_text(marked)))
    lines = [Line(*each) for each in zip((mark, " " * len(mark)), reasons, strict=False)]
    reason = text([Table(lines=lines)], bold=bold, width=WIDTH)
    below = text([paragraphs("", legend(marked.lanes, WIDTH))], width=WIDTH)
    # The row of the profiler's table; a CPU has no column for another device.
    times = (marked.row.self_cpu_ns, marked.row.cpu_ns, marked.row.self_gpu_ns, marked.row.gpu_ns)
    cells = [marked.row.name, *map(time_text, times), str(marked.row.calls)]
    shown = range(len(cells)) if marked.lanes.gpu else (0, 1, 2, 5)
    head, shown_cells = ([every[at] for at in shown] for every in (_COLUMNS, cells))
    row = layout(head, [shown_cells], width=WIDTH, indent="")
    return "\n".join([reason, *lanes_lines(marked.lanes, WIDTH), below, row])


def answer_text(marked: MarkedAnswer) -> str:
    """What holds, the reason for it, and what a reader of the articles has before them."""
    printed = f" The articles' A100: {marked.published}." if marked.published else ""
    return f"{_said(marked)} {marked.why}{printed}"


def told_text(marked: MarkedAnswer) -> str:
    """The answer and its reason alone, for whom nothing is asked."""
    return text([paragraphs("", answer_text(marked))], width=WIDTH)


def _said(marked: MarkedAnswer) -> str:
    if marked.verdict == "unknown":
        return "The trace does not decide this:"
    if marked.measured:
        return f"Measured: {marked.measured}."
    if not marked.right:
        return "None of these holds here."
    return f"It is {marked.right}: {marked.text}." if marked.text else f"It is {marked.right}."


def end_text(document: LessonDocument, left: str = "") -> str:
    """The score and what to read; of a lesson that was left, how to go on."""
    skipped = f", {document.skipped} skipped" if document.skipped else ""
    absent = f", {document.not_asked} not asked" if document.not_asked else ""
    count = len(document.steps) - document.not_asked
    score = f"{document.hits} of {count} right{skipped}{absent}"
    told = [INFLATED] if any(step.marked for step in document.steps) else []
    items = [*told, *([left] if left else document.read)]
    return text([bulleted(score, items)], width=WIDTH)


_EMPTY, _HOST, _WORK, _DECIDES = "·", "─", "░", "█"
_SHADES = "·░▒▓"  # nothing, up to a third of a cell, two thirds, more
_LISTED = 5  # names in the text below the drawing; of more than these, the longest
_LONGEST = 3
_NAMES = ("ranges", "ops", "inside", "calls", "GPU")
_COLUMN = max(map(len, _NAMES)) + 1


def lanes_lines(lanes: Lanes, width: int) -> list[str]:
    """One line per lane that holds anything, at most `width` columns."""
    room = width - _COLUMN
    return [
        f"{name:{_COLUMN}}{_lane(slices, lanes.length_ns, room)}"
        for name, slices in shown_lanes(lanes, room)
    ]


def shown_lanes(lanes: Lanes, room: int) -> list[tuple[str, list[LaneSlice]]]:
    """The lanes that hold anything, by name.

    Ops that are too many to be named are left out where the ranges of the program name the parts,
    and those inside others also where none decides.
    """
    kept = (lanes.ranges, lanes.ops), (lanes.ranges or not _deciding(lanes.inside), lanes.inside)
    host = ([] if known and _is_dense(slices, room) else slices for known, slices in kept)
    rows = zip(_NAMES, (lanes.ranges, *host, lanes.calls, lanes.gpu), strict=True)
    return [(name, slices) for name, slices in rows if slices]


def _is_dense(slices: Sequence[LaneSlice], room: int) -> bool:
    return len(slices) > room // 4  # that a named slice needs at least, on average


def _deciding(slices: Sequence[LaneSlice]) -> list[LaneSlice]:
    return [each for each in slices if each.decides]


def _lane(slices: Sequence[LaneSlice], length_ns: int, room: int) -> str:
    if _is_dense(slices, room):
        # Too many slices to name: how much of each cell they cover, and where what decides is.
        covered, deciding, cell_ns = [0.0] * room, set[int](), max(length_ns, 1) / room
        for each in slices:
            first, last = (int(moment / cell_ns) for moment in (each.start_ns, each.end_ns))
            for cell in range(first, min(last, room - 1) + 1):
                begin, end = cell * cell_ns, (cell + 1) * cell_ns
                covered[cell] += (min(each.end_ns, end) - max(each.start_ns, begin)) / cell_ns
                deciding |= {cell} if each.decides else set()
        shades = [_SHADES[ceil(min(share, 1) * (len(_SHADES) - 1))] for share in covered]
        return "".join(_DECIDES if cell in deciding else shade for cell, shade in enumerate(shades))
    cells, free = [_EMPTY] * room, 0
    for each in sorted(slices, key=lambda one: one.start_ns):
        first = max(each.start_ns * room // max(length_ns, 1), free)
        # a slice that is too short to be seen takes one cell, and moves those behind it
        last = max(each.end_ns * room // max(length_ns, 1), first + 1)
        text = _slice(each, min(last, room) - first)
        cells[first : first + len(text)] = text
        free = first + len(text)
    return "".join(cells)


def _slice(each: LaneSlice, size: int) -> str:
    """A launch or a GPU operation shows its number, an op as much of its name as fits."""
    label = str(each.number) if each.number else plain(each.label)
    fill = _DECIDES if each.decides else _WORK if each.number else _HOST
    if len(label) > size and each.decides and not each.number:
        return fill * max(size, 0)  # the text below names it
    if len(label) > size:
        return (label[: size - 1] + "…")[: max(size, 0)] if size > 1 else fill[: max(size, 0)]
    return label + fill * (size - len(label))


def legend(lanes: Lanes, width: int) -> str:
    """How long the call took, and what the numbers stand for: what decides first."""
    length, *named = legend_parts(lanes, width)
    marks = zip((_DECIDES, _WORK), named, strict=True)
    return " ".join([f"{length}:", *(f"{mark} {names}" for mark, names in marks if names)])


def legend_parts(lanes: Lanes, width: int) -> tuple[str, str, str]:
    """How long the call took, what decides, and the other GPU operations."""
    host = (*lanes.ranges, *lanes.ops, *lanes.inside, *lanes.calls)
    chosen = _deciding(lanes.gpu) or _deciding(host)
    others = [each for each in lanes.gpu if not each.decides]
    named = _listed(others, timed=False)
    if _is_dense(lanes.gpu, width - _COLUMN):  # no number is in the drawing
        named = f"{len(others)} others"
    length = f"{time_text(lanes.length_ns)}, profiled"
    return length, _listed(chosen, timed=True), named if others else ""


def _listed(slices: Sequence[LaneSlice], *, timed: bool) -> str:
    """Each name once, with its numbers, and the times of what decides: the longest if many."""
    named: dict[str, list[LaneSlice]] = {}
    for each in slices:
        named.setdefault(each.label, []).append(each)
    more = len(named) - _LONGEST if len(named) > _LISTED else 0
    if more:
        longest = sorted(named.items(), key=lambda item: -sum(map(_length, item[1])))
        named = dict(longest[:_LONGEST])
    shown = [_entry(label, found, timed) for label, found in named.items()]
    return "; ".join([*shown, *([f"{more} more"] if more else [])])


def _length(each: LaneSlice) -> int:
    return each.end_ns - each.start_ns


def _entry(label: str, slices: Sequence[LaneSlice], timed: bool) -> str:
    lengths = [_length(each) for each in slices]
    numbers = [str(each.number) for each in slices if each.number]
    if len(slices) >= _LISTED or len({*numbers}) < len(numbers):  # a graph launch runs many
        return f"{len(slices)} x {label}" + (f" {time_text(sum(lengths))} in all" if timed else "")
    times = " " + ", ".join(map(time_text, lengths)) if timed else ""
    return f"{','.join(numbers)} {label}{times}".strip()


_NEXT = """Next:
  foretrace try train.py            known fixes on your script, each measured: needs torch
  foretrace lesson 1                the first of {lessons} lessons; --list has the others
  foretrace look TRACE              what bounds it, what to do first, where the time goes
  foretrace explain KERNEL          what a kernel's name means, part by part
  foretrace compare A B             what changed between two runs, and whether it is worth it
  foretrace check TRACE PREDICTION  mark one, such as "in mlp_fwd: kernels == 5"
  foretrace lab ladder              the articles' programs on this machine: needs torch, minutes
TRACE is a file, or the name of a recording: foretrace look --list lists them."""


def tour_title(*, asks: bool, bold: bool = False) -> str:
    """The first line, with the keys where questions are asked."""
    head = painted("TOUR") if bold else "TOUR"
    return f"{head}  Guess first, then look" + (f"  ({KEYS})" if asks else "")


def claims_text(document: LadderDocument, card: str, width: int) -> str:
    """How the articles' claims fare on a card, in one sentence."""
    said = f"The articles on an {card.upper()}: {score(document)}"
    more = f"foretrace lab ladder --recorded {card}: each of them, and what decides it"
    return text([paragraphs("", said, more)], width=width)


def tried_text(name: str, document: TryDocument, *, bold: bool, width: int) -> str:
    """What `foretrace try` said when it was recorded, under the name of the recording."""
    where = f"foretrace try {document.script}, recorded on {document.device}"
    said = f"What helps is measured: {where}."
    shown = [each for each in document.fixes if each.ratio is not None]
    told = text(try_page(replace(document, fixes=shown)), bold=bold, width=width)
    return f"{said}\n\n$ foretrace look {name}\n{told}\n(and a line for what was not tried)"


def next_text(lessons: int) -> str:
    """What to try next, and on what."""
    return _NEXT.format(lessons=lessons)
