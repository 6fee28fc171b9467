"""`look` on a folder or zip of several traces: a row for each, what they show together, and nothing
left out in silence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corpus.build import cut, gn
from corpus.builder import TraceBuilder
from corpus.opening import Ran, run
from foretrace.look import reading
from foretrace.look.documents import LookSet
from foretrace.look.set_lines import spreads
from foretrace.read import cache, workers

HOSTILE = [
    "\x1b[31mred",
    "a|b`c`[d](e)<f>",
    "new\nline",
    "\u202eturned",
    "two words",
    "n" * 200,
    "=1+1",
]


def rank(number: int, host_us: int = 100, busy_us: int = 20, world: int = 2) -> bytes:
    """Two steps of one kernel and one collective each; the collective takes 10 us less on each
    further rank.
    """
    made = TraceBuilder(
        header={"distributedInfo": {"backend": "nccl", "rank": number, "world_size": world}}
    )
    for step in range(2):
        start = step * 1_000_000
        made.step(step, start, host_us * 1_000).op("aten::mm", start + 1_000, 5_000).launch(
            start + 2_000, 500
        )
        made.kernel("sgemm", start + 10_000, busy_us * 1_000).launch(start + 8_000, 500)
        made.kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
            start + 500_000,
            (50 - 10 * number) * 1_000,
        )
    return made.bytes()


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No test may change it."""
    return made_week(tmp_path_factory.mktemp("made"))


def made_week(place: Path) -> Path:
    """Two ranks, a copy that was cut short, what is no trace, and a zip."""
    folder = place / "week"
    (folder / "deep").mkdir(parents=True)
    (folder / "rank0.json").write_bytes(rank(0))
    (folder / "rank1.json").write_bytes(rank(1, 150, 30))
    whole = gn(50).bytes()
    (folder / "deep" / "cut.json").write_bytes(cut(whole, len(whole) // 2))
    (folder / "server_args.json").write_text('{"model": "x"}')
    (folder / "empty.json").write_text("")
    (folder / "gone.json").symlink_to(place / "nowhere")
    (folder / "readme.txt").write_text("no trace")
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        archive.writestr("a/rank0.json", rank(0))
        archive.writestr("a/rank1.json", rank(1))
        archive.writestr("notes.txt", "no trace")
    return folder


def unwrapped(text: str) -> str:
    """Without blanks: a long path is broken over lines."""
    return "".join(text.split())


def look(path: Path | str, *flags: str) -> Ran:
    return run("look", os.fspath(path), "--no-cache", "--all", *flags)


@pytest.fixture(scope="module")
def page(week: Path) -> str:
    """All that `look` prints of the week."""
    ran = look(week)
    assert (ran.code, ran.err) == (0, "")
    return ran.out


def test_a_zip_is_a_set_whose_largest_difference_comes_first(week: Path) -> None:
    ran = look(week / "more.zip")
    assert ran.code == 0
    assert "\n  a/rank0.json " in ran.out
    assert "2 traces · 0 not read" in ran.out
    assert "info: other_files (1)" in ran.out, (
        "by its name notes.txt was never to be a trace, as in a folder"
    )
    assert f"Foronetrace:foretracelook{week}/more.zip::a/rank0.json" in unwrapped(ran.out)
    document = msgspec.json.decode(look(week / "more.zip", "--json").out, type=LookSet)
    first = spreads(document)[0]
    assert (first.what, first.least_rank, first.most_rank) == (
        "in collectives per step (mean)",
        1,
        0,
    )
    assert (first.least, first.most) == (40_000, 50_000)
    page = " ".join(ran.out.split())
    assert "Ranks, by largest difference" in page
    assert "keeps the others waiting" in page
    assert "kernels per step 2 – 2 – 1.00x" in page, "of equals, none has the least"


def test_strict(week: Path, tmp_path: Path) -> None:
    assert look(week, "--strict").code == 1
    clean = tmp_path / "clean"
    clean.mkdir()
    for number in range(2):
        (clean / f"{number}.json").write_bytes(rank(number))
    ran = look(clean, "--strict", "--json")
    lost = [
        note
        for each in json.loads(ran.out)["traces"]
        for note in each["ledger"]["notes"]
        if note["severity"] != "info"
    ]
    assert (ran.code, lost) == (0, [])
    (clean / "empty.json").write_text("")
    assert look(clean).code == 0
    assert look(clean, "--strict").code == 1


def test_none_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text("{}")
    ran = look(tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert "a.json: byte 0: empty [E_EMPTY]" in ran.err
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_bytes(rank(0))  # looks like a trace, and is too long
    ran = look(tmp_path, "--limit", "bytes=1k")
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert "contains no trace" in ran.err


@pytest.mark.parametrize("names", [HOSTILE[:3], HOSTILE[3:6], HOSTILE[6:]], ids=range(3))
def test_a_hostile_file_name_is_only_a_name(names: list[str], tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(rank(0))
    for at, name in enumerate(names):
        (tmp_path / f"{name}.json").write_bytes(rank(1 + at))
        (tmp_path / f"{name}.trace").write_text(name)
        (tmp_path / f"{name}.zip").write_text(name)
    (tmp_path / "\udcff.json").write_bytes(rank(4))  # a name that is not UTF-8
    page, marked = look(tmp_path).out, look(tmp_path, "--markdown").out
    for text in (page, marked):
        assert text.replace("\n", "").isprintable()
    assert max(map(len, page.split("\n"))) <= 100
    grids = [
        line.replace("\\|", "").count("|") for line in marked.split("\n") if line.startswith("| ")
    ]
    assert set(grids) == {9, 5, 7}
    assert len(json.loads(look(tmp_path, "--json").out)["traces"]) == 2 + len(names)


@pytest.mark.sweep
def test_processes_of_their_own_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    week = made_week(tmp_path)
    # refused when it is opened, not by its first bytes
    (week / "late.json").write_bytes(gn(1000).bytes())
    here = look(week, "--json", "--limit", "bytes=300k")
    monkeypatch.setattr(reading, "WORTHWHILE", 0)
    started: list[Any] = []
    apart = workers.spread
    monkeypatch.setattr(workers, "spread", lambda *given: started.append(given) or apart(*given))
    assert look(week, "--json", "--limit", "bytes=300k") == here
    assert started or len(os.sched_getaffinity(0)) == 1
    assert "late.json" in [Path(each["path"]).name for each in json.loads(here.out)["left_out"]]


def test_a_second_look_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.json").write_bytes(rank(number))
    first = run("look", str(folder), "--json")
    monkeypatch.setattr(reading, "one", lambda *given: pytest.fail("read again"))
    assert run("look", str(folder), "--json") == first


def test_stopped_by_ctrl_c(week: Path, tmp_path: Path) -> None:
    """In one line, and no process stays behind. Workers are made to start, and the first one sends
    the signal.
    """
    code = f"""
import os, signal, sys
from foretrace.base.errors import show_with
from foretrace.look import reading
from foretrace.cli import main
reading.WORTHWHILE = 0
def tell(text):
    if text.startswith("read "):
        os.killpg(0, signal.SIGINT)
if __name__ == "__main__":
    show_with(tell)
    sys.exit(main(["look", {str(week)!r}, "--no-cache"]))
"""
    script = tmp_path / "stopped.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, start_new_session=True
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "foretrace: stopped")
