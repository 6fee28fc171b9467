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
from corpus.places import DEEP

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
# Large ones, whose bytes take seconds: their verdict and exit code, but not every other form. Each
# has a small twin.
DEAR = frozenset(("A44", "A46", "A46-event", "C23", "C24-small", "D42"))

assert len({case.id for case in ALL}) == len(ALL), "case ids are unique"


def often(case: Case) -> bool:
    """Whether a case is read in every way that there is."""
    return DEEP or case.id not in DEAR
