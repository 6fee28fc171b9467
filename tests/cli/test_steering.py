"""Rules that people steer: `--select`, `--ignore` and `[tool.foretrace]`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.errors import UsageError
from foretrace.cli import main
from foretrace.cli._settings import MOST_BYTES, Settings, settings
from foretrace.look import rules
from foretrace.look.steering import Steering
from foretrace.read import recordings
from foretrace.trace import opening

TRAIN = "llama_decode_eager_2layers"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, seen from a folder inside it."""
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    return inside.parent


def write(project: Path, table: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.foretrace]\n{table}\n")


def looked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["look", TRAIN, "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_ignored_rule_is_counted_and_its_fix_is_not_advised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, after = looked(capsys), looked(capsys, "--ignore", "launch_bound,casts")
    assert before["verdict"]["first"].startswith("CUDA graph")
    assert after["verdict"]["first"].startswith("torch.compile")
    gone = {"launch_bound", "casts"}
    assert {row["rule"] for row in before["findings"]} - {
        row["rule"] for row in after["findings"]
    } == gone
    assert {row["name"]: row["how"] for row in after["ignored"]} == dict.fromkeys(
        [*gone, "cuda_graph"], "ignored"
    )
    assert main(["look", TRAIN, "--ignore", "launch_bound", "--ignore", "casts"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "IGNORED 2 findings: casts, launch_bound; 1 fix: cuda_graph" in told
    assert main(["look", "mlp_eager", "--fixes", "--ignore", "compile"]) == 0
    assert "no other fix is predicted to shorten this by 3%" in capsys.readouterr().out


def test_selected_rules_alone_speak(capsys: pytest.CaptureFixture[str]) -> None:
    found = looked(capsys, "--select", "launch_bound")
    assert {row["rule"] for row in found["findings"]} == {"launch_bound"}
    assert [row["name"] for row in found["fixes"]] == ["cuda_graph"]
    assert {row["how"] for row in found["ignored"]} == {"not selected"}
    # a fix has a name too, and what is ignored stays so
    found = looked(capsys, "--select", "compile,launch_bound", "--ignore", "launch_bound")
    assert [row["name"] for row in found["fixes"]] == ["compile"]


def test_what_compiling_brings_is_not_denied(capsys: pytest.CaptureFixture[str]) -> None:
    """`COMPILE no gain predicted` stood there where the gain was ignored."""
    assert main(["look", "mlp_eager", "--ignore", "compile"]) == 0
    told = capsys.readouterr().out
    assert "COMPILE" not in told
    assert "no other fix is predicted to shorten this by 3%" in told


def test_the_file_gives_reasons_and_the_command_line_beats_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, 'ignore = {launch_bound = "small batches on purpose"}')
    assert main(["look", TRAIN]) == 0
    told = " ".join(capsys.readouterr().out.split())
    reason = "(small batches on purpose)"
    assert f"IGNORED 1 finding: launch_bound {reason}; 1 fix: cuda_graph {reason}" in told
    assert looked(capsys, "--isolated")["ignored"] == []
    selected = looked(capsys, "--select", "launch_bound")
    assert [row["name"] for row in selected["fixes"]] == ["cuda_graph"]
    for words, advised in (([], False), (["cuda_graph"], True), (["--isolated"], True)):
        assert main(["look", TRAIN, "--fixes", *words, "--json"]) == 0
        names = [row["name"] for row in json.loads(capsys.readouterr().out)["fixes"]]
        assert ("cuda_graph" in names) == advised
    assert main(["look", TRAIN, "--explain", "launch_bound"]) == 0
    assert "It applies, and is ignored." in capsys.readouterr().out


def test_a_set_counts_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("linear_eager", "mlp_eager"):
        (tmp_path / f"{name}.json.gz").write_bytes(recordings.traces()[name].read_bytes())
    assert main(["look", str(tmp_path), "--ignore", "metadata_only"]) == 0
    assert "IGNORED 2 findings: metadata_only" in " ".join(capsys.readouterr().out.split())


def test_the_report_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "page.html")
    assert main(["report", "mlp_eager", "--ignore", "gemm_choice", "-o", out]) == 0
    page = Path(out).read_text()
    assert "1 finding: gemm_choice" in page
    assert '"rule":"gemm_choice"' not in page
    assert main(["report", "mlp_eager", "--ignore", "gemm_chioce", "-o", out]) == 2
    assert "did you mean gemm_choice" in capsys.readouterr().err


def test_the_cache_keeps_choices_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from foretrace.look import reading

    trace = str(recordings.traces()["mlp_eager"])
    chosen = [Steering(), Steering(("casts",)), Steering((), {"casts": ""}), Steering(("a",), {})]
    assert len({reading._program(trace, None, each) for each in chosen}) == len(chosen)


WRONG = {
    'ignore = ["casts"]': "ignore must be a table of rules and reasons",
    'ignore = {casts = ""}': "ignore must be a table of rules and reasons",
    "select = 3": "select must be a list of rules",
    "fail-if = 'kernels > 2'": "fail-if must be a list of conditions",
    'traces = ["a"]': "traces must be a folder",
    'ingore = {casts = "x"}': "ingore: no such key; did you mean ignore?",
    'ignore = {cast = "x"}': "ignore: no rule or fix 'cast'; did you mean casts",
    "select = [": "not valid TOML",
    'traces = "../elsewhere"': "must be a folder inside the project",
    'traces = "/tmp/elsewhere"': "must be a folder inside the project",
    r'traces = "a\u0000b"': "must be a folder inside the project",
    "select = " + "[" * 3000: "not valid TOML",
}


@pytest.mark.parametrize("table", WRONG)
def test_a_wrong_entry_is_one_line_with_file_and_key(
    table: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, table)
    assert main(["look", TRAIN]) == 2
    said = capsys.readouterr().err
    assert said.startswith("foretrace: ../pyproject.toml: ")
    assert WRONG[table] in said
    assert said.count("\n") == 1
    assert main(["look", "linear_eager", "--isolated"]) == 0


def test_the_nearest_file_with_the_table_counts(project: Path) -> None:
    write(project, 'select = ["casts"]')
    here = Path("pyproject.toml")
    here.write_text("[tool.ruff]\nline-length = 100\n")
    assert settings().select == ("casts",)
    here.write_text("[tool.foretrace]\n", encoding="utf-8-sig")
    assert settings().select == ()
    here.write_bytes(b"[tool.foretrace]\n" + b"#" * MOST_BYTES)  # no project's file is as large
    assert settings().select == ("casts",)
    here.unlink()
    os.mkfifo(here)  # a stranger's file does not make a command wait
    assert settings().select == ("casts",)


def test_a_folder_that_was_removed_has_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "cwd", lambda: Path("/no/such").resolve(strict=True))
    assert settings() == Settings()


def test_a_stranger_s_project_writes_nothing_elsewhere(project: Path, tmp_path: Path) -> None:
    write(project, 'traces = "runs"')
    assert settings().traces == Path("../runs")
    (project / "runs").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="inside the project"):
        settings()


def test_thresholds_of_the_file_judge_a_comparison(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ["compare", "mlp_compiled", "mlp_eager"]
    write(
        project, 'fail-if = ["gpu.time > 1.05 * a.gpu.time", "exposed > 10%"]'
    )  # the second is about jobs
    assert main(pair) == 1
    assert "FAIL  gpu.time > 1.05 * a.gpu.time" in capsys.readouterr().err
    assert main([*pair, "--isolated"]) == 0
    assert main([*pair, "--fail-if", "gpu.time > 2 * a.gpu.time"]) == 0
    write(project, 'fail-if = ["gpu over the moon"]')
    assert main(pair) == 2
    assert "tool.foretrace.fail-if: cannot read 'gpu over the moon'" in capsys.readouterr().err


def test_commands_without_a_folder_take_the_project_s(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("serve", "mcp"):
        assert main([command]) == 2
        assert "give the folder that holds the traces" in capsys.readouterr().err
    write(project, 'traces = "runs"')
    assert main(["mcp"]) == 2
    assert "../runs is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted({rule.example for rule in rules.rules()} - {""}))
def test_the_example_of_a_rule_shows_it(name: str) -> None:
    path = recordings.find(name)
    assert path is not None
    trace = opening.open(str(path))
    for rule in rules.rules():
        if rule.example == name:
            assert rules.run(rule, trace)[0].state == "found", rule.name


def test_the_page_shows_the_file_that_its_examples_run_with() -> None:
    root = Path(__file__).parents[2]
    shown = (
        (root / "docs" / "steering.md").read_text().partition("```toml\n")[2].partition("```")[0]
    )
    assert shown == (root / "tests/recorded/pages/steering/pyproject.toml").read_text()
