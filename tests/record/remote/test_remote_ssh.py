"""`foretrace remote --ssh HOST` with an `ssh` that runs its command on this machine."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from foretrace.cli import main
from foretrace.read.recordings import traces

TRACE = traces()["linear_eager"]
EXAMPLE = Path(__file__).parents[3] / "examples" / "02_linear.py"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the other machine; its `uv` writes a recorded trace."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    _program(programs / "ssh", f'echo "$2" >> {tmp_path}/hosts; cd {home} && exec sh -c "$3"')
    _program(
        programs / "record",
        f'echo printed; echo "$@" > words; ls > seen; mkdir traces; cp {TRACE} traces/; '
        "exit $(cat code 2>/dev/null)",
    )
    _program(programs / "uv", f"mkdir -p .venv/bin; cp {programs}/record .venv/bin/foretrace")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return home


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def remote(*arguments: str) -> int:
    return main(["remote", "--ssh", "gpu-box", "--install", "foretrace", *arguments])


def test_the_script_goes_there_and_the_trace_comes_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert remote("--json", str(EXAMPLE), "--batch", "4 4") == 0
    said = json.loads(capsys.readouterr().out)
    (run,) = (home / "foretrace-runs").iterdir()
    assert (run / "seen").read_text().split() == ["02_linear.py", "article.py", "seen", "words"]
    assert (run / "words").read_text().split()[-4:] == ["02_linear.py", "--batch", "4", "4"]
    assert (said["where"], said["run"], said["failed"]) == ("gpu-box", run.name, False)
    assert Path(said["traces"][0]).read_bytes() == TRACE.read_bytes()
    assert Path(said["traces"][0]).parent == Path("traces") / run.name
    shutil.rmtree("traces")
    assert remote("--fetch", run.name) == 0
    assert "GPU" in capsys.readouterr().out
    assert {*Path("hosts").read_text().split()} == {"gpu-box"}


def test_the_printed_commands_do_the_same(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remote("--dry-run", "--json", str(EXAMPLE)) == 0
    said = json.loads(capsys.readouterr().out)
    assert not list(home.iterdir())
    for line in said["commands"]:
        subprocess.run(["sh", "-c", line], check=True)
    assert [path.name for path in Path("traces", said["run"]).iterdir()] == [TRACE.name]
    assert remote("--dry-run", str(EXAMPLE)) == 0
    assert "Sent: 2 files" in capsys.readouterr().out


def test_a_script_that_fails_there_fails_here(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "code").write_text("3")
    assert remote("--no-look", "--include", "code", "train.py") == 1
    told = capsys.readouterr()
    assert "the script ended with exit code 3" in told.err
    assert Path(told.out.strip()).is_file()


def test_what_comes_back_is_untrusted(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name, kind in (
            ("../../up.json", tarfile.REGTYPE),
            ("/etc/abs.json", tarfile.REGTYPE),
            ("link", tarfile.SYMTYPE),
            ("link/through.json", tarfile.REGTYPE),
            ("pipe", tarfile.FIFOTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, "/tmp", 0o4777
            made.addfile(member)
    (tmp_path / "evil.tar").write_bytes(archive.getvalue())
    _program(tmp_path / "programs" / "ssh", f"cat {tmp_path}/evil.tar")
    assert remote("--fetch", "a-run") == 1
    told = capsys.readouterr().err
    assert told.count("not taken") == 4
    got = sorted(path for path in Path("traces").rglob("*") if not path.is_dir())
    assert [path.name for path in got] == ["through.json"]
    assert got[0].stat().st_mode & 0o111 == 0


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("exit 255", "ssh could not connect"),
        ("exit 1", "exit code 1"),
        ("echo no tar", "not a tar archive"),
    ],
)
def test_a_host_that_does_not_answer(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str, words: str
) -> None:
    _program(tmp_path / "programs" / "ssh", program)
    assert remote("--fetch", "a-run") == 2
    assert words in capsys.readouterr().err


def test_names_that_are_options_or_paths(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("-oProxyCommand=x", ""):
        assert main(["remote", f"--ssh={host}", str(EXAMPLE)]) == 2
        assert "not the name of a host" in capsys.readouterr().err
    assert remote("--fetch", "../x; rm -rf .") == 2
    assert "not the name of a run" in capsys.readouterr().err


def test_without_ssh(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert remote(str(EXAMPLE)) == 4
    assert "ssh is not installed" in capsys.readouterr().err


def test_a_name_that_is_a_file_and_a_folder_loses_nothing(home: Path, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name in ("a", "a/b", "c/d", "c"):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            made.addfile(member, io.BytesIO(name.encode()))
    (tmp_path / "odd.tar").write_bytes(archive.getvalue())
    _program(tmp_path / "programs" / "ssh", f"cat {tmp_path}/odd.tar")
    assert remote("--fetch", "a-run") == 1  # no trace
    got = {path.read_text() for path in Path("traces").rglob("*") if path.is_file()}
    assert got == {"a", "a/b", "c/d", "c"}


def test_what_the_script_prints_there_is_escaped(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _program(tmp_path / "programs" / "record", "printf 'done \\033[31mred\\r50%%\\n'; exit 3")
    assert remote(str(EXAMPLE)) == 2  # no traces
    assert "done \\x1b[31mred\n50%\n" in capsys.readouterr().err


def test_an_option_of_the_installer_is_no_package(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text('# /// script\n# dependencies = ["--index-url=http://evil"]\n# ///\n')
    assert remote(str(script)) == 2
    assert "an option of the installer is not sent" in capsys.readouterr().err
