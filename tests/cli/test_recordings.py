"""The recordings that ship, the figures of the pages, and the tour."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import foretrace
from foretrace import TraceError
from foretrace.base.budget import Limits
from foretrace.cli import main
from foretrace.cli.tour import THEN
from foretrace.learn.ladder import climb
from foretrace.read import recordings
from foretrace.trace.query import QueryProcess
from sweep import looped


def test_the_first_screen_counts_every_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "--list"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 25
    listed = recordings.traces() | recordings.decoding() | recordings.explained()
    assert all(f"  {name} " in text for name in listed)
    assert f"and {len(recordings.ladder())} of the ladder (look --list RUNG lists them): m" in text
    assert "mlp_compiled and mlp_eager: down(gelu(gate(x)) * up(x)), another order than" in text
    assert "(foretrace why NAME): mlp_max_autotune, mlp_packed_why, mlp_reduce_overhead, " in text
    assert "llama and llama_compiled are the model of the ladder; tried is a result" in text


def test_the_recorded_run_of_shapes_has_liger(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "shapes", "mlp", "--recorded", "h200", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["device"] == "NVIDIA H200"
    assert not document["left_out"]
    assert {"eager", "automatic", "liger", "fused"} <= {c["name"] for c in document["contenders"]}
    assert all(len(c["visits"]) == len(document["shapes"]) for c in document["contenders"])
    assert main(["lab", "shapes", "block", "--recorded", "h200"]) == 2
    assert "choose from mlp" in capsys.readouterr().err
    assert main(["lab", "shapes", "mlp", "--recorded", "h200", "--small"]) == 2
    assert "leave out what says how to run" in capsys.readouterr().err


@pytest.mark.parametrize(("short", "name"), recordings.SHORT.items())
def test_short_names_find_their_recordings(short: str, name: str) -> None:
    assert recordings.find(short) == recordings.find(name)


def test_a_word_lists_those_of_the_ladder_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "--list", "linear_eager"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert listed == [
        "linear_eager", "linear_eager_stack",
        "linear_eager_1024x32x64_bf16", "linear_eager_8x32x64x128_bf16",
    ]  # fmt: skip
    assert main(["look", "--list", "zzz"]) == 2
    assert "no recording has 'zzz'" in capsys.readouterr().err


@looped(
    "name",
    recordings.traces() | recordings.ladder() | recordings.decoding() | recordings.explained(),
)
def test_every_name_finds_its_recording(name: str) -> None:
    path = recordings.find(name)
    assert path is not None
    assert path.name == f"{name}.json.gz"
    assert recordings.opened_as(name) == str(path)


@pytest.mark.parametrize("name", recordings.explained())
def test_the_logs_that_ship_name_no_machine(name: str) -> None:
    files = list(recordings.explained()[name].parent.rglob(f"{name}*/*.gz"))
    assert len(files) == 2
    for path in files:
        text = gzip.decompress(path.read_bytes()).decode()
        places = set(re.findall(r"[\"' ](/[a-z0-9.]+)/[\w./-]+", text))
        assert places <= {"/src", "/site-packages", "/python3.12", "/tmp"}
        assert set(re.findall(r"/tmp/[^/]+", text)) <= {"/tmp/torchinductor_root"}


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(foretrace.open("mlp_eager", cache=False).kernels) == 15
    shutil.copy(recordings.traces()["linear_eager"], "mlp_eager")
    assert len(foretrace.open("mlp_eager", cache=False).kernels) == 3


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (["look", "mlp_eagr"], "mlp_eager"),
        (["compare", "mlp_eager", "mlp_compild"], "mlp_compiled"),
        (["report", "mlp_eager.json.gz", "-o", "nothing.html"], "mlp_eager"),
        (["serve", "linear_egaer"], "linear_eager"),
    ],
)
def test_an_unknown_name_gets_the_nearest(
    command: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 3
    said = capsys.readouterr().err
    assert f"no such recording [E_UNREADABLE]; did you mean {wrong}? `foretrace" in said
    assert said.count("\n") == 1


def test_the_start_of_several_files_is_no_wrong_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError, match="did you mean mlp_eager"):
        recordings.opened_as("mlp_eage")
    (tmp_path / "mlp_eage.why").mkdir()  # as `foretrace record --why -o` leaves them
    assert recordings.opened_as("mlp_eage") == "mlp_eage"


PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
# the climbs are those of tests/learn/ladder/test_climb.py, the report that of tests/pages
RUNS = r"^\|.*`(foretrace (?!lab |report|serve)[^`]+)`"
COMMANDS = re.findall(RUNS, PAGE.read_text("utf-8"), re.MULTILINE)
FRAMES = re.findall(
    r"^\|.*`ft.open\(\"(\w+)\"\).(\w+).select\((.+)\)`", PAGE.read_text("utf-8"), re.M
)
QUERY = re.findall(r"^\|.*`(select [^`]+)`.*`foretrace serve (\w+)`", PAGE.read_text("utf-8"), re.M)


def test_the_page_has_a_view_for_every_figure() -> None:
    assert len(COMMANDS) + len(FRAMES) + len(QUERY) > 30


@pytest.mark.sweep(4)
@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_the_view_can_be_seen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    assert main([*words, *([] if words[0] == "explain" else ["--no-cache"])]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) > 1
    assert captured.err == ""


@pytest.mark.parametrize(("name", "table", "columns"), FRAMES)
def test_the_frame_has_the_columns(name: str, table: str, columns: str) -> None:
    trace = foretrace.open(name, cache=False)
    assert trace.table(table).select(columns.replace('"', "").split(", ")).height > 1


def test_the_query_has_rows() -> None:
    [(query, name)] = QUERY
    with contextlib.closing(QueryProcess()) as process:
        assert process.run(foretrace.open(name, cache=False), query, Limits(), 100).count > 1


@pytest.fixture
def one_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """A climb of one rung; `test_without_torch.py` takes the tour over the whole ladder."""
    whole = climb.climb_recorded
    monkeypatch.setattr(climb, "climb_recorded", lambda card, only=("linear",): whole(card, only))


@pytest.mark.usefixtures("one_rung")
def test_without_a_terminal_it_tells_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = tmp_path / "new" / "tour.html"
    assert main(["tour", "--no-cache", "-o", str(out)]) == 0
    assert not (tmp_path / "cache").exists()
    text = capsys.readouterr().out
    parts = ("It is 2.", "It is 1.", "It is 4.", "DO FIRST", "FASTER", "BASELINE")
    places = [*(text.index(part) for part in parts), text.rindex("The articles")]
    assert places == sorted(places)
    assert "hit" not in text.split("$ foretrace look")[0]
    assert re.search(r"\d+ predictions of \d+ claims: \d+ hold", text)
    assert f"The report on both: {out}" in text
    assert out.stat().st_size > 50_000
    assert len(text.splitlines()) <= 104


@pytest.mark.usefixtures("one_rung")
def test_a_part_that_cannot_run_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["tour", "-o", str(tmp_path / "file" / "tour.html")]) == 0
    assert "The report is left out: " in capsys.readouterr().out


def test_a_card_without_recordings_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tour", "--card", "b300"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("name", ["matmul_add_64_eager", "llama_decode_cuda_graph_2layers"])
def test_the_list_and_look_agree(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The list had "unknown" and the profiled host time where look has GPU-BOUND and the step."""
    assert main(["look", "--list", name, "--no-cache"]) == 0
    row = capsys.readouterr().out.splitlines()[2].split()
    busy, step, word = row[4], " ".join(row[6:8]), row[-1]
    assert main(["look", name, "--no-cache"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = next(line for line in lines if line.startswith(word))  # the first line may be two
    assert f"GPU busy {busy} of {step} per step" in told


def test_ctrl_c_ends_the_tour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It went on with the look, the comparison and the report."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", _interrupted)
    assert main(["tour"]) == 130
    out, err = capsys.readouterr()
    assert err == "foretrace: stopped\n"
    assert THEN not in out


def _interrupted(_: str) -> str:
    raise KeyboardInterrupt


ONE_RUNG = """
import foretrace.learn.ladder.climb as climb
from foretrace.__main__ import run
whole = climb.climb_recorded
climb.climb_recorded = lambda card, only=("linear",): whole(card, only)
run()
"""


def at_a_terminal(tmp_path: Path, *typed: str) -> str:
    """The tour in a pseudo-terminal: each answer is typed at its prompt."""
    ours, theirs = pty.openpty()
    out = str(tmp_path / "tour.html")
    command = [sys.executable, "-c", ONE_RUNG, "tour", "--no-cache", "-o", out]
    shown, answers, around = b"", iter(typed), {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=around) as done:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the terminal closes with the process
            while block := os.read(ours, 65536):
                shown += block
                if shown.endswith(b"> "):
                    os.write(ours, f"{next(answers, 'q')}\n".encode())
    os.close(ours)
    assert done.returncode == 0
    return shown.decode().replace("\r\n", "\n")


def test_at_a_terminal_it_asks_before_it_tells(tmp_path: Path) -> None:
    text = at_a_terminal(tmp_path, "1", "?", "1", "q")
    asked, told = text.split("1 of 2 right")
    assert asked.index("How many kernels") < asked.index("MISS  Not 1. Eager PyTorch")
    assert "Which of the three has to read" in asked
    assert "hit  It is 1." in asked
    assert "DO FIRST" not in asked
    assert "It is 4." not in text
    assert told.index("DO FIRST") < told.index("Next:")
