"""The map that ships: its size, what it holds, and whether recordings agree with it."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

import foretrace
from foretrace.compare.crossings import matmul_of
from foretrace.compare.sides import choose, launch_recorded, launched, repeats
from foretrace.read import recordings
from foretrace.work.gemms import table

MAP = table.shipped()


def test_it_is_small_and_large_enough() -> None:
    assert sum(path.stat().st_size for path in table.SHIPPED.iterdir()) < 1_000_000
    assert MAP.frame.height >= 2000
    decode = MAP.frame.filter(pl.col("m") <= 64, dtype="bf16", layout="tn", epilogue="none")
    assert set(range(1, 65)) <= set(decode.filter(n=4096, k=4096)["m"])
    assert {"bf16", "fp16", "tf32", "fp32", "fp8"} == set(MAP.frame["dtype"])


def test_every_matmul_is_there_once() -> None:
    assert len(MAP.rows) == MAP.frame.height


def test_no_matmul_is_faster_than_its_roof() -> None:
    share = MAP.frame["roof_us"] / MAP.frame["cold_us"]
    assert 0.9 < float(share.max() or 0) < 1.01  # type: ignore[arg-type]


def test_a_memset_confirms_the_waves() -> None:
    """cuBLAS clears a counter where tiles take more than two waves: a second count of tiles."""
    counted = Counter(
        (row["others"].startswith("Memset"), row["waves"] > 2)
        for row in MAP.frame.filter(~pl.col("splits"), family="nvjet").iter_rows(named=True)
    )
    assert counted[True, False] == counted[False, True] == 0
    assert counted[True, True] > 500


def test_the_grid_and_the_kernels_beside_it_agree_on_the_split() -> None:
    cutlass = MAP.frame.filter(family="cutlass2x")
    beside = cutlass["others"].str.contains("split-K reduce|Memset")
    assert (beside == (cutlass["split"] > 1)).all()


@pytest.mark.parametrize("name", ["mlp_eager", "mlp_eager_train", "llama_train_eager"])
def test_recorded_matmuls_ran_on_the_kernels_of_the_map(name: str) -> None:
    path = recordings.find(name)
    trace = foretrace.open(str(path), cache=False)
    unit = choose((trace, trace), None)
    work = launched(trace, repeats(trace, unit), 32, launch_recorded(trace, trace))
    pairs = {(matmul_of(each), each.name) for each in work if each.role == "gemm"}
    known = {(point, name) for point, name in pairs if point in MAP.rows}
    assert len(known) >= 2
    for point, kernel in known:
        assert point is not None
        assert MAP.frame["kernel"][MAP.rows[point]] == kernel
