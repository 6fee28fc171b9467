"""The climb over the recordings: every verdict, the document's names, the table, and the words
around them.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foretrace
from foretrace.base.errors import UsageError
from foretrace.check import check
from foretrace.cli import main
from foretrace.compare.articles import published_of
from foretrace.learn.claims import OUTCOMES, claims
from foretrace.learn.ladder import climb as climbing
from foretrace.learn.ladder.lines import claim_pages, climb_markdown
from foretrace.read.recordings import folder
from foretrace.record.lab_documents import LadderDocument
from foretrace.trace import opening

# Predictions of the articles on the H200: hold, do not hold, hold on the A100, imprecise, inconclusive.
H200 = {
    "matmul_add": (21, 2, 5, 0, 2),
    "linear": (29, 0, 2, 0, 0),
    "mlp": (45, 2, 5, 1, 1),
    "attention": (26, 1, 5, 0, 3),
}


@pytest.fixture(scope="module")
def climb() -> LadderDocument:
    return climbing.climb_recorded("h200")


@pytest.fixture(scope="module")
def document(climb: LadderDocument) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(climb)
    return found


def test_every_verdict_is_the_one_the_h200_gave(document: dict[str, Any]) -> None:
    assert [
        (claim["number"], claim["guess"], claim["verdict"], claim["reason"])
        for claim in document["claims"]
    ] == [
        (claim.number, each.guess, each.h200, each.reason)
        for claim in claims()
        for each in claim.predictions
    ]
    assert document["counts"] == {"hit": 143, "miss": 32, "unknown": 2}
    said = [claim for claim in document["claims"] if claim["said_by"] == "articles"]
    counts = Counter((claim["rung"], claim["outcome"]) for claim in said)
    assert {rung: tuple(counts[rung, outcome] for outcome in OUTCOMES) for rung in H200} == H200
    assert document["outcomes"] == {
        outcome: sum(row[place] for row in H200.values()) for place, outcome in enumerate(OUTCOMES)
    }
    assert [*document["commentaries"].values()] == [7, 5, 0, 0, 0]
    assert [*document["found"].values()] == [15, 0, 0, 0, 0]


# What was recorded of the same setup in other processes: by a plain script, and by the rung again.
SECOND = {
    "ladder/linear_eager_1024x32x64_bf16": ("linear_eager",),
    "ladder/linear_compiled_1024x32x64_bf16": ("linear_compiled",),
    "ladder/matmul_add_eager_64_bf16": ("matmul_add_64_eager",),
    "ladder/matmul_add_compiled_64_bf16": ("matmul_add_64_compiled",),
    "ladder/matmul_add_eager_4096_bf16": ("matmul_add_4096_eager",),
    "ladder/matmul_add_compiled_4096_bf16": ("matmul_add_4096_compiled",),
    "ladder/mlp_compiled_reduce-overhead_64x128x768x3072_bf16": ("why/mlp_reduce_overhead",),
    "ladder/mlp_eager_64x128x768x3072_bf16": ("mlp_eager", "mlp_eager_again"),
    "ladder/mlp_compiled_64x128x768x3072_bf16": ("mlp_compiled", "why/mlp_why"),
    "ladder/mlp_liger_64x128x768x3072_bf16": ("mlp_liger", "mlp_liger_again"),
}
LIVE = Path(__file__).parents[3] / "benchmarks" / "results" / "ladder_h200_live.json"
RECORDED = Path(__file__).parents[2] / "recorded"


def _recorded(name: str) -> Path:
    shipped = folder("h200") / f"{name}.json.gz"
    return shipped if shipped.exists() else RECORDED / shipped.name


def test_one_recording_is_no_proof(document: dict[str, Any]) -> None:
    """A second recording or a second climb has each verdict, or the text speaks of recordings."""
    opened = cache(lambda name: opening.open(_recorded(name), cache=False))
    live = {
        (each["number"], each["guess"], each["variant"]): each["verdict"]
        for each in json.loads(LIVE.read_text("utf-8"))["claims"]
    }
    pairs = [(claim, each) for claim in claims() for each in claim.predictions]
    for (claim, each), marked in zip(pairs, document["claims"], strict=True):
        verdicts = {live.get((claim.number, each.guess, marked["variant"]))} - {None}
        traces = [program.trace for program in (each.on, each.against) if program]
        if set(traces) <= set(SECOND):
            again = [*zip(*(SECOND[name] for name in traces), strict=False)]
            for names in again[claim.number == "B20" :]:  # the script has another order
                twins = [opened(name) for name in names]
                verdict = check(twins[0], each.guess, *twins[1:])[0].verdict
                if claim.number != "B37" or names != ("why/mlp_why",):
                    verdicts.add(verdict)
                else:  # the compiler's logs decide what the trace alone does not
                    assert verdict == "hit"
        said = f"{claim.claim} {each.reason} {each.correction}"
        assert verdicts == {each.h200} or (not verdicts and "recording" in said), each.guess


def test_a_claim_that_does_not_hold_is_explained(document: dict[str, Any]) -> None:
    for claim in document["claims"]:
        if claim["verdict"] == "miss":
            assert claim["measured"]
            assert claim["reason"]
            assert claim["correction"]
        if claim["verdict"] == "unknown":
            assert claim["why"]


def test_the_articles_table(document: dict[str, Any]) -> None:
    table = {row["setup"]: row for row in document["article"]}
    assert len(table) == 25
    compiled = table["mlp compiled, 64x128x768x3072, against eager"]
    assert compiled["changed"][0] == "Kernels 5 to 4 per call."
    fused = "GeGLU: 2 kernels to 1, 66.7 to 56.5 us (fused by Inductor)."
    assert compiled["changed"][1] == fused
    assert compiled["same"][0] == "GEMM: 3 kernels, 168 us per call, the same."
    linear = table["linear compiled, 1024x32x64, against eager"]
    assert linear["same"][-1] == "GPU time: 2.72 us per call in both."
    assert not any("ernel" in line for line in linear["changed"])
    assert table["attention inplace, 8x16x1024x64, against naive"]["changed"] == [
        "Memcpys 1 to 0 per call.",
        "attention: 1 memcpy/memset to 0, 130 us to 0 ns.",
        "GPU time: 1.08 ms to 948 us per call (0.88x).",
    ]
    assert (
        table["train_step fused, 4x512x4x768x12x3072x32000, against foreach"]["changed"][0]
        == "Kernels 210 to 176 per call."
    )


def test_only_one_rung() -> None:
    found = climbing.climb_recorded("h200", ["linear"])
    assert {claim.rung for claim in found.claims} == {"linear"}
    assert [row.setup for row in found.article] == ["linear compiled, 1024x32x64, against eager"]
    with pytest.raises(UsageError, match="did you mean linear"):
        climbing.climb_recorded("h200", ["liner"])


def test_markdown(climb: LadderDocument) -> None:
    page = climb_markdown(climb)
    pages = claim_pages(climb)
    assert set(pages) == {claim.number for claim in claims()}
    assert all(text in page for text in pages.values())
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == 177
    assert "> in substance: the GPU starves when" in pages["B31"]
    assert pages["B12"].endswith("only code that is called without its guards raises.")


def test_one_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "ladder", "--claim", "b5"]) == 0
    text = capsys.readouterr().out
    assert "The add never appears as a separate kernel" in text
    assert "(Part 2, Why" in text
    assert "on linear eager, 1024x32x64: nn.Linear(32, 64)(x), x of 1024 x 32\n" in text
    assert "        holds             epilogue(gemm) == bias\n" in text
    assert main(["lab", "ladder", "--claim", "B12"]) == 0
    assert "        does not hold     torch on this machine" in capsys.readouterr().out
    assert main(["lab", "ladder", "--claim", "E17", "--json"]) == 0  # points to B24, and shows it
    found = json.loads(capsys.readouterr().out)
    [pointing] = found["unmarked"]
    assert (pointing["number"], pointing["see"], pointing["outcome"]) == ("E17", "B24", "")
    assert {claim["number"] for claim in found["claims"]} == {"B24"}
    assert pointing["sentence"] == found["claims"][0]["sentence"]
    for wrong in (["B99"], ["B3", "--only", "mlp"], ["B3", "--device", "cpu"]):
        assert main(["lab", "ladder", "--claim", *wrong]) == 2


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "ladder", "--recorded", "h200", "--only", "linear", "--json"]) == 0
    captured = capsys.readouterr()
    document = msgspec.to_builtins(climbing.climb_recorded("h200", ["linear"]))
    assert json.loads(captured.out) == document
    assert captured.err == ""
    assert (
        main(["lab", "ladder", "--recorded", "h200", "--strict", "--only", "linear", "--markdown"])
        == 0
    )
    assert "### B3" in capsys.readouterr().out
    for wrong in (
        ["--keep", "t"],
        ["--device", "cpu"],
        ["--json", "--markdown"],
        ["--only", "nothing"],
    ):
        assert main(["lab", "ladder", "--recorded", "h200", *wrong]) == 2
    assert main(["lab", "ladder", "--recorded", "abacus"]) == 2
    assert "choose from h200" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "printed"),
    [
        (("mlp_eager", "mlp_compiled"), "89.4 us for triton_poi_fused"),
        (("mlp_compiled", "mlp_eager"), "89.4 us for triton_poi_fused"),
        (("mlp_eager", "mlp_compiled", "mlp_liger"), "92.8 us for Liger's kernel"),
        (("matmul_add_4096_eager", "matmul_add_4096_compiled"), "a memcpy of 32 MiB in 33 us"),
        (("matmul_add_64_eager", "matmul_add_4096_eager"), "64 x 64, the whole recording: 23.1 us"),
        (("linear_eager", "linear_compiled"), "cutlass_80_wmma_tensorop"),
        (("attention_flash_8x16x1024x64_bf16", "attention_cudnn_8x16x1024x64_bf16"), "146.8 us"),
        (("mlp_eager", "mlp_eager"), ""),  # one program
        (("mlp_eager", "mlp_fused_64x128x768x3072_bf16"), ""),
        (("mlp_eager", "mlp_compiled_reduce-overhead_64x128x768x3072_bf16"), ""),
        (("linear_eager_8x32x64x128_bf16", "linear_compiled_8x32x64x128_bf16"), ""),  # x is 3-D
        (("mlp_eager_train", "mlp_compiled"), ""),
    ],
)
def test_the_articles_are_quoted_for_their_own_programs_alone(
    names: tuple[str, ...], printed: str
) -> None:
    said = published_of(*(foretrace.open(name, cache=False) for name in names))
    assert said.startswith(printed) or printed in said
    assert bool(said) == bool(printed)
