"""Running Nsight Compute: what it is told, and one line for each reason why it cannot count."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from counter_files import export_text, row
from foretrace.base.errors import ForetraceError, MissingError, UsageError, UserCodeError
from foretrace.record.profiling import ncu
from foretrace.record.profiling.ncu import Choosing, count, exported, find_ncu

GOOD = export_text([row("k", 1, 2, 3, 1)])
Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts an `ncu` first on the path that writes a log and keeps its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(ncu, "_PLACES", ())

    def make(log: str = GOOD, code: int = 0, unknown: str = "") -> Path:
        seen = tmp_path / "seen.json"
        (tmp_path / "log").write_text(log)
        program = folder / "ncu"
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, sys\n"
            "words = sys.argv[1:]\n"
            f"seen = {str(seen)!r}\n"
            "try: calls = json.load(open(seen))\n"
            "except OSError: calls = []\n"
            "json.dump([*calls, words], open(seen, 'w'))\n"
            f"text = open({str(tmp_path / 'log')!r}).read()\n"
            f"unknown = {unknown!r}\n"
            "if '--import' in words: print(text, end=''); sys.exit(0)\n"
            "if unknown and unknown in words[words.index('--metrics') + 1].split(','):\n"
            "    text = f'==ERROR== Failed to find metric {unknown}\\n'\n"
            "print('the script prints')\n"
            "open(words[words.index('--log-file') + 1], 'w').write(text)\n"
            f"sys.exit({code})\n"
        )
        program.chmod(0o755)
        return seen

    return make


def _count(folder: Path, *metrics: str, choice: Choosing | None = None) -> str:
    return count(
        ["python", "x.py"], metrics or ("a__b.sum",), folder, choice=choice or Choosing()
    ).log


def test_what_ncu_is_told(tmp_path: Path, fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    seen = fake()
    choice = Choosing(inside=True, kernel="gemm|nvjet", limit=50)
    assert _count(tmp_path, "a__b.sum", "c__d.sum", choice=choice) == GOOD
    (words,) = json.loads(seen.read_text())
    assert words[-2:] == ["python", "x.py"]
    text = " ".join(words)
    for part in (
        "--csv --page raw --print-units base",
        "--clock-control none --cache-control none --target-processes all",
        "--profile-from-start off --kernel-name regex:gemm|nvjet --launch-count 50",
        "--metrics a__b.sum,c__d.sum",
    ):
        assert part in text
    captured = capfd.readouterr()
    assert captured.out == ""  # what the script prints is no part of an answer
    assert "the script prints" in captured.err


def test_everything_is_counted_from_the_start(tmp_path: Path, fake: Fake) -> None:
    seen = fake()
    _count(tmp_path)
    assert "--profile-from-start" not in json.loads(seen.read_text())[0]


def test_a_metric_that_is_not_known_is_left_out(tmp_path: Path, fake: Fake) -> None:
    seen, said = fake(unknown="c__d.sum"), []
    done = count(["x"], ("a__b.sum", "c__d.sum"), tmp_path, choice=Choosing(), say=said.append)
    assert done.log == GOOD
    metrics = [words[words.index("--metrics") + 1] for words in json.loads(seen.read_text())]
    assert metrics == ["a__b.sum,c__d.sum", "a__b.sum"]
    assert said == ["this ncu or GPU has no c__d.sum: counted without"]


def test_no_metric_at_all(tmp_path: Path, fake: Fake) -> None:
    fake(unknown="a__b.sum")
    with pytest.raises(MissingError, match="newer Nsight Compute"):
        _count(tmp_path)


PERMISSION = (
    "==PROF== Connected to process 2630 (/usr/bin/python3.12)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0. For instructions on enabling permissions and to "
    "get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)
BUSY = (
    "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other "
    "tool (like DCGM) is concurrently collecting profiling data.\n"
)


@pytest.mark.parametrize(
    ("log", "code", "kind", "says"),
    [
        (PERMISSION, 0, MissingError, "NVreg_RestrictProfilingToAdminUsers=0"),
        (PERMISSION + GOOD, 0, MissingError, "ERR_NVGPUCTRPERM"),
        (BUSY, 9, MissingError, "dcgmi profile --pause"),
        ("==ERROR== unrecognised option '--page'\n", 1, MissingError, "too old"),
        ("==ERROR== Unsupported GPU\n", 1, MissingError, "does not support the GPU"),
        ("==ERROR== Failed to prepare kernel for profiling\n", 1, MissingError, "--launches"),
        ("==WARNING== No kernels were profiled.\n", 0, UsageError, "counted no kernel"),
        (
            "==ERROR== The application returned an error code (3).\n==WARNING== x\n",
            3,
            UserCodeError,
            "exit code 3",
        ),
        ("==ERROR== The application returned an error code (86).\n", 86, UsageError, "--whole"),
        ("==ERROR== Something new\n", 5, MissingError, "exit code 5: Something new"),
        ("", 1, MissingError, "it wrote nothing"),
    ],
)
def test_one_line_for_each_reason(
    log: str, code: int, kind: type[ForetraceError], says: str, tmp_path: Path, fake: Fake
) -> None:
    fake(log, code)
    with pytest.raises(kind) as found:
        _count(tmp_path)
    assert says in str(found.value)
    assert "\n" not in str(found.value)


def test_without_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "_PLACES", ())
    with pytest.raises(MissingError, match=r"nsight-compute.*--ncu FILE"):
        find_ncu()
    report = tmp_path / "a.ncu-rep"
    report.write_bytes(b"NVR\0")
    with pytest.raises(MissingError, match=r"ncu --import .*a\.ncu-rep --csv"):
        exported(str(report))


def test_ncu_in_its_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("2023.1", "2025.3"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch(mode=0o755)
    monkeypatch.setattr(ncu, "_PLACES", (f"{tmp_path}/*/ncu",))
    assert find_ncu() == str(tmp_path / "2025.3" / "ncu")


def test_an_ncu_that_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncu").write_bytes(b"\x7fELF broken")
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="cannot be run"):
        _count(tmp_path)


def test_a_report_is_read_through_ncu(tmp_path: Path, fake: Fake) -> None:
    seen = fake()
    report = tmp_path / "a.ncu-rep"
    report.touch()
    assert exported(str(report)) == GOOD
    assert json.loads(seen.read_text())[0][:2] == ["--import", str(report)]
    with pytest.raises(UsageError, match="no such report"):
        exported(str(tmp_path / "b.ncu-rep"))
