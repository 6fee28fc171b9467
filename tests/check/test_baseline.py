"""Guess files: written from a trace, read back, held against other runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.conftest import recorded
from foretrace.base.errors import UsageError
from foretrace.check import check
from foretrace.check.baseline import write
from foretrace.check.guess_files import dump, load

SAME = {
    "ladder/mlp_eager_64x128x768x3072_bf16": "ladder/mlp_eager_64x128x768x3072_bf16.timing",
    "mlp_compiled": "ladder/mlp_compiled_64x128x768x3072_bf16",
    "mlp_liger": "ladder/mlp_liger_64x128x768x3072_bf16",
    "linear_eager": "ladder/linear_eager_1024x32x64_bf16",
    "matmul_add_4096_compiled": "ladder/matmul_add_compiled_4096_bf16",
}


@pytest.mark.parametrize(("first", "second"), SAME.items())
def test_a_net_from_one_run_holds_on_another_day(first: str, second: str, tmp_path: Path) -> None:
    """The same program on the same kind of card, captured at another time."""
    file = tmp_path / "guesses.toml"
    file.write_text(write(recorded(first)))
    guesses = load(file)
    assert len(guesses) >= 10
    assert all(guess.reason for guess in guesses)
    assert {verdict.verdict for verdict in check(recorded(first), guesses)} == {"hit"}
    assert [
        verdict for verdict in check(recorded(second), guesses) if verdict.verdict != "hit"
    ] == []


def test_the_same_layers_written_in_another_order_are_another_program(tmp_path: Path) -> None:
    """One evaluates gelu(gate(x)) * up(x), the other both matmuls first; everything else is the
    same.
    """
    file = tmp_path / "guesses.toml"
    file.write_text(write(recorded("mlp_eager")))
    verdicts = check(recorded("ladder/mlp_eager_64x128x768x3072_bf16"), load(file))
    assert [verdict.text for verdict in verdicts if verdict.verdict != "hit"] == [
        "in mlp_fwd: gemm, gelu, gemm, mul, gemm"
    ]


def test_a_net_catches_the_day_a_fusion_is_undone(tmp_path: Path) -> None:
    file = tmp_path / "guesses.toml"
    file.write_text(write(recorded("mlp_compiled")))
    missed = {
        verdict.text
        for verdict in check(recorded("mlp_eager"), load(file))
        if verdict.verdict == "miss"
    }
    assert {
        "in mlp_fwd: kernels == 4",
        "in mlp_fwd: gelu and mul are fused",
        "in mlp_fwd: pointwise == 1",
    } <= missed
    assert "in mlp_fwd: gemm == 3" not in missed


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    pairs = [("kernels == 5", 'a "quoted" reason\twith \\ and ü and \x7f'), ('op "a b*" == 1', "")]
    file = tmp_path / "pairs.toml"
    file.write_text(dump(pairs, ["a comment"]), encoding="utf-8")
    assert [(guess.text, guess.reason) for guess in load(file)] == pairs


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("schema = 1", "no [[guess]]"),
        ("schema = 2\n[[guess]]\ntext = 'kernels == 1'", "schema 2"),
        ("[[guess]]\ntxt = 'kernels == 1'", "write text"),
        ("[[guess]]\ntext = 'kernels == 1'\nreson = 'x'", "'reason'"),
        ("[[guess]]\ntext = 'kernels == 1'\nreason = 5", "write reason"),
        ("not toml", "not a guess file"),
    ],
)
def test_a_file_that_is_wrong_says_where(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load(file)
    assert message in str(caught.value)
    assert "wrong.toml" in str(caught.value)
