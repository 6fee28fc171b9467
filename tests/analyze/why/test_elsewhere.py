"""The MLP with `mode="max-autotune-no-cudagraphs"` on an H200: what tuning made of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.analyze.why.not_fused import OtherRun, grouped, not_fused
from foretrace.cli import main
from foretrace.model.compiled.assemble import assemble
from foretrace.read.compiler import read
from foretrace.schema.compiler import CompilerRun, Elsewhere
from model.compiled.recorded import compiled

TUNED = Path(__file__).parents[2] / "data" / "tuned"


@pytest.fixture(scope="module")
def tuned() -> CompilerRun:
    return assemble(read(str(TUNED)))


def test_a_gemm_became_a_template_and_took_nothing_in(tuned: CompilerRun) -> None:
    """The last template lists the nodes of gelu, which another kernel computes for it."""
    (mine,) = compiled("mlp").compilations
    second = OtherRun(tuned)
    found = {(one.a[-1], one.b[-1]): second.made_of(one, mine) for one in not_fused(mine)}
    gelu = "triton_poi_fused__unsafe_view_gelu_mul_1"
    last = "triton_tem_fused__unsafe_view_gelu_mm_mul_t_view_2"
    up = Elsewhere(("triton_tem_fused_mm_t_view_0",), (gelu, last), "", "loops", "no shared data")
    assert found["2", "3"] == up
    down = found["3", "4"]
    assert down is not None
    assert (down.a, down.b, down.fused, down.reason) == ((gelu, last), (last,), "", "not_worth_it")


def test_kernels_that_the_other_run_fused(tuned: CompilerRun) -> None:
    mine = tuned.compilations[1]
    calls = (replace(mine.calls[0], kernel="both", nodes=("mm", "mul", "relu")),)
    fused = replace(mine, after=(), before=(), choices=(), calls=calls)
    found = OtherRun(replace(tuned, compilations=(fused,))).made_of(not_fused(mine)[0], mine)
    assert found == Elsewhere(("both",), ("both",), "both")


def test_another_program_says_nothing(tuned: CompilerRun) -> None:
    mine = compiled("unfusable").compilations[0]
    assert OtherRun(tuned).made_of(not_fused(mine)[0], mine) is None


def test_the_command_looks_into_the_other_run(capsys: pytest.CaptureFixture[str]) -> None:
    mine = Path(__file__).parents[2] / "data" / "compile" / "mlp"
    assert main(["why", str(mine), "--not-fused", "--against", str(TUNED)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The other run keeps triton_tem_fused_mm_t_view_0 and triton_poi" in text
    assert 'apart: the same order, but other loop dimensions (Inductor: "no shared data")' in text


def test_refusals_around_templates(tuned: CompilerRun) -> None:
    mlp, relu = tuned.compilations
    found = {(one.a[-1], one.b[-1]): one for one in not_fused(mlp)}
    # the last choice was cuBLAS: it was a template when Inductor asked
    assert (found["1", "3"].reason, found["1", "3"].inductor) == ("extern", "no shared data")
    same = found["2", "3"]
    assert (same.reason, same.a_kind) == ("loops", "template")
    assert same.a_index == "3072*d0 + d1, {d0: 8192, d1: 3072}"
    assert same.b_index == "c0, {c0: 25165824}"
    # asked in both directions: "node1 must go before node2" is only the answer to the other one
    prologue = found["3", "4"]
    assert prologue.reason == "not_worth_it"
    assert prologue.inductor.startswith("prologue fusion will not increase")
    assert prologue.refusals == 4
    (slower,) = not_fused(relu)
    assert (slower.reason, slower.inductor) == ("not_worth_it", "benchmark: 1.927x slowdown")
    lines = sum(choice.times for choice in mlp.choices if not choice.fused)
    assert sum(group.lines for group in grouped(mlp, not_fused(mlp))) == lines == 12
