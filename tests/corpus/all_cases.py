"""Every case, in the order of the sections."""

from __future__ import annotations

from corpus import cases_a, cases_b, cases_c, cases_d, cases_e
from corpus.cases import Case

ALL: list[Case] = [*cases_a.CASES, *cases_b.CASES, *cases_c.CASES, *cases_d.CASES, *cases_e.CASES]
OPENING = [case for case in ALL if case.expect.verdict in ("accept", "recover")]
FORMS = [case for case in ALL if case.forms and case.content is not None]

assert len({case.id for case in ALL}) == len(ALL), "case ids are unique"
