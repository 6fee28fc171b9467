"""The page of `look`: what it must show, that it fits, and that a hostile name is only ever a name."""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

import pytest

import foretrace as ft
from corpus.build import cut, gn
from corpus.builder import TraceBuilder
from foretrace.base.tables import marked
from foretrace.base.tables import text as drawn
from foretrace.cli import main
from foretrace.cli._options import shows_bold
from foretrace.cli.look import EVERY
from foretrace.look import summarize
from foretrace.look.documents import Overview
from foretrace.look.lines import first_screen, sections
from foretrace.read import recordings
from opened_traces import open_made, overview

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "--><script> <!-- ]]>",
    "line\u2028sep\u2029 \u202eoverride\u2066 \u200bzero",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "@SUM(1)",
    "a|b`c`](http://x) ![i](http://y) **bold** _it_ # head",
    "\x1b[31mred\x1b[0m\x07\x08",
    "new\nline\r\ttab",
    "x" * 5_000,
    "| --- |",
    "- list\n# heading",
]
ESCAPED = re.compile(r"\\.")


def look_text(found: Overview, top: int, *, bold: bool = False) -> str:
    return drawn(sections(found, EVERY, top), bold=bold)


def document(name: str) -> Overview:
    return overview(recordings.traces()[name])


def hostile(name: str, folder: Path) -> Overview:
    """A trace in which everything that has a name has this one."""
    builder = TraceBuilder().step(1, 0, 100_000).region(name, 0, 90_000)
    builder.op(name, 1_000, 50_000, dims=[[8, 8], [8, 8]], types=[name, name]).launch(2_000, 500)
    builder.kernel(name, 10_000, 20_000).op(f"aten::{name}", 60_000, 5_000).launch(
        61_000, 500
    ).kernel(name, 70_000, 9_000)
    builder.op("aten::mm", 70_000, 5_000).launch(
        71_000, 500, name=f"cudaLaunchKernel{name}"
    ).memcpy(80_000, 10, name=name)
    builder.header = {
        "deviceProperties": [
            {"id": 0, "name": name, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
        ]
    }
    return summarize(open_made(builder, folder))


@pytest.mark.parametrize("part", EVERY)
def test_an_option_shows_its_part_below_the_verdict(part: str) -> None:
    found = document("mlp_eager")
    text = drawn(sections(found, [part], 20))
    assert text.startswith("mlp_eager · NVIDIA H200")
    heads = {"Kernels": "kernels", "Host ops": "ops", "Steps": "steps", "Findings": "findings"}
    shown = {name for head, name in heads.items() if f"\n{head}" in text}
    assert shown == {part} & set(heads.values())


def test_rules_that_lack_data_are_named_together(tmp_path: Path) -> None:
    text = " ".join(
        look_text(
            summarize(
                open_made(
                    TraceBuilder()
                    .op("aten::mm", 0, 5_000)
                    .launch(1_000, 500)
                    .kernel("sgemm", 5_000, 100),
                    tmp_path,
                )
            ),
            20,
        ).split()
    )
    skipped = re.search(r"Skipped: ([^(]*) \(needs shapes: record with record_shapes=True\)", text)
    assert skipped is not None
    assert {"bias_separate", "fusable_pointwise", "gemm_choice"} <= set(skipped[1].split(", "))


def test_a_trace_without_gpu_work_says_so(tmp_path: Path) -> None:
    found = summarize(open_made(TraceBuilder().op("aten::mm", 0, 5_000), tmp_path))
    text = " ".join(drawn(first_screen(found)).split())
    assert "the trace has no GPU events; 1 host op, most self time in aten::mm (100.0%)" in text
    assert found.look.verdict.bound == "unknown"


def test_lost_data_is_a_banner_on_top(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    whole = gn(50).bytes()
    path.write_bytes(cut(whole, len(whole) // 2))
    found = summarize(ft.open(path, cache=False))
    for text in (
        drawn(first_screen(found)),
        look_text(found, 20),
        marked(sections(found, EVERY, 20)),
    ):
        assert "TRUST" in "".join(text.split("\n")[:3])
        assert "the input ends inside the document" in " ".join(text.split())


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_acts_on_no_terminal_and_is_no_markdown(name: str, tmp_path: Path) -> None:
    found = hostile(name, tmp_path)
    first, every = first_screen(found), sections(found, EVERY, 20)
    assert drawn(first).count("\n") < 25
    bold = drawn(every, bold=True)
    assert "\x1b[1m" in bold
    for text in (drawn(first), drawn(every), re.sub(r"\x1b\[[0-9;]*m", "", bold)):
        assert text.replace("\n", "").isprintable()
        assert max(map(len, text.split("\n"))) <= 100
    _check_markdown(marked(every))


def _check_markdown(text: str) -> None:
    assert text.replace("\n", "").isprintable()
    bare = ESCAPED.sub("", text)
    assert not set("<`[]") & set(bare)
    tables = [line for line in bare.split("\n") if line.startswith("|")]
    assert tables
    grid = [line.count("|") for line in tables]
    rules = [at for at, line in enumerate(tables) if set(line) <= set("|:-")]
    for at, after in zip(rules, [*rules[1:], len(tables) + 1], strict=True):
        assert set(grid[at - 1 : after - 1]) == {grid[at]}, (
            "every row of a table has as many cells as its head"
        )
    heads = [line for line in text.split("\n") if line.startswith("#")]
    assert all(head.startswith("## ") for head in heads)


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_the_command_prints_no_colour_into_a_pipe(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(recordings.traces()["mlp_eager"]), "--no-cache", *form]) == 0
    assert "\x1b" not in capsys.readouterr().out


def csv_of(capsys: pytest.CaptureFixture[str], *options: str) -> list[list[str]]:
    assert main(["look", "mlp_eager", "--no-cache", "--csv", *options]) == 0
    return [*csv.reader(io.StringIO(capsys.readouterr().out))]


def test_csv_has_every_row_and_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    look = overview(recordings.traces()["mlp_eager"]).look
    head, *rows = csv_of(capsys, "--kernels", "--top", "1")
    assert head == ["kernel", "op", "n", "total (ns)", "median (ns)", "rate", "limited by"]
    assert [int(row[3]) for row in rows] == [kernel.total_ns for kernel in look.kernels]
    head, *rows = csv_of(capsys)
    assert head == ["GPU per step", "time (ns)", "share (percent)", "n", "limited by"]
    assert sum(int(row[1]) for row in rows) == sum(group.time_ns for group in look.groups)
    rows = csv_of(capsys, "--steps")
    titles = [row[0].split(" (")[0] for row in rows if row and row[0].startswith("#")]
    assert titles == ["# Steps", "# Regions"]
    assert len([row for row in rows if row]) == 4 + len(look.steps) + len(look.regions)


def test_csv_stands_alone_and_needs_a_table() -> None:
    assert main(["look", "mlp_eager", "--csv", "--json"]) == 2
    assert main(["look", "mlp_eager", "--csv", "--findings"]) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bold_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not shows_bold()
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert shows_bold()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_bold()
    text = look_text(document("mlp_eager"), 20, bold=True)
    assert text.count("\x1b[1m") > 5
    assert "\x1b[1;32mGPU-BOUND\x1b[0m" in text


SIZE = "64x128x768x3072_bf16"
EAGER, COMPILED, LIGER = (f"mlp_{way}_{SIZE}" for way in ("eager", "compiled", "liger"))
LOOK = ["look", "--no-cache", "--region", "mlp_fwd"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["look", EAGER, "--beside", LIGER],
        [*LOOK, EAGER, "--beside", LIGER, "--json"],
        [*LOOK, EAGER, "--beside", "linear_eager"],
        [*LOOK, EAGER, *(["--beside", LIGER] * 8)],
    ],
)
def test_what_cannot_be_put_beside(wrong: list[str]) -> None:
    assert main(wrong) == 2
