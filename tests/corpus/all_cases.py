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

assert len({case.id for case in ALL}) == len(ALL), "case ids are unique"
