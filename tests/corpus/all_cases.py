"""Every case, by topic."""

from __future__ import annotations

from corpus import (
    cases_arguments,
    cases_clocks,
    cases_containers,
    cases_content,
    cases_files,
    cases_formats,
    cases_json,
    cases_links,
    cases_numbers,
    cases_packed,
    cases_places,
    cases_ranges,
    cases_strings,
    cases_writers,
)
from corpus.cases import Case
from sweep import FULL

_TOPICS = (
    cases_strings,
    cases_json,
    cases_packed,
    cases_containers,
    cases_formats,
    cases_files,
    cases_clocks,
    cases_numbers,
    cases_ranges,
    cases_links,
    cases_places,
    cases_arguments,
    cases_writers,
    cases_content,
)
ALL: list[Case] = [case for topic in _TOPICS for case in topic.CASES]
OPENING = [case for case in ALL if case.expect.verdict in ("accept", "recover")]
FORMS = [case for case in ALL if case.forms and case.content is not None]
# Large ones, whose bytes take seconds. Each has a small twin, or `test_large` reads it.
_DEAR = "A44 A46-event B19 B29-json B31-small B32-small C23 C24-small D42"
DEAR = frozenset(_DEAR.split())

assert len({case.id for case in ALL}) == len(ALL), "case ids are unique"


def often(case: Case) -> bool:
    """Whether a case is read outside the full sweep."""
    return FULL or case.id not in DEAR
