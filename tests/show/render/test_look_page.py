"""The page of `look`: what it must show, that it fits, and that a hostile name is only ever a name."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import foretrace as ft
from corpus.build import cut, gn
from corpus.builder import TraceBuilder
from foretrace.cli import main
from foretrace.cli._options import shows_bold
from foretrace.cli.look import EVERY
from foretrace.read import recordings
from foretrace.schema.documents import encode
from foretrace.show.overview import summarize
from foretrace.show.overview.page import Overview
from foretrace.show.render.look_page import first_screen, sections
from foretrace.show.render.terminal import drawn, marked
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


@pytest.mark.parametrize("name", sorted(recordings.traces()))
def test_fits_a_hundred_columns(name: str) -> None:
    """How long the first screen is, `statements` checks on every trace."""
    for top in (5, 1000):
        text = look_text(document(name), top)
        assert max(map(len, text.split("\n"))) <= 100
        assert text.replace("\n", "").isprintable()
    lines = drawn(first_screen(document(name))).split("\n")
    assert lines[0].startswith(f"{name} · NVIDIA H200")
    assert any(line.startswith(("GPU-BOUND", "HOST-BOUND", "MIXED")) for line in lines[1:3])
    assert lines[-1].startswith("more: --kernels --ops")
    # the others are sound: nothing is lost, and nothing distorts them
    assert any(line.startswith("TRUST") for line in lines) == (name == "linear_eager_stack")


def test_what_the_mlp_shows_on_demand_and_in_which_order() -> None:
    text = look_text(document("mlp_eager"), 20)
    heads = ["mlp_fwd: 7 GPU operations", "Totals", "Steps", "Regions", "Kernels", "Host ops"]
    heads += ["Findings", "Checked and not found", "Read"]
    places = [text.index(f"\n{head}") for head in heads]
    assert places == sorted(places)
    flat = " ".join(text.split())
    assert document("mlp_eager").look.regions[0].roles_per_call == {"gemm": 3, "pointwise": 2}
    assert "50.3 MB intermediate" in text
    assert "at most 100.7 MB" in flat
    assert "2 matmuls [8192, 768] x [768, 3072] use nvjet 256x128x64 tn bf16" in flat
    assert "1 matmul [8192, 3072] x [3072, 768] uses nvjet 192x128x64 tn bf16" in flat
    quiet = {line.split()[0] for line in text.split("\n") if line.endswith("metadata only")}
    assert quiet == {
        f"aten::{op}" for op in ("t", "transpose", "as_strided", "reshape", "view", "_unsafe_view")
    }


@pytest.mark.parametrize("part", EVERY)
def test_an_option_shows_its_part_below_the_verdict(part: str) -> None:
    found = document("mlp_eager")
    text = drawn(sections(found, [part], 20))
    assert text.startswith("mlp_eager · NVIDIA H200")
    heads = {"Kernels": "kernels", "Host ops": "ops", "Steps": "steps", "Findings": "findings"}
    shown = {name for head, name in heads.items() if f"\n{head}" in text}
    assert shown == {part} & set(heads.values())


def test_the_mlp_lists_its_kernels_in_launch_order() -> None:
    lines = look_text(document("mlp_eager"), 20).split("\n")
    start = next(
        at
        for at, line in enumerate(lines)
        if line.startswith("mlp_fwd: 7 GPU operations in launch order")
    )
    assert " ".join(lines[start + 1].split()) == "kernel op host delay time TFLOP/s TB/s bound"
    kernels = [line.split("  ")[1] for line in lines[start + 2 : start + 9]]
    gate, down = "nvjet 256x128x64 tn bf16", "nvjet 192x128x64 tn bf16"
    assert kernels == ["Memset (Device)", gate, "gelu", "Memset (Device)", gate, "mul bf16", down]
    assert lines[start + 3].split()[4:9] == ["linear", ">", "matmul", ">", "mm"]
    assert lines[start + 3].split()[-3:] == ["692", "1.21", "compute"]


def test_the_rate_of_an_upper_bound_is_one() -> None:
    found = document("mlp_eager")
    rows = [replace(row, certainty="at_most") for row in found.sequences[0].rows]
    bound = [replace(row, cost_certainty="at_most") for row in found.look.kernels]
    page = replace(
        found,
        look=replace(found.look, kernels=bound),
        sequences=[replace(found.sequences[0], rows=rows)],
    )
    text = look_text(page, 20)
    assert re.search(r"<= 692 +<= 1.21 +compute", text)
    assert re.search(r"<= \d+ TFLOP/s", text)


def test_the_linear_adds_its_bias_in_the_epilogue() -> None:
    text = look_text(document("linear_eager"), 20)
    assert "Bias in the epilogue of 1 matmul per step: no add kernel [bias_epilogue]" in text


def test_the_host_column_adds_up_to_no_more_than_the_host_took() -> None:
    for name in recordings.traces():
        found = document(name)
        regions = {row.name: row for row in found.look.regions}
        for entry in found.sequences:
            if entry.region in regions and not entry.left_out:
                row = regions[entry.region]
                spent = sum((each.host_ns or 0) * each.times for each in entry.rows)
                assert spent <= 1.2 * row.cpu_ns / row.count, (name, entry.region)


def test_findings_come_by_what_they_could_save() -> None:
    text = look_text(document("llama_train_eager"), 20)
    bounds = [
        row.at_most_ns
        for row in document("llama_train_eager").look.findings
        if row.at_most_ns is not None
    ]
    assert bounds == sorted(bounds, reverse=True)
    large = [ns for ns in bounds if ns >= document("llama_train_eager").worth_ns]
    assert len(re.findall(r"^  (?:at most|about) ", text, re.MULTILINE)) == len(large)
    assert len(large) == len(bounds) or "below 1% of the time: " in text


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


def test_a_rate_of_tokens_leaves_out_what_is_not_recorded(tmp_path: Path) -> None:
    """A decode of 20 ms waits 480 ms more for what the trace does not have."""
    made = TraceBuilder().region("step[DECODE bs=32]", 0, 500_000_000)
    made = made.op("aten::copy_", 0, 480_000_000).call("hipMemcpy", 0, 480_000_000)
    made = made.op("aten::mm", 482_000_000, 9_000_000).launch(482_995_000, 1_000)
    found = summarize(open_made(made.kernel("k", 483_000_000, 17_000_000), tmp_path))
    [row] = found.look.serving
    assert (row.time_ns, row.unrecorded_ns) == (20_002_000, 480_000_000)  # a launch takes 5 us
    text = " ".join(drawn(first_screen(found)).split())
    assert "32 tokens in 20.0 ms besides 480 ms not recorded, 1,600 tokens/s" in text


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


def test_markdown_says_what_the_terminal_says() -> None:
    terminal = " ".join(look_text(document("mlp_eager"), 20).split())
    escaped = marked(sections(document("mlp_eager"), EVERY, 20))
    plain = re.sub(r"\\(.)", r"\1", escaped).replace("**", "")
    for line in document("mlp_eager").lines:
        assert f"{line.label} {line.text}" in terminal
        assert f"{line.label}: {line.text}" in plain
    assert "| nvjet 192x128x64 tn bf16 | linear > matmul > mm |" in plain


def test_the_command_prints_the_contract_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(recordings.traces()["mlp_eager"])
    assert main(["look", path, "--json", "--no-cache"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(encode(document("mlp_eager").look))


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_the_command_prints_no_colour_into_a_pipe(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(recordings.traces()["mlp_eager"]), "--no-cache", *form]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("trace", "name", "shown"),
    [
        ("llama_train_eager", "cuda_graph", ["1,567 launches per step", "What must hold: a graph"]),
        (
            "mlp_eager",
            "fusable_pointwise",
            ["fusable_pointwise: found", "Manual of fusable_pointwise"],
        ),
    ],
)
def test_a_rule_or_fix_is_explained_with_its_evidence_and_its_manual(
    trace: str, name: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", trace, "--explain", name]) == 0
    page = capsys.readouterr().out
    assert all(text in page for text in shown)
    assert main(["look", trace, "--explain", f"{name}s"]) == 2
    assert f"did you mean {name}" in capsys.readouterr().err


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


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if " us" in line or " -" in line]


def test_three_traces_place_by_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LOOK, EAGER, "--beside", COMPILED, "--beside", LIGER]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"A  {EAGER}\nB  {COMPILED}\nC  {LIGER}\n")
    rows = _rows(text)
    assert [row[-3:] for row in rows if "gelu" in row or "geglu" in row] == [
        ["cudaLaunchKernel", "31.0", "us"],
        ["cuLaunchKernelEx", "44.0", "us"],
    ]
    assert rows.count(["B", "-"]) == rows.count(["C", "-"]) == 1  # at the place of mul
    gemms = [row for row in rows if "nvjet" in row]
    assert len(gemms) == 9
    assert {row[-3] for row in gemms} == {"cuLaunchKernelEx"}
    assert [row[1] for row in gemms if row[0].isdigit()] == ["gate", "up", "down"]


def test_what_replaces_a_kernel_stands_at_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LOOK, COMPILED, "--beside", EAGER]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(place for place, line in enumerate(lines) if "triton gelu+mul" in line)
    words = [line.split() for line in lines[at : at + 4]]
    assert [row[0] for row in words] == ["5", "B", "mul", "6"]


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
