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

from foretrace.cli import FIRST, REMOVED, Commands, main
from foretrace.cli import docs as docs_command
from foretrace.cli import foretrace as group
from sweep import looped

COMMANDS = group.list_commands(click.Context(group))


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_help_lists_every_command_with_its_summary_uncut(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    every = group if not words else group.get_command(click.Context(group), "lab")
    assert isinstance(every, Commands)
    names = every.list_commands(click.Context(every))
    assert re.findall(r"^  (\w+) {2,}[A-Z]", text, re.MULTILINE) == names
    for name in names:
        assert re.search(rf"^  {name} +{re.escape(every.summary(name))}$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


def test_the_first_commands_come_first() -> None:
    assert COMMANDS[:9] == [*FIRST]
    assert COMMANDS[9:] == sorted(COMMANDS[9:])


def test_a_removed_command_says_what_to_type_instead(capsys: pytest.CaptureFixture[str]) -> None:
    for name in REMOVED.keys() - COMMANDS:
        assert main([name, "x", "--json"]) == 2
        said = capsys.readouterr().err
        assert said == f"foretrace: foretrace {name} is gone; instead: {REMOVED[name]}\n"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["lok"], "look"),
        (["lab", "run", "mpl"], "mlp"),
        (["lab", "bench", "gelu"], "geglu"),
        (["lab", "shapes", "mpl"], "mlp"),
        (["docs", "expor"], "export"),
        (["docs", "schema", "loook"], "look"),
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
    assert main(["lab", "run", "zzzzzz"]) == 2
    assert "choose one of matmul_add, linear, mlp" in capsys.readouterr().err


def _completions(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    complete = ShellComplete(group, {}, "foretrace", "_FORETRACE_COMPLETE")
    return [(item.type, item.value) for item in complete.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    "name",
    ["look", "check", "compare", "export", "report", "serve", "share", "record", "try"],
)
def test_the_shell_completes_file_names(name: str) -> None:
    assert _completions([name], "tra") == [("file", "tra")]


@pytest.mark.parametrize("words", [["lab", "run"], ["lab", "shapes"], ["lab", "ladder", "--only"]])
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
