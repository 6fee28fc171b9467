"""Recorded arguments, grids and blocks are typed lists; what does not fit is null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import foretrace
from corpus.build import E4, E7, Event, g0
from foretrace.model.arguments import Signature
from foretrace.model.trace import Trace

SIZES = pl.List(pl.List(pl.Int64))


def opened(folder: Path, op: Event, kernel: Event | None = None) -> Trace:
    path = folder / "t.json"
    path.write_bytes(g0().args(E4, op).args(E7, kernel or {}).bytes())
    return foretrace.open(path, cache=False)


def signature(trace: Trace) -> Signature:
    op = int(trace.gpu.op[0])
    found = trace.arguments.of(op)
    assert found is not None
    return found


def test_tensors_and_tensor_lists(tmp_path: Path) -> None:
    lists = {
        "Input Dims": [[2, 3], [], [[4, 5], [6]], [[7]]],
        "Input Strides": [[3, 1], [], [[5, 1], [1]], [[1]]],
        "Input type": ["float", "Scalar", "TensorList", "TensorList"],
        "Concrete Inputs": ["", "1", "", ""],
    }
    trace = opened(tmp_path, lists)
    found = signature(trace)
    assert [found.dims, found.strides] == [lists["Input Dims"], lists["Input Strides"]]
    assert [found.types, found.concrete] == [lists["Input type"], lists["Concrete Inputs"]]
    assert found.tensors == [[2, 3]]
    (row,) = trace.sql("select dims, list_dims from shapes").to_dicts()
    assert row["dims"] == [[2, 3], [], None, None]
    assert row["list_dims"] == [None, None, [[4, 5], [6]], [[7]]]


@pytest.mark.parametrize(
    ("dims", "read"),
    [
        ([[2, "3"], 4, None, [[1], "a"], [1 << 70], [1.5], [True], [8]], [None] * 7 + [[8]]),
        ("[2, 3]", []),
        ([], []),
    ],
)
def test_what_does_not_fit_is_null(tmp_path: Path, dims: Any, read: list[Any]) -> None:
    trace = opened(tmp_path, {"Input Dims": dims})
    assert signature(trace).dims == read
    assert trace.shapes.schema["dims"] == trace.ops.schema["dims"] == SIZES


@pytest.mark.parametrize(
    ("grid", "read"), [([4, 1, 1], [4, 1, 1]), ("grid(4,)", None), ([4, "1"], None), (7, None)]
)
def test_a_grid_is_a_list_of_numbers(tmp_path: Path, grid: Any, read: list[int] | None) -> None:
    trace = opened(tmp_path, {}, {"grid": grid})
    assert trace.kernels["grid"].to_list() == [read]
    assert trace.kernels["block"].to_list() == [[128, 1, 1]]


def test_calls_with_the_same_arguments_share_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(g0().bytes().replace(b"[[8, 8], [8, 8]]", b"[[8,8],\t[8,8]]"))
    table = foretrace.open(path, cache=False).tables["signatures"]
    assert table["dims"].to_list() == [[[8, 8], [8, 8]]]
