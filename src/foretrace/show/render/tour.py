"""The tour: its first line, the articles' claims in one, and what to try next."""

from __future__ import annotations

from msgspec.structs import replace

from foretrace.schema.documents.ladder import LadderDocument
from foretrace.schema.documents.tries import TryDocument
from foretrace.show.render.climb import score
from foretrace.show.render.lesson_page import KEYS
from foretrace.show.render.terminal import Section, drawn, painted
from foretrace.show.render.try_page import page

_NEXT = """Next:
  foretrace try train.py            known fixes on your script, each measured: needs torch
  foretrace lesson 1                the first of {lessons} lessons; --list has the others
  foretrace look TRACE              what bounds it, what to do first, where the time goes
  foretrace name KERNEL             what a kernel's name means, part by part
  foretrace compare A B             what changed between two runs, and whether it is worth it
  foretrace check TRACE -g GUESS    mark a prediction, such as "in mlp_fwd: kernels == 5"
  foretrace ladder                  the articles' programs on this machine: needs torch, minutes
TRACE is a file, or the name of a recording: foretrace recordings lists them."""


def title_text(*, asks: bool, bold: bool = False) -> str:
    """The first line, with the keys where questions are asked."""
    head = painted("TOUR") if bold else "TOUR"
    return f"{head}  Guess first, then look" + (f"  ({KEYS})" if asks else "")


def claims_text(document: LadderDocument, card: str, width: int) -> str:
    """How the articles' claims fare on a card, in one sentence."""
    said = f"The articles on an {card.upper()}: {score(document)}"
    more = f"foretrace ladder --recorded {card}: each of them, and what decides it"
    return drawn([Section("", (said, more))], width=width)


def tried_text(name: str, document: TryDocument, *, bold: bool, width: int) -> str:
    """What `foretrace try` said when it was recorded, under the name of the recording."""
    where = f"foretrace try {document.script}, recorded on {document.device}"
    said = f"What helps is measured: {where}."
    shown = [each for each in document.fixes if each.ratio is not None]
    told = drawn(page(replace(document, fixes=shown)), bold=bold, width=width)
    return f"{said}\n\n$ foretrace look {name}\n{told}\n(and a line for what was not tried)"


def next_text(lessons: int) -> str:
    """What to try next, and on what."""
    return _NEXT.format(lessons=lessons)
