"""Predictions across a change: what a reader and the replay say of the next trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.base.errors import UsageError
from foretrace.cli import main
from foretrace.compare.forecast import AskedForecast, Forecast, asked, forecast
from foretrace.read.recordings import find
from foretrace.trace.trace import Trace

Out = pytest.CaptureFixture[str]


def opened(name: str) -> Trace:
    return ft.open(str(find(name)), cache=False)


def test_the_numbers_of_the_mlp() -> None:
    """5 kernels to 4; gelu and mul move 5 tensors of 8192x3072 bf16, the fused kernel 3."""
    found = forecast(opened("mlp_eager"), opened("mlp_compiled"), {"kernels": (5, 5)})
    kernels, traffic, busy = found.entries
    tensor = 8192 * 3072 * 2
    assert (kernels.a, kernels.b, kernels.you and kernels.you.verdict) == (5, 4, "miss")
    assert (traffic.a, traffic.b) == (5 * tensor, 3 * tensor)
    assert traffic.replay
    assert traffic.replay.low < 3 * tensor < traffic.replay.high
    assert busy.a > (busy.b or 0)


def test_a_change_that_no_fix_makes_has_one_line_for_an_answer() -> None:
    """Liger's kernel is another library's: nothing in A says what it would do."""
    sizes = "64x128x768x3072_bf16"
    answer = {"gpu_ns": (2e5, 2.2e5)}
    found = forecast(opened(f"mlp_eager_{sizes}"), opened(f"mlp_liger_{sizes}"), answer)
    assert found.reason == "no fix that foretrace knows leads from A to B: the replay has no answer"
    assert {each.replay for each in found.entries} == {None}
    assert [each.you.verdict for each in found.entries if each.you] == ["hit"]


def test_another_program_is_refused() -> None:
    with pytest.raises(UsageError, match="A's program after a change: two programs"):
        asked(opened("mlp_eager"), opened("linear_compiled"))


TIME, KERNELS = AskedForecast("gpu_ns", "", 234e3), AskedForecast("kernels", "", 5)


@pytest.mark.parametrize(
    ("question", "answer", "meant"),
    [
        (KERNELS, "4", (4, 4)),
        (KERNELS, "4 to 6", (4, 6)),
        (TIME, "190 to 220 us", (190e3, 220e3)),
        (TIME, " 0.19-0.22ms ", (190e3, 220e3)),
        (TIME, "between 190us and 0.22 MS", (190e3, 220e3)),
        (TIME, "220–190 µs", (190e3, 220e3)),
        (TIME, "200 us", (180e3, 220e3)),
        (AskedForecast("bytes", "", 1), "~100 mib", (0.9 * 100 * 2**20, 1.1 * 100 * 2**20)),
    ],
)
def test_what_an_answer_means(
    question: AskedForecast, answer: str, meant: tuple[float, float]
) -> None:
    assert question.answer(answer) == pytest.approx(meant)


@pytest.mark.parametrize(
    "answer", ["abc", "200", "1 to 2 to 3 us", "-5 us", "1 MB", "1 to 9 us", "٣ us", "1e3 us", "us"]
)
def test_what_is_no_answer(answer: str) -> None:
    with pytest.raises(UsageError, match=r"enter a number and its unit|a factor of two apart"):
        TIME.answer(answer)


def test_answers_are_kept_until_the_next_trace_is_there(tmp_path: Path, capsys: Out) -> None:
    kept = tmp_path / "answers"
    kept.write_text("4\n\n190 to 210 us\n")
    given = ["--answers", str(kept), "--no-cache"]
    assert main(["look", "mlp_eager", "--guess", "--then", "compile", *given]) == 0
    assert capsys.readouterr().out == kept.read_text()
    assert main(["look", "mlp_eager", "--guess", "--then", "mlp_compiled", "--json", *given]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == list(Forecast.__struct_fields__)
    assert [bool(each["you"]) for each in answer["entries"]] == [True, False, True]
    kept.write_text("5\n")
    assert main(["look", "mlp_eager", "--guess", "--then", "mlp_compiled", *given]) == 1
    page = capsys.readouterr()
    assert "you 0 of 1, the replay 3 of 3" in " ".join(page.out.split())
    assert "B  mlp_compiled: the same program after the change" in page.err
