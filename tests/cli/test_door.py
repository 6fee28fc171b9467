"""Every kind of path against every command that takes one: the exit code and the one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from corpus.build import gn
from corpus.opening import run
from foretrace.read import recordings

SNAPSHOT = str(recordings.snapshots()["gpt_no_grad"])
LOGS = str(recordings.explained()["mlp_why"].parent / "mlp_why.why")
TRY = str(next(iter(recordings.tries().values())))
COMMANDS = {
    "look": ("look", "{}"),
    "look --fixes": ("look", "{}", "--fixes"),
    "compare": ("compare", "{}", "{}"),
    "check": ("check", "{}", "kernels > 0"),
    "report": ("report", "{}", "-o", "{out}"),
    "serve": ("serve", "{}", "--no-browser"),
    "why": ("why", "{}"),
    "memory": ("memory", "{}"),
    "job": ("job", "{}"),
    "history": ("history", "{folder}", "--add", "{}", "--commit", "c"),
    "lesson": ("lesson", "{}"),
    "export": ("export", "{}", "--to", "csv"),
    "export shared": ("export", "{}", "--to", "shared", "-o", "{folder}"),
}
# what a command does not take, and the command that the line names
REFUSED = {
    "snapshot": (
        SNAPSHOT,
        "look, look --fixes, compare, why, job, history, lesson, export",
        "is a pickle, like a snapshot of torch's allocator: foretrace memory",
    ),
    "logs": (
        LOGS,
        "look, look --fixes, compare, check, report, serve, memory, job, history, lesson, export, "
        "export shared",
        "is a log of torch.compile: foretrace why",
    ),
    "try": (
        TRY,
        "look --fixes, check, serve, why, memory, job, history, lesson, export, export shared",
        "is a result of foretrace try: foretrace look",
    ),
}


def words(command: str, path: str, tmp_path: Path) -> list[str]:
    """A command with its path, as it is typed."""
    out, folder = str(tmp_path / "page.html"), str(tmp_path / "out")
    (tmp_path / "out").mkdir(exist_ok=True)
    return [each.format(path, out=out, folder=folder) for each in COMMANDS[command]]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_names_the_command_that_takes_it(kind: str, tmp_path: Path) -> None:
    path, commands, line = REFUSED[kind]
    for command in commands.split(", "):
        ran = run(*words(command, path, tmp_path))
        assert (ran.code, ran.err.strip(), ran.out) == (2, f"foretrace: {path} {line} {path}", "")


def test_a_job_is_refused_by_what_takes_one_trace(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        for name in ("a.json", "b.json"):
            (tmp_path / "two" / name).write_bytes(gn(3).bytes())
            archive.writestr(name, gn(3).bytes())
    for path in (tmp_path / "two", tmp_path / "two.zip"):
        for command in ("look --fixes", "memory", "history", "lesson", "export"):
            ran = run(*words(command, str(path), tmp_path))
            assert ran.code == 2
            assert ran.err.startswith(f"foretrace: {path} contains 2 traces")


@pytest.mark.parametrize("kind", ["look", "compare", "report"])
def test_what_a_command_takes_it_answers(kind: str, tmp_path: Path) -> None:
    for path in (TRY, SNAPSHOT) if kind == "report" else (TRY,):
        assert run(*words(kind, path, tmp_path)).code == 0
        (tmp_path / "page.html").unlink(missing_ok=True)


def test_a_missing_file_is_one_line_everywhere(tmp_path: Path) -> None:
    path = str(tmp_path / "none.json")
    for command in COMMANDS:
        ran = run(*words(command, path, tmp_path))
        assert (ran.code, len(ran.err.strip().splitlines())) == (3, 1), ran.err
        assert "Traceback" not in ran.err
