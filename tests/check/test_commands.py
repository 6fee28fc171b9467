"""`foretrace check`, and `foretrace look --guess`."""

from __future__ import annotations

import json
import tomllib
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
    assert _check(MLP, "-g", 'op "```` <!--" == 1', "-g", "kernels == 15", "--markdown") == 1
    score, _, rest = capsys.readouterr().out.partition("\n\n")
    assert score == "2 guesses: 1 hit, 1 missed, 0 unknown"
    lines = rest.splitlines()
    assert lines[0] == lines[-1] == "`````"
    assert any("````" in line for line in lines[1:-1])


def test_the_document_of_the_contract(capsys: Out) -> None:
    texts = ("in mlp_fwd: kernels == 5", "gelu and mul are fused", "same gemm as A")
    assert _check(MLP, *(part for text in texts for part in ("-g", text)), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "hits", "misses", "unknown", "guesses"]
    assert (document["schema"], document["hits"], document["misses"], document["unknown"]) == (
        1,
        1,
        1,
        1,
    )
    assert [list(guess) for guess in document["guesses"]] == [
        ["text", "verdict", "measured", "expected", "why"]
    ] * 3
    assert document["guesses"][0] == {
        "text": "in mlp_fwd: kernels == 5",
        "verdict": "hit",
        "measured": "5 in each of 3 calls of mlp_fwd",
        "expected": "== 5",
        "why": "",
    }


def test_the_net_as_a_document_and_as_a_file(capsys: Out, tmp_path: Path) -> None:
    assert main(["check", MLP, "--write", "--json", "--no-cache"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "guesses"]
    assert document["schema"] == 1
    reason = "number of kernels, the same in each of 3 calls of mlp_fwd"
    assert document["guesses"][0] == {"text": "in mlp_fwd: kernels == 5", "reason": reason}
    assert main(["check", MLP, "--write", "--no-cache"]) == 0
    file = tmp_path / "guesses.toml"
    file.write_text(capsys.readouterr().out)
    texts = [entry["text"] for entry in tomllib.loads(file.read_text())["guess"]]
    assert texts == [entry["text"] for entry in document["guesses"]]
    assert _check(MLP, "--guesses", str(file)) == 0


def test_exit_codes(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    assert _check(MLP, "-g", "in mlp_fwd: kernels == 5") == 0
    assert _check(MLP, "-g", "in mlp_fwd: kernels == 4") == 1
    assert _check(MLP, "-g", "kernls == 4") == 2
    assert _check(MLP) == 2
    assert _check(str(tmp_path / "none.json"), "-g", "kernels == 5") == 3
    assert _check(MLP, "-g", "in nowhere: kernels == 5") == 2
    assert _check(MLP, "-g", "in step 9: kernels == 5") == 2
    assert _check(MLP, "-g", "peak memory < 6 GB") == 0
    assert _check(MLP, "-g", "peak memory < 6 GB", "--need-data") == 1
    assert _check(MLP, "-g", "peak memory < 6 GB", "--strict") == 1
    monkeypatch.setenv("CI", "true")
    assert _check(MLP, "-g", "peak memory < 6 GB") == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_bad_guess_does_not_stop_the_others(capsys: Out, tmp_path: Path) -> None:
    file = tmp_path / "guesses.toml"
    file.write_text('[[guess]]\ntext = "kernls == 5"\n[[guess]]\ntext = "kernels == 15"\n')
    bad = ("-g", "fused", "-g", "in mlp_typo: kernels == 5")
    assert _check(MLP, *bad, "--guesses", str(file), "--json") == 2
    document = json.loads(capsys.readouterr().out)
    marks = [guess["verdict"] for guess in document["guesses"]]
    assert marks == ["error", "error", "error", "hit"]
    whys = [guess["why"] for guess in document["guesses"]]
    assert "`gelu and mul are fused`" in whys[0]
    assert whys[1] == "no region 'mlp_typo' in this trace; it has mlp_fwd"
    assert whys[2].endswith(f"did you mean `kernels`? ({file}: guess 1)")


def test_thirty_guesses_fit_one_screen(capsys: Out) -> None:
    texts = [f"in mlp_fwd: kernels == {count}" for count in range(30)]
    arguments = [part for text in texts for part in ("-g", text)]
    assert _check(MLP, *arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "30 guesses: 1 hit, 29 missed, 0 unknown"
    assert lines[1] == "MISS    in mlp_fwd: kernels == 0 · 5 in each of 3 calls of mlp_fwd"
    assert lines[-1] == "--all shows the evidence (7 more)"
    assert len(lines) == 25
    assert _check(MLP, *arguments, "--all") == 1
    assert len(capsys.readouterr().out.splitlines()) > 100


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, capsys: Out) -> None:
    trace = tmp_path / "hostile.json"
    trace.write_bytes(TraceBuilder().kernel("bad\x1b[31mname", 10, 5, correlation=1).bytes())
    assert _check(str(trace), "-g", "kernels == 0") == 1
    assert "\x1b" not in capsys.readouterr().out


def _answers(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "answers.txt"
    file.write_text("\n".join(lines))
    return str(file)


def test_answers_from_a_file(tmp_path: Path, capsys: Out) -> None:
    answers = _answers(tmp_path, "5", "3", "no", "0", "", "nn", "compute")
    assert main(["look", MLP, "--guess", "--answers", answers, "--no-cache"]) == 1
    shown = capsys.readouterr().out
    assert "6 guesses: 5 hit, 1 missed, 0 unknown" in shown
    assert "MISS    in mlp_fwd: every gemm has layout nn" in shown
    assert "cuBLAS sees the weight transposed" in shown
