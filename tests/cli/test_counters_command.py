"""`foretrace counters` with exports: its screens, its document, and one line for what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from analyze.rules.sketch import GEMM, Sketch, kernel
from counter_files import export_text, row
from foretrace.cli import main
from foretrace.record.profiling import ncu
from foretrace.schema.documents.counters import CountersDocument
from foretrace.show.render.terminal import LINES
from opened_traces import open_made

Capture = pytest.CaptureFixture[str]
COUNT = 30


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A trace of many kernels, and an export of its step."""
    monkeypatch.setenv("COLUMNS", "100")
    sketch, rows = Sketch().step(), []
    for at in range(COUNT):
        name = GEMM if at % 5 == 0 else f"triton_poi_fused_{at}"
        sketch = sketch.op(
            "aten::mul",
            kernel(name, 10 + at, grid=[4, 1, 1], block=[128, 1, 1]),
            dims=[[1024, 3072]] * 2,
        )
        rows.append(row(name, 1000 * at, 500, 10_000 + 1000 * at, 1, number=at))
    open_made(sketch, tmp_path, "run")
    (tmp_path / "c.csv").write_text(export_text(rows))
    return str(tmp_path / "run.json"), str(tmp_path / "c.csv")


def _said(capsys: Capture, *arguments: str) -> str:
    assert main(["counters", *arguments]) == 0
    return capsys.readouterr().out


def _refused(capsys: Capture, *arguments: str) -> tuple[int, str]:
    code, said = main(["counters", *arguments]), capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("foretrace: ")
    return code, said.err


def test_the_first_screen(files: tuple[str, str], capsys: Capture) -> None:
    trace, export = files
    text = _said(capsys, trace, "--ncu", export)
    assert text == _said(capsys, "--ncu", export, trace)
    assert len(text.splitlines()) <= LINES
    assert "30 of 30 launches joined to ProfilerStep#1 (30 kernels)." in text
    assert "more kernels (--all)" in text


def test_all_of_it(files: tuple[str, str], capsys: Capture) -> None:
    text = _said(capsys, files[0], "--ncu", files[1], "--all")
    for title in ("Kernel by kernel", "Traffic by level", "Rates beside the roofs", "Roofs"):
        assert f"\n{title}\n" in text
    assert "The op must move 18.9 MB" in text


def test_the_document(files: tuple[str, str], capsys: Capture, tmp_path: Path) -> None:
    text = _said(capsys, files[0], "--ncu", files[1], "--json")
    document = msgspec.json.decode(text, type=CountersDocument)
    assert sum(one.launches for one in document.kernels) == document.total.launches == COUNT
    assert document.total.bytes.hbm_read == 1000 * sum(range(COUNT))
    before = tmp_path / "before.json"
    before.write_text(text)
    again = json.loads(
        _said(capsys, files[0], "--ncu", files[1], "--json", "--against", str(before))
    )
    assert again["against"]["sentences"][0] == "30 launches on both sides."
    shown = _said(capsys, str(before), "--against", str(before), "--json")
    assert json.loads(shown)["against"] == again["against"]
    assert "within 5%" in _said(capsys, files[0], "--ncu", files[1], "--against", str(before))


def test_markdown(files: tuple[str, str], capsys: Capture) -> None:
    text = _said(capsys, files[0], "--ncu", files[1], "--markdown")
    assert "## Traffic by level" in text
    assert "|:---|---:|" in text


def test_a_filter(files: tuple[str, str], capsys: Capture, tmp_path: Path) -> None:
    matmuls = [row(GEMM, 1, 2, 3, 1, number=at) for at in range(6)]
    (tmp_path / "gemm.csv").write_text(export_text(matmuls))
    text = _said(capsys, files[0], "--ncu", str(tmp_path / "gemm.csv"), "--kernel", "nvjet")
    assert "6 of 6 launches joined" in text


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["TRACE", "--ncu", "missing.csv"], 2, "missing.csv"),
        (["missing.json", "--ncu", "EXPORT"], 3, "missing.json"),
        (["TRACE", "--ncu", "TRACE"], 3, "E_NO_COUNTERS"),
        (["TRACE", "more", "--ncu", "EXPORT"], 2, "nothing runs"),
        (["TRACE", "--ncu", "EXPORT", "--against", "EXPORT"], 3, "E_NOT_COUNTERS"),
        (["TRACE", "--ncu", "EXPORT", "--kernel", "("], 2, "--kernel"),
        (["--ncu", "report.ncu-rep", "TRACE"], 2, "no such report"),
        (["TRACE"], 3, "add --ncu FILE"),
        (["run.json.gz"], 2, "add --ncu FILE"),
        (["train.py"], 4, "`ncu` is not in PATH"),
    ],
)
def test_one_line_for_what_is_wrong(
    words: list[str],
    code: int,
    says: str,
    files: tuple[str, str],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "_PLACES", ())
    given = dict(zip(("TRACE", "EXPORT"), files, strict=True))
    found, text = _refused(capsys, *(given.get(word, word) for word in words))
    assert (found, says in text) == (code, True), text


def test_reading_needs_no_torch(files: tuple[str, str]) -> None:
    hidden = "import sys; sys.modules['torch'] = None\nfrom foretrace.cli import main\n"
    program = f"{hidden}sys.exit(main(['counters', {files[0]!r}, '--ncu', {files[1]!r}]))"
    assert (
        subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode
        == 0
    )
