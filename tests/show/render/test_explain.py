"""`look --explain`: one rule or fix, with its evidence and its manual."""

from __future__ import annotations

import pytest

from foretrace.cli import main


def test_a_fix_has_its_prediction_and_its_manual(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "llama_train_eager", "--explain", "cuda_graph"]) == 0
    page = capsys.readouterr().out
    assert "1,567 launches per step" in page
    assert "What must hold: a graph has fixed shapes and addresses." in page


def test_a_rule_has_its_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "mlp_eager", "--explain", "fusable_pointwise"]) == 0
    page = capsys.readouterr().out
    assert "fusable_pointwise: found" in page
    assert "Manual of fusable_pointwise" in page


def test_another_name_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "mlp_eager", "--explain", "cuda_graf"]) == 2
    assert "did you mean cuda_graph?" in capsys.readouterr().err
