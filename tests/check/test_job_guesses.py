"""Predictions about a job: what can be said, and how it is marked."""

from __future__ import annotations

import inspect
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.check import GuessError, job_kinds
from foretrace.check.kinds import GuessKind
from foretrace.check.marking import check_job
from foretrace.check.parsing import parse_job
from foretrace.check.verdict import Verdict
from foretrace.jobs.documents import JobDocument
from foretrace.read.ledger import LeftOut
from job_documents import job_document
from sweep import looped

EXAMPLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("job_examples.toml").read_text(encoding="utf-8")
)
SAID = [(kind, text) for kind, examples in EXAMPLES.items() for text in examples]


def mark(text: str, found: JobDocument | None = None) -> Verdict:
    [verdict] = check_job(found or job_document(), [text])
    return verdict


@looped(("kind", "text"), SAID, ids=[text for _, text in SAID])
def test_an_example_belongs_to_its_kind_and_can_be_marked(kind: str, text: str) -> None:
    assert parse_job(text).kind.name == kind
    verdict = mark(text)
    assert verdict.verdict in ("hit", "miss")
    assert verdict.measured
    assert verdict.expected


@pytest.mark.parametrize("kind", job_kinds.every(), ids=lambda kind: kind.name)
def test_a_kind_is_documented(kind: GuessKind) -> None:
    assert inspect.getdoc(sys.modules[kind.measure.__module__])
    assert all(EXAMPLES[kind.name].values())


@looped(
    ("text", "verdict", "measured"),
    [
        ("every rank: exposed comms < 10%", "miss", "8.3% (rank 3) to 25.0% (rank 0)"),
        ("some rank: exposed comms < 10%", "hit", "8.3% (rank 3) to 25.0% (rank 0)"),
        ("no rank: exposed comms > 30%", "hit", "8.3% (rank 3) to 25.0% (rank 0)"),
        ("every rank: wait <= 2 ms", "hit", "0 ns (rank 3) to 2.00 ms (rank 0)"),
        ("rank 3: compute == 10 ms", "hit", "10.0 ms"),
        ("step time == 12 ms", "hit", "12.0 ms"),
        ("overlap > 50%", "miss", "25.0%"),
        ("slowest rank within 5% of the median", "miss", None),
        ("slowest rank within 20% of the median", "hit", None),
        ("slowest rank is more than 10% slower than the median", "hit", None),
        ("rank 3 is last", "hit", None),
        ("rank 2 is last", "miss", None),
        ("rank 3 is the straggler because of compute", "hit", None),
        ("rank 3 is the straggler because of data", "miss", None),
        ("no rank is last", "miss", None),
        ("the slowest rank is rank 3", "hit", None),
        ("rank 3 is the slowest rank because of its data loader", "miss", None),
        ("all ranks within 1% of the median", "miss", None),
        ("all ranks within 25% of the median", "hit", None),
        ("world size == 8", "miss", "4"),
        ("4 ranks", "hit", "4"),
        ("hosts == 2", "hit", "2"),
        ("bus bandwidth > 200 GB/s", "hit", None),
        ("every bus bandwidth > 200 GB/s", "miss", None),
        ("all-gather algorithm bandwidth == 10 GB/s", "hit", None),
        ("broadcast bus bandwidth > 1 GB/s", "unknown", ""),
    ],
)
def test_marks(text: str, verdict: str, measured: str | None) -> None:
    found = mark(text)
    assert (found.verdict, found.text) == (verdict, text)
    assert measured in (None, found.measured)
    assert found.slice or verdict != "miss" or found.measured


def test_ranks_that_were_not_read_leave_a_hit_open() -> None:
    two_of_many = job_document(2, slow=1, world_size=128)
    for text in ("every rank: idle < 90%", "rank 1 is last", "slowest rank within 90% of median"):
        verdict = mark(text, two_of_many)
        assert (verdict.verdict, verdict.why) == ("unknown", "2 of 128 ranks were read")
    assert mark("every rank: idle > 90%", two_of_many).verdict == "miss"
    assert mark("missing ranks == 126", two_of_many).verdict == "hit"
    lost = replace_left_out(job_document())
    assert mark("every rank: idle < 90%", lost).why == "1 file could not be read"


def replace_left_out(found: JobDocument) -> JobDocument:
    return replace(found, left_out=[LeftOut("rank_9.json", "E_GZIP", "damaged")])


def test_nothing_matched_is_unknown() -> None:
    found = job_document()
    alone = replace(
        found,
        ranks=[
            replace(each, collectives=0, wait_ns=None, exposed_wait_ns=None) for each in found.ranks
        ],
    )
    for text in ("rank 3 is last", "slowest rank within 5% of the median", "wait < 1 ms"):
        verdict = mark(text, alone)
        assert verdict.verdict == "unknown"
        assert verdict.why


def test_what_cannot_be_parsed_is_an_error_and_stops_no_other() -> None:
    first, second, third = check_job(
        job_document(), ["every rank: exposed comms < 10 kg", "kernels == 5", "ranks == 4"]
    )
    assert (first.verdict, second.verdict, third.verdict) == ("error", "error", "hit")
    assert first.slice[0].index("^") == "every rank: exposed comms < 10 kg".index("10 kg") + 3
    assert "about one trace" in second.why
    assert mark("rank 9: idle < 1%").why == "no rank 9 in this job; it has 0, 1, 2, 3"
    with pytest.raises(GuessError, match="every rank: exposed comms < 10%"):
        parse_job("the ranks are happy")
