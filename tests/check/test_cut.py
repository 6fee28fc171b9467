"""A trace that is not whole: what is still decided is decided as on the whole trace, and nothing
absent is a hit.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from check.conftest import TEXTS, recorded
from corpus.places import RECORDED
from foretrace.base.errors import TraceError
from foretrace.check import check
from foretrace.check.baseline import write
from foretrace.check.questions import questions
from foretrace.cli import main
from foretrace.trace.trace import Trace

ABSENCES = [
    "kernels == 0",
    "memcpy == 0",
    "gpu time < 1 s",
    "no kernel is fp32 gemm",
    "kernels <= 15",
    "sync <= 1",
    "steps == 3",
    "aten::mm != 8",
    "in step 2: kernels == 5",
    "last gemm time < 1 s",
    "no call cudaFoo",
    "gelu and mul are not fused",
    "every gemm comes from aten::mm",
    "no kernel comes from aten::mm",
    "every gemm is preceded by cudaFoo",
]
ALL = TEXTS + ABSENCES


@cache
def whole() -> bytes:
    return gzip.decompress((RECORDED / "mlp_eager.json.gz").read_bytes())


def cut(folder: Path, share: float) -> Path:
    """The recorded MLP without its end."""
    path = folder / "cut.json"
    path.write_bytes(whole()[: int(len(whole()) * share)])
    return path


def marks(trace: Trace) -> dict[str, str]:
    return {
        verdict.text: verdict.verdict for verdict in check(trace, ALL, recorded("mlp_compiled"))
    }


@cache
def marks_of_the_whole() -> dict[str, str]:
    return marks(recorded("mlp_eager"))


def decides_as_the_whole(trace: Trace) -> None:
    found, right = marks(trace), marks_of_the_whole()
    assert [text for text in found if found[text] not in ("unknown", right[text])] == []


@pytest.mark.sweep(3)
@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.999])
def test_what_is_decided_is_decided_as_on_the_whole(tmp_path: Path, share: float) -> None:
    decides_as_the_whole(ft.open(cut(tmp_path, share), cache=False))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("skip", range(0, 60, 7))
def test_a_record_that_cannot_be_read_is_a_gap_too(tmp_path: Path, skip: int) -> None:
    """Any one event may be the one that would have overturned it."""
    document = json.loads(whole())
    events = [json.dumps(event) for event in document["traceEvents"]]
    ranges = [
        place for place, event in enumerate(document["traceEvents"]) if event.get("ph") == "X"
    ]
    events[ranges[skip * len(ranges) // 60]] = '{"ph": "X", "name": tru}'
    path = tmp_path / "damaged.json"
    empty, full = '"traceEvents": []', f'"traceEvents": [{",".join(events)}]'
    path.write_text(json.dumps({**document, "traceEvents": []}).replace(empty, full))
    trace = ft.open(path, cache=False)
    assert "event_unparsable" in trace.ledger.gap
    decides_as_the_whole(trace)


def test_what_was_seen_is_still_there(tmp_path: Path) -> None:
    trace = ft.open(cut(tmp_path, 0.95), cache=False)
    texts = [
        "kernels > 3",
        "kernels == 0",
        "kernels == 15",
        "some gemm has layout tn",
        "in mlp_fwd: kernels > 3",
    ]
    verdicts = check(trace, texts)
    assert [verdict.verdict for verdict in verdicts] == ["hit", "miss", "unknown", "hit", "unknown"]
    assert verdicts[2].measured == "15 or more"
    assert verdicts[2].why == trace.ledger.gap == verdicts[4].why
    assert trace.ledger.gap.startswith(
        "the trace is incomplete (trace_truncated): the input ends inside the document"
    )


def test_no_net_and_no_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = cut(tmp_path, 0.95)
    with pytest.raises(TraceError, match="E_NOT_WHOLE"):
        write(ft.open(path, cache=False))
    assert questions(ft.open(path, cache=False)) == []
    assert main(["check", str(path), "--write"]) == 3
    assert main(["look", str(path), "--guess"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "incomplete (trace_truncated)" in said.err
