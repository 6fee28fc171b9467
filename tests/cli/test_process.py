"""The process around a command: streams that are closed, full or narrow, and signals."""

from __future__ import annotations

import ast
import codecs
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foretrace.cli import _process, main
from foretrace.read import cache, recordings

MLP = str(recordings.traces()["mlp_eager"])


def shell(arguments: list[str], ending: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """The command line in a shell, with redirections."""
    command = f"{shlex.join([sys.executable, '-m', 'foretrace', *arguments])} {ending}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, env={**os.environ, **env}, check=False
    )


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("arguments", "ending", "code", "said"),
    [
        (
            ["look", MLP, "--json"],
            ">/dev/full",
            2,
            "No space left on device; redirect it to another",
        ),
        (["look", MLP], ">&-", 2, "cannot write the output: Bad file descriptor"),
        (["docs"], "<&- >&- 2>&-", 2, ""),
        (["look", "-"], "<&-", 3, "E_EMPTY"),
        (["docs"], "<&- >/dev/null", 0, ""),
        (["look", "/no"], "2>&-", 3, ""),
        (["look", "/no"], "2>/dev/full", 3, ""),
        (["docs"], "2>/dev/full >/dev/full", 2, ""),
        ([], ">/dev/full", 2, "cannot write the output: No space left on device"),
        (["look", MLP, "--all"], "| head -c 1; exit ${PIPESTATUS[0]}", 0, ""),
        # more than a pipe holds
        (["docs", "commands"], "| head -c 1; exit ${PIPESTATUS[0]}", 0, ""),
        (["look", "/no"], "2>&1 | true; exit ${PIPESTATUS[0]}", 3, ""),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_bug(
    arguments: list[str], ending: str, code: int, said: str
) -> None:
    """Closed stdin, stdout and stderr, a full device, a reader that leaves early."""
    done = shell(arguments, ending)
    assert done.returncode == code, done.stderr
    error = done.stderr.decode()
    assert said in error
    assert error.count("\n") == bool(said)


def test_a_file_is_written_with_every_stream_closed(tmp_path: Path) -> None:
    """A file that is opened while a stream is closed never takes its number."""
    out = tmp_path / "report.html"
    shell(["report", MLP, "-o", str(out)], "<&- >&- 2>&-")
    assert out.read_bytes().startswith(b"<!doctype html>")


NAME = "kernel_… · 语 😀"


@pytest.mark.parametrize(
    "env", [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
def test_what_an_encoding_lacks_is_escaped(env: dict[str, str], tmp_path: Path) -> None:
    """latin-1 stdout; JSON stays JSON, and no character is lost."""
    events = [{"ph": "X", "cat": "kernel", "name": NAME, "ts": 1, "dur": 1, "pid": 0, "tid": 7}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = shell(["look", str(path), "--json"], "", **env)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(env.get("PYTHONIOENCODING", "utf-8"))
    assert [row["name"] for row in json.loads(text)["kernels"]] == [NAME]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "shift-jis", "utf-8"])
def test_what_is_escaped_is_what_json_reads(encoding: str) -> None:
    codecs.register_error("escaped", _process._escaped)
    text = f"{NAME} \udc80"
    assert json.loads(f'"{text}"'.encode(encoding, "escaped").decode(encoding)) == text


def test_too_little_memory_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MemoryError was shown as a bug."""

    def full(*given: object, **more: object) -> None:
        raise MemoryError

    monkeypatch.setattr("foretrace.cli.docs.pages", full)
    assert main(["docs"]) == 3
    assert capsys.readouterr().err == "foretrace: out of memory: free some, then run it again\n"


SLOW = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under `nohup`
from foretrace.__main__ import run
from foretrace.read import cache
def packed(tables):
    yield b"half of it"
    print("saving", flush=True)
    time.sleep(60)
cache._packed = packed
cache.WORTHWHILE_BYTES = 0
run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_tables_are_saved_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Interrupting while tables are saved left a draft in the cache."""
    command = [sys.executable, "-c", SLOW, "check", MLP, "total.kernels > 0"]
    env = {**os.environ, "FORETRACE_CACHE": str(tmp_path)}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saving\n"
        process.send_signal(number)
        said = process.communicate()[1]
    assert (process.returncode, said.strip()) == (128 + number, "foretrace: stopped")
    assert [*(tmp_path / cache.FOLDER).iterdir()] == []


def test_a_program_that_ignores_hanging_up_keeps_doing_so() -> None:
    """`nohup` sets it."""
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "from foretrace.cli._process import prepare; prepare();"
        "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LONG = """
from foretrace.cli._process import prepare
prepare()
import click
from foretrace.base import budget
budget.EVERY_S = 0.002
with budget.timed():
    click.echo("x" * 300_000)
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="Linux sets the size of a pipe")
def test_a_slow_reader_gets_every_byte_of_an_unbuffered_stream() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    writer = [sys.executable, "-c", LONG]
    with subprocess.Popen(writer, stdout=subprocess.PIPE, bufsize=0, env=environment) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        count = 0
        while part := process.stdout.read(1024):
            count += len(part)
            time.sleep(0.001)
    assert (process.returncode, count) == (0, 300_001)


ENDING = """
import atexit, sys, threading, time
atexit.register(print, "tidied")
def wait():
    time.sleep(0.2)
    print("waited", flush=True)
if sys.argv.pop() == "thread":
    threading.Thread(target=wait).start()
from foretrace.__main__ import run
run()
"""


@pytest.mark.parametrize(("how", "said"), [("alone", ["tidied"]), ("thread", ["waited", "tidied"])])
def test_a_command_ends_at_once_and_still_tidies_up(how: str, said: list[str]) -> None:
    """The process is not taken apart, which took a fifth of a small look."""
    command = [sys.executable, "-c", ENDING, "look", "/no/such/file", how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (3, said)


LOADED = """
import re, sys
compiled, plain = [], re._compile
def recorded(pattern, flags):
    frames, frame = [], sys._getframe(2)
    while frame:
        name = frame.f_globals.get("__name__", "")
        frames.append((name, frame.f_code.co_name))
        frame = frame.f_back
    if frames[0][0].startswith("foretrace.") and any(
        name.startswith("foretrace.") and code == "<module>" for name, code in frames
    ):
        compiled.append(f"{frames[0][0]}: {pattern}")
    return plain(pattern, flags)
re._compile = recorded
from foretrace.cli import main
main(sys.argv[1:])
modules = [name for name in sys.modules if name.startswith("foretrace.")]
sys.stderr.write(repr((compiled, modules)))
"""
EXTENSIONS = tuple(f"foretrace.{each}." for each in ("look.rules", "look.fixes", "work.families"))


def test_a_look_loads_what_it_needs_and_compiles_no_pattern_before_its_use() -> None:
    command = [sys.executable, "-c", LOADED, "look", MLP, "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    compiled, modules = ast.literal_eval(done.stderr)
    shared = [name for name in modules if not name.startswith(EXTENSIONS)]
    assert not compiled
    assert not [name for name in shared if "allocator" in name or "snapshot" in name]
    # no record of the compiler lies beside it: none is read
    assert not [name for name in shared if name.startswith("foretrace.trace.compiled.")]
    assert len(shared) < 130


def test_a_profiler_has_its_say() -> None:
    command = [sys.executable, "-m", "cProfile", "-m", "foretrace", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "function calls" in done.stdout
