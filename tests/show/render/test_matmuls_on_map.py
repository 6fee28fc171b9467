"""The matmuls of a trace on the map of its card, as the report draws them."""

from __future__ import annotations

import foretrace
from foretrace.read import recordings
from foretrace.show.html.view_data import matmuls_on_map


def _trace(name: str) -> foretrace.Trace:
    return foretrace.open(str(recordings.find(name)), cache=False)


def test_matmuls_lie_in_the_plane_of_their_kind() -> None:
    found = matmuls_on_map(_trace("mlp_eager"))
    assert found is not None
    assert (found.plane.dtype, found.plane.layout) == ("bf16", "tn")
    assert {(mark.m, mark.n) for mark in found.marks} == {(8192, 3072), (8192, 768)}
    assert [row[0] for row in found.rows] == ["8192x3072x768 tn bf16", "8192x768x3072 tn bf16"]
    assert {row[4] for row in found.rows} == {"the same"}


def test_a_matmul_that_was_not_measured_is_guessed() -> None:
    found = matmuls_on_map(_trace("llama_train_eager"))
    assert found is not None
    kernels = {row[0]: row[4] for row in found.rows}
    assert kernels["4096x1024x1024 tn bf16"] == "the same"
    assert kernels["2816x1024x4096 nt bf16"].startswith("guess: nvjet")
