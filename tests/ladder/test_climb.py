"""The climb over the recordings: every verdict, the document's names, the table, and the words
around them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from foretrace import ladder
from foretrace.cli import main
from foretrace.errors import UsageError
from foretrace.guess.claims import claims
from foretrace.ladder import climb as climbing
from foretrace.ladder.climb import by_recording
from foretrace.ladder.stops import STOPS
from foretrace.recordings import folder
from foretrace.render.climb import climb_markdown, climb_text
from foretrace.schema.documents.ladder import LadderDocument

# Claims of each rung on the H200: hold, do not hold, inconclusive.
H200 = {"matmul_add": (21, 8, 0), "linear": (25, 3, 0), "mlp": (46, 15, 1), "attention": (25, 8, 1)}


@pytest.fixture(scope="module")
def climb() -> LadderDocument:
    return climbing.climb_recorded("h200")


@pytest.fixture(scope="module")
def document(climb: LadderDocument) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(climb)
    return found


def test_every_verdict_is_the_one_the_h200_gave(document: dict[str, Any]) -> None:
    assert [
        (claim["number"], claim["guess"], claim["verdict"]) for claim in document["claims"]
    ] == [(claim.number, claim.guess, claim.h200) for claim in claims()]
    assert document["counts"] == {"hit": 117, "miss": 34, "unknown": 2}
    found = {
        rung: tuple(
            sum(
                claim["rung"] == rung and claim["verdict"] == verdict
                for claim in document["claims"]
            )
            for verdict in ("hit", "miss", "unknown")
        )
        for rung in H200
    }
    assert found == H200


def test_what_the_h200_showed(document: dict[str, Any]) -> None:
    """The rows that a person would look for first, with their numbers."""
    measured = {
        (claim["number"], claim["variant"], claim["guess"]): claim["measured"]
        for claim in document["claims"]
    }
    assert measured["B18", "eager", "in mlp_fwd: kernels == 5"] == "5 in each of 3 calls of mlp_fwd"
    assert measured["H2", "eager", "in mlp_fwd: memset == 0"] == "2 in each of 3 calls of mlp_fwd"
    assert (
        measured["B33", "compiled", "in mlp_fwd: kernels == 4"] == "4 in each of 3 calls of mlp_fwd"
    )
    # of the call with the median GPU time, as `look` and `compare` show it
    assert (
        measured["B42", "liger", "in mlp_fwd: pointwise time <= 1.05x of A"]
        == "44.5 us, A: 37.2 us (1.19x)"
    )
    assert measured["B29", "eager", "every pointwise has vec 4"] == "6 x vec 8"
    assert (
        measured["B70", "math", "in sdpa_fwd: kernels == 20"] == "20 in each of 3 calls of sdpa_fwd"
    )
    assert (
        measured["B64", "addmm", "in matmul_add: memcpy == 0"]
        == "0 in each of 3 calls of matmul_add"
    )


def test_a_claim_that_does_not_hold_is_explained(document: dict[str, Any]) -> None:
    for claim in document["claims"]:
        if claim["verdict"] == "miss":
            assert claim["measured"]
            assert claim["reason"]
            assert claim["correction"]
        if claim["verdict"] == "unknown":
            assert claim["why"]


def test_the_names_of_the_document(document: dict[str, Any]) -> None:
    assert list(document) == [
        "schema",
        "source",
        "device",
        "torch",
        "claims",
        "counts",
        "skipped",
        "article",
    ]
    assert (
        document["schema"],
        document["source"],
        document["device"],
        document["torch"],
        document["skipped"],
    ) == (1, "recorded h200", "NVIDIA H200", "2.11.0+cu130", [])
    assert {tuple(claim) for claim in document["claims"]} == {
        (
            "number",
            "source",
            "rung",
            "variant",
            "setup",
            "recording",
            "guess",
            "verdict",
            "measured",
            "expected",
            "why",
            "reason",
            "correction",
        )
    }
    assert {tuple(row) for row in document["article"]} == {("setup", "changed", "same")}


def test_the_articles_table(document: dict[str, Any]) -> None:
    table = {row["setup"]: row for row in document["article"]}
    assert len(table) == 24
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


def test_every_claim_names_a_stop_and_every_stop_has_its_recording() -> None:
    known = by_recording()
    assert {name for claim in claims() for name in (claim.trace, claim.against) if name} <= set(
        known
    )
    assert all((folder("h200") / f"{name}.json.gz").is_file() for name in known)
    assert {stop.rung for stop in STOPS} == set(ladder.ORDER)


def test_only_one_rung() -> None:
    found = climbing.climb_recorded("h200", ["linear"])
    assert {claim.rung for claim in found.claims} == {"linear"}
    assert [row.setup for row in found.article] == ["linear compiled, 1024x32x64, against eager"]
    with pytest.raises(UsageError, match="did you mean linear"):
        climbing.climb_recorded("h200", ["liner"])


def test_text(climb: LadderDocument) -> None:
    text = climb_text(climb)
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(
        "The ladder (recorded h200): NVIDIA H200, torch 2.11.0+cu130\n153 claims: 117 hold, 34 do "
        "not"
    )
    assert "  holds          B18 eager, 64x128x768x3072: in mlp_fwd: kernels == 5\n" in text
    missed = "  does not hold  B29 eager, 64x128x768x3072: every pointwise has vec 4\n"
    assert f"{missed}                     measured: 6 x vec 8\n" in text
    assert "                     correction: the width is 8 on this card\n" in text
    assert "  inconclusive   B74: not every one states it" in text
    assert "mlp compiled, 64x128x768x3072, against eager\n  + Kernels 5 to 4 per call." in text


def test_claims_of_one_number_can_be_told_apart(
    climb: LadderDocument, document: dict[str, Any]
) -> None:
    setups = {(claim["number"], claim["guess"], claim["setup"]) for claim in document["claims"]}
    assert ("B64", "in matmul_add: memcpy == 1", "matmul_add addmm, 64") in setups
    assert ("B64", "in matmul_add: memcpy == 0", "matmul_add addmm, 4096 1d") in setups
    places = [
        (claim["number"], claim["guess"], claim["setup"], claim["recording"])
        for claim in document["claims"]
    ]
    assert len(set(places)) == len(places)
    text = climb_text(climb)
    assert "B64 addmm, 64: in matmul_add: memcpy == 1\n" in text
    assert "B64 addmm, 4096 1d: in matmul_add: memcpy == 0\n" in text
    assert (
        "does not hold  B20 eager, 64x128x768x3072 (mlp_eager): in mlp_fwd: gate, up, gelu, mul, "
        "down\n"
    ) in text
    rows = [
        line.split(" | ")[:4]
        for line in climb_markdown(climb).splitlines()
        if line.startswith("| B")
    ]
    assert len({tuple(row) for row in rows}) == len(rows)


def test_markdown(climb: LadderDocument) -> None:
    page = climb_markdown(climb)
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == 153 + 24 + 5  # claims, setups, heads
    assert {line.replace("\\|", "").count("|") for line in rows} == {8, 4}


def test_the_command(capsys: pytest.CaptureFixture[str], document: dict[str, Any]) -> None:
    assert main(["ladder", "--recorded", "h200", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == document
    assert captured.err == ""
    assert main(["ladder", "--recorded", "h200", "--strict", "--only", "linear", "--markdown"]) == 1
    assert "## linear" in capsys.readouterr().out
    for wrong in (
        ["--keep", "t"],
        ["--device", "cpu"],
        ["--json", "--markdown"],
        ["--only", "nothing"],
    ):
        assert main(["ladder", "--recorded", "h200", *wrong]) == 2
    assert main(["ladder", "--recorded", "abacus"]) == 2
    assert "choose from h200" in capsys.readouterr().err


def test_records_are_kept_where_the_traces_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", "--why"]) == 2
    assert "--why keeps records beside the traces: add --keep DIR" in capsys.readouterr().err
