"""`foretrace check`, and `foretrace look --guess`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from check.conftest import H200
from corpus.builder import TraceBuilder
from foretrace.cli import main

MLP = str(H200 / "mlp_eager.json.gz")
Out = pytest.CaptureFixture[str]


def _check(*arguments: str) -> int:
    return main(["check", *arguments, "--no-cache"])


def test_markdown_is_one_fence_that_no_prediction_ends(capsys: Out) -> None:
    assert _check(MLP, 'calls("```` <!--") == 1', "total.kernels == 15", "--markdown") == 1
    score, _, rest = capsys.readouterr().out.partition("\n\n")
    assert score == "2 predictions: 1 hit, 1 missed, 0 unknown"
    lines = rest.splitlines()
    assert lines[0] == lines[-1] == "`````"
    assert any("````" in line for line in lines[1:-1])


def test_the_document_of_the_contract(capsys: Out) -> None:
    texts = ("in mlp_fwd: kernels == 5", "fused(gelu, mul)", "same(gemm)")
    assert _check(MLP, *texts, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "hits", "misses", "unknown", "guesses"]
    assert [*document.values()][:4] == [1, 1, 1, 1]
    assert [list(marked) for marked in document["guesses"]] == [
        ["text", "verdict", "measured", "expected", "why"]
    ] * 3
    assert document["guesses"][0] == {
        "text": "in mlp_fwd: kernels == 5",
        "verdict": "hit",
        "measured": "5",
        "expected": "kernels == 5",
        "why": "",
    }


def test_what_holds_now_holds_as_a_file(capsys: Out, tmp_path: Path) -> None:
    assert main(["check", MLP, "--json", "--no-cache"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "predictions"]
    reason = "number of kernels, the same in each of 3 calls of mlp_fwd"
    assert document["predictions"][0] == {"text": "in mlp_fwd: kernels == 5", "reason": reason}
    assert main(["check", MLP, "--no-cache"]) == 0
    file = tmp_path / "holds.txt"
    file.write_text(capsys.readouterr().out)
    assert len(file.read_text().splitlines()) == len(document["predictions"])
    assert _check(MLP, "--predictions", str(file)) == 0


def test_exit_codes(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    assert _check(MLP, "in mlp_fwd: kernels == 5") == 0
    assert _check(MLP, "in mlp_fwd: kernels == 4") == 1
    assert _check(MLP, "kernls == 4") == 2
    assert _check(MLP, "gelu and mul are fused") == 2
    assert _check(str(tmp_path / "none.json"), "kernels == 5") == 3
    assert _check(MLP, "in nowhere: kernels == 5") == 2
    assert _check(MLP, "in step 9: kernels == 5") == 2
    assert _check(MLP, "peak < 6 GB") == 0
    assert _check(MLP, "peak < 6 GB", "--need-data") == 1
    assert _check(MLP, "peak < 6 GB", "--strict") == 1
    monkeypatch.setenv("CI", "true")
    assert _check(MLP, "peak < 6 GB") == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_text_stops_no_other(capsys: Out, tmp_path: Path) -> None:
    file = tmp_path / "predictions.toml"
    tables = (f'[[prediction]]\ntext = "{text}"\n' for text in ("kernls == 5", "kernels == 5"))
    file.write_text("".join(tables))
    texts = ("gelu and mul are fused", "in mlp_typo: kernels == 5")
    assert _check(MLP, *texts, "--predictions", str(file), "--json") == 2
    marked = json.loads(capsys.readouterr().out)["guesses"]
    assert [each["verdict"] for each in marked] == ["error", "error", "error", "hit"]
    assert "not a sentence; did you mean `fused(gelu, mul)` (false)" in marked[0]["why"]
    assert marked[1]["why"] == "no region mlp_typo in this trace; it has mlp_fwd"
    assert "did you mean `kernels` (5)" in marked[2]["why"]


def test_thirty_predictions_fit_one_screen(capsys: Out) -> None:
    texts = [f"in mlp_fwd: kernels == {count}" for count in range(30)]
    assert _check(MLP, *texts) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "30 predictions: 1 hit, 29 missed, 0 unknown"
    assert lines[1] == "MISS    in mlp_fwd: kernels == 0 · 5"
    assert lines[-1] == "--all shows the evidence (7 more)"
    assert len(lines) == 25
    assert _check(MLP, *texts, "--all") == 1
    assert len(capsys.readouterr().out.splitlines()) > 100


def test_a_snapshot_decides_memory_alone(capsys: Out) -> None:
    texts = ("peak < 10 GB", "growth <= 0 B", "peak.held(activations) < 1 GB", "kernels == 5")
    assert _check("gpt_leak", *texts, "--json") == 1
    marked = json.loads(capsys.readouterr().out)["guesses"]
    assert [each["verdict"] for each in marked] == ["hit", "miss", "hit", "unknown"]
    assert marked[1]["measured"] == "805.4 MB (1.08 GB after step 2, 1.88 GB after step 8)"


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, capsys: Out) -> None:
    trace = tmp_path / "hostile.json"
    trace.write_bytes(TraceBuilder().kernel("bad\x1b[31mname", 10, 5, correlation=1).bytes())
    assert _check(str(trace), "kernels == 0") == 1
    assert "\x1b" not in capsys.readouterr().out


def _answers(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "answers.txt"
    file.write_text("\n".join(lines))
    return str(file)


def test_the_screen_then_your_numbers(tmp_path: Path, capsys: Out) -> None:
    answers = _answers(tmp_path, "5", "1 ms", "", "70%", "host")
    assert main(["look", MLP, "--guess", "--answers", answers, "--no-cache"]) == 0
    screen, table = capsys.readouterr().out.split("more: ")
    assert screen.startswith("mlp_eager")
    rows = [line.split() for line in table.splitlines()[1:] if line]
    assert rows[1:5] == [
        ["kernels", "5", "5", "near"],
        ["step.time", "1.00", "ms", "253", "us", "3.95x", "less"],
        ["share(GEMM)", "70.0%", "69.9%", "near"],
        ["bound", "host", "compute", "another"],
    ]


def test_your_numbers_as_a_document(tmp_path: Path, capsys: Out) -> None:
    answers = _answers(tmp_path, "5", "q")
    assert main(["look", MLP, "--guess", "--answers", answers, "--json", "--no-cache"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert (answer["name"], answer["yours"], answer["real"], answer["near"]) == (
        *("kernels", "5", "5"),
        True,
    )


def test_an_answer_that_is_none_is_named(tmp_path: Path, capsys: Out) -> None:
    answers = _answers(tmp_path, "5", "7")
    assert main(["look", MLP, "--guess", "--answers", answers, "--no-cache"]) == 2
    assert "line 2: How long does a step take" in capsys.readouterr().err
