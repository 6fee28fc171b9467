"""The command line as people and other programs meet it: the list of commands, suggestions,
completion, pages, exit codes, one line for bad input, one document for --json.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from foretrace.cli import REMOVED, Commands, main
from foretrace.cli import docs as docs_command
from foretrace.cli import foretrace as group
from foretrace.cli.record import misplaced
from foretrace.read import recordings
from sweep import looped

Said = pytest.CaptureFixture[str]
MLP = str(recordings.traces()["mlp_eager"])
COMMANDS = group.list_commands(click.Context(group))
LAB = group.get_command(click.Context(group), "lab")
assert isinstance(LAB, Commands)
MODULES = [*COMMANDS, *(f"lab.{name}" for name in LAB.list_commands(click.Context(LAB)))]
# they are given no trace
MAKERS = {"docs", "explain", "lab", "mcp", "record", "try"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("words", "every"), [([], group), (["lab"], LAB)], ids=["top", "lab"])
def test_help_lists_every_command_with_its_summary_uncut(
    words: list[str], every: Commands, capsys: Said
) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    names = every.list_commands(click.Context(every))
    assert re.findall(r"^  (\w+) {2,}[A-Z]", text, re.MULTILINE) == names
    for name in names:
        assert re.search(rf"^  {name} +{re.escape(every.summary(name))}$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


def test_a_removed_command_says_what_to_type_instead(capsys: Said) -> None:
    for name in REMOVED.keys() - COMMANDS:
        assert main([name, "x", "--json"]) == 2
        said = capsys.readouterr().err
        assert said == f"foretrace: foretrace {name} is gone; instead: {REMOVED[name]}\n"
        for used in re.findall(r"foretrace ([a-z]+)(?: |$)", REMOVED[name]):
            assert used in COMMANDS


@pytest.mark.parametrize("name", MODULES)
def test_every_command_has_help_with_a_page_that_is_there(name: str, capsys: Said) -> None:
    words = name.split(".")
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Usage: foretrace {' '.join(words)}" in text
    page = re.search(r"See: foretrace docs ([\w-]+)", text)
    assert name == "docs" or (page and page[1] in docs_command.pages())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", MODULES)
def test_a_command_is_imported_without_what_it_uses(name: str) -> None:
    """Help must stay quick: a command's file brings in nothing heavier than Click."""
    heavy = ("polars", "numpy", "torch", "starlette", "msgspec", "pytest")
    code = (
        "import importlib, sys; "
        f"importlib.import_module('foretrace.cli.{name}'); "  # `try` is a word of Python
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lok"], "did you mean look?"),
        (["lab", "run", "mpl"], "did you mean mlp?"),
        (["lab", "bench", "gelu"], "did you mean geglu?"),
        (["lab", "shapes", "mpl"], "did you mean mlp?"),
        (["docs", "expor"], "did you mean export?"),
        (["docs", "schema", "loook"], "did you mean look?"),
        (["docs", "look", "look"], "takes no second word"),
        (["lab", "run", "zzzzzz"], "choose one of matmul_add, linear, mlp"),
        (["nonsense"], "no command 'nonsense'"),
        (["look"], "give a TRACE"),
        (["look", MLP, "compile"], "compile: only --fixes takes more words"),
        (["look", MLP, "--fixes", "--guess"], "give one of them"),
        (["look", MLP, "--fixes", "--kernels"], "--fixes shows nothing else"),
        (["look", MLP, "--then", "compile"], "go with --guess"),
        (["look", MLP, "--guess", "--markdown"], "--guess answers as text or with --json"),
        (["look", "--list", "mlp", "--json"], "--list takes neither a trace"),
        (["look", MLP, "--bad"], "--bad"),
        (["look", MLP, "--limit", "depth=x"], "depth"),
        (["look", MLP, "--limit", "depth=0"], "depth"),
        (["look", MLP, "--json", "--markdown"], "choose one of --json and --markdown"),
        (["check", MLP, "--against", MLP], "give predictions, or the trace alone"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: Said) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


def _completions(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    complete = ShellComplete(group, {}, "foretrace", "_FORETRACE_COMPLETE")
    return [(item.type, item.value) for item in complete.get_completions(words, incomplete)]


def test_the_shell_completes_files_rungs_commands_and_pages() -> None:
    for name in ("look", "check", "compare", "export", "report", "serve", "record", "try"):
        assert _completions([name], "tra") == [("file", "tra")], name
    for words in (["lab", "run"], ["lab", "shapes"], ["lab", "ladder", "--only"]):
        assert [value for _, value in _completions(words, "m")] == ["matmul_add", "mlp", "model"]
    assert [value for _, value in _completions([], "com")] == ["compare"]
    assert ("plain", "export") in _completions(["docs"], "ex")
    done = subprocess.run(
        [sys.executable, "-m", "foretrace"],
        env={**os.environ, "_FORETRACE_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete -o nosort -F" in done.stdout


def test_docs_lists_the_pages_and_prints_one(
    capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["docs"]) == 0
    assert re.search(r"^jobs +A job of many ranks$", capsys.readouterr().out, re.MULTILINE)
    assert main(["docs", "jobs"]) == 0
    assert capsys.readouterr().out == docs_command.pages()["jobs"].read_text()
    (tmp_path / "only.md").write_text("# The only page\n")
    monkeypatch.setattr(docs_command, "PACKAGED", tmp_path)  # an installed package has its own
    assert list(docs_command.pages()) == ["only"]


def test_look_loads_polars_after_reading() -> None:
    """The reader forks only while Polars, which starts threads, is not loaded."""
    code = "import foretrace.look.reading, sys; print('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


ANNOTATED = ["export", MLP, "--to", "perfetto", "--no-browser", "--annotated", "-o"]


def test_an_entry_of_the_run_record_that_is_not_valid_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json.gz"
    path.write_bytes(Path(MLP).read_bytes())
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": -5}}
    (tmp_path / "run.run.json").write_text(json.dumps(record))
    assert main(["look", str(path)]) == 0
    said = capsys.readouterr().err
    assert (
        said == f"foretrace: warning: {path}: its run record has no valid timing.wall_ns_per_call\n"
    )


@looped("name", sorted(set(COMMANDS) - MAKERS))
def test_every_command_that_opens_a_trace_takes_these(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert {"--no-cache", "--strict"} <= {word for option in command.params for word in option.opts}


def test_an_option_after_the_script_is_named() -> None:
    """`foretrace record train.py --stacks` recorded no stacks, without a word."""
    assert misplaced(["--stacks", "--lr", "-o", "--steps=3", "x"]) == [
        "--stacks",
        "-o",
        "--steps=3",
    ]


def test_nothing_is_served_of_a_path_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "/no/such/file", "--no-browser"]) == 3
    assert "E_UNREADABLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["report", MLP, "-o", "{here}/no/x.html"],
            "{here}/no/x.html: no folder {here}/no",
        ),
        (["report", MLP, "-o", "{here}", "--overwrite"], "{here} is a folder"),
        (
            [*ANNOTATED, "{here}/no/x.json.gz"],
            "{here}/no/x.json.gz: no folder",
        ),
        (["export", MLP, "--to", "shared", "-o", "{here}/file/x"], "{here}/file/x"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main([argument.format(here=tmp_path) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert said.format(here=tmp_path) in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["file"]


@pytest.mark.parametrize("arguments", [["report", MLP, "-o"], ANNOTATED])
@pytest.mark.parametrize("leads_to", ["secret", "nowhere"])
def test_no_output_is_written_through_a_link(
    arguments: list[str], leads_to: str, tmp_path: Path
) -> None:
    """A link counts as a file that is there; on request it is replaced."""
    secret, link = tmp_path / "secret", tmp_path / "out.json.gz"
    secret.write_text("secret")
    link.symlink_to(tmp_path / leads_to)
    assert main([*arguments, str(link), "--no-cache"]) == 2
    assert link.is_symlink()
    assert main([*arguments, str(link), "--no-cache", "--overwrite"]) == 0
    assert not link.is_symlink()
    assert secret.read_text() == "secret"
    assert not (tmp_path / "nowhere").exists()


def test_a_report_that_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    import foretrace
    from foretrace.base.errors import UsageError
    from foretrace.pages import write_report

    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(tmp_path / "folder", [foretrace.open(MLP, cache=False)])
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def _without(name: str, what: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process in which importing `name` does `what`."""
    code = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            {what}
sys.meta_path.insert(0, Finder())
sys.argv[0] = "foretrace"
from foretrace.__main__ import run
run()
"""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["click", "msgspec"])
def test_a_missing_package_is_one_line_with_the_command_that_supplies_it(name: str) -> None:
    done = _without(
        name, f"raise ModuleNotFoundError('no', name={name!r})", "look", MLP, "--no-cache"
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert f"pip install {name}" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["click", "polars"])
def test_stopped_while_loading(name: str) -> None:
    done = _without(name, "raise KeyboardInterrupt", "look", MLP, "--no-cache")
    assert (done.returncode, done.stderr.strip()) == (130, "foretrace: stopped")


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("Usage: foretrace [OPTIONS] COMMAND")
    assert shown.err == ""


def test_a_profiler_that_saves_time_is_noise() -> None:
    from foretrace.cli.lab.run import _summary

    record = {"timing": {"first_call_ns": 9, "wall_ns_per_call": 5}, "compile": {"frames": 0}}
    for share, said in ((0.25, "the profiler adds 25.0% to the host time"), (-0.157, "the noise")):
        record["timing"]["profiler_overhead"] = share  # type: ignore[index]
        assert _summary(record).endswith(said)
