"""Every odd file: the traits of real writers (`real` in the notes on odd traces), and the attacks."""

from __future__ import annotations

from corpus import odd_containers, odd_content, odd_text
from corpus.cases import Case

ALL: list[Case] = [*odd_text.CASES, *odd_containers.CASES, *odd_content.CASES]
OPENING = [case for case in ALL if case.expect.verdict in ("accept", "recover")]
# those that are one small file
SMALL = [
    case for case in OPENING if case.place is None and not (callable(case.content) or case.needs)
]

assert len({case.id for case in ALL}) == len(ALL), "the ids of cases are unique"
