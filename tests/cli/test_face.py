"""What a person meets first: the list of commands, suggestions, completion, and the pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from foretrace.cli import GROUPS, described_as, main
from foretrace.cli import docs as docs_command
from foretrace.cli import foretrace as group
from sweep import looped

COMMANDS = group.list_commands(click.Context(group))


def test_help_lists_every_command_in_its_group_uncut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    sections = dict(re.findall(r"^([A-Z][\w ]+):\n((?:  .+\n)+)", text, re.MULTILINE))
    for name in COMMANDS:
        own, summary = described_as(name)
        assert own in GROUPS, name
        assert re.search(rf"^  {name} +{re.escape(summary)}$", sections[own], re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["lok"], "look"),
        (["run", "mpl"], "mlp"),
        (["bench", "gelu"], "geglu"),
        (["shapes", "mpl"], "mlp"),
        (["docs", "expor"], "export"),
        (["schema", "loook"], "look"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_word_that_is_close_to_nothing_gets_the_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "zzzzzz"]) == 2
    assert "choose one of matmul_add, linear, mlp" in capsys.readouterr().err


def _completions(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    complete = ShellComplete(group, {}, "foretrace", "_FORETRACE_COMPLETE")
    return [(item.type, item.value) for item in complete.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    "name",
    ["look", "check", "compare", "guess", "export", "report", "serve", "share", "record", "worth"],
)
def test_the_shell_completes_file_names(name: str) -> None:
    assert _completions([name], "tra") == [("file", "tra")]


@pytest.mark.parametrize("words", [["run"], ["shapes"], ["ladder", "--only"]])
def test_the_shell_completes_rungs(words: list[str]) -> None:
    assert [value for _, value in _completions(words, "m")] == ["matmul_add", "mlp", "model"]


def test_the_shell_completes_commands_and_pages() -> None:
    assert [value for _, value in _completions([], "com")] == ["compare"]
    assert ("plain", "findings") in _completions(["docs"], "fi")


def test_the_documented_completion_script_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "foretrace"],
        env={**os.environ, "_FORETRACE_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete -o nosort -F" in done.stdout


@looped("name", [name for name in COMMANDS if name != "docs"])
def test_the_help_of_a_command_names_a_page_that_is_there(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    page = re.fullmatch(r"See: foretrace docs ([\w-]+)", command.epilog or "")
    assert page
    assert page[1] in docs_command.pages()


def test_docs_lists_the_pages_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    assert re.search(r"^jobs +A job of many ranks$", capsys.readouterr().out, re.MULTILINE)
    assert main(["docs", "jobs"]) == 0
    assert capsys.readouterr().out == docs_command.pages()["jobs"].read_text()


def test_an_installed_package_reads_its_own_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only.md").write_text("# The only page\n")
    monkeypatch.setattr(docs_command, "PACKAGED", tmp_path)
    assert list(docs_command.pages()) == ["only"]
