"""Kernels of ops that launched several, in recorded traces: bytes, or why they are not known."""

from pathlib import Path

import polars as pl
import pytest
from recorded_calls import RECORDED

from corpus.builder import TraceBuilder
from foretrace.work import devices
from foretrace.work.costs import Certainty
from opened_traces import open_made, opened

LADDER = RECORDED[0].parent / "ladder"
STEPS = [
    LADDER / f"train_step_{name}_4x512x4x768x12x3072x32000_bf16.json.gz"
    for name in ("compiled", "foreach", "fused")
]
SEVERAL = [path for path in RECORDED if path.name.startswith("llama")] + STEPS
# Their sizes are data: how many indices are distinct, and how many sums each of them needs.
DATA = {
    "krn_partials_per_segment",
    "krn_partial_segment_offset",
    "compute_num_of_partial_segments",
    "sum_and_scatter",
    "DeviceScanKernel",
}


@pytest.fixture(params=SEVERAL, ids=lambda path: path.name.removesuffix(".json.gz"), scope="module")
def shaped(request: pytest.FixtureRequest) -> pl.DataFrame:
    """The kernels whose op has recorded shapes."""
    path: Path = request.param
    return opened(path).kernels.filter(pl.col("signature") >= 0)


def test_every_kernel_has_bytes_save_those_whose_size_is_data(shaped: pl.DataFrame) -> None:
    left = shaped.filter(pl.col("bytes").is_null())
    cut = left["cost_note"].str.contains("their sizes are not recorded")
    left = left.filter(~cut)
    assert set(left["op_name"]) <= {"aten::embedding_dense_backward"}
    assert all(any(mark in name for mark in DATA) for name in left["name"])
    assert left["cost_note"].null_count() == 0
    assert set(left["cost_certainty"]) <= {Certainty.NONE}
    assert Certainty.NONE not in set(shaped.filter(pl.col("bytes").is_not_null())["cost_certainty"])


def test_no_cost_exceeds_what_the_memory_gives(shaped: pl.DataFrame) -> None:
    """Within what the cache explains; a wrong part would show as a rate that no memory has."""
    h200 = devices.find("NVIDIA H200")
    assert h200 is not None
    rate = pl.col("bytes") / pl.col("dur_ns") / (h200.bytes_per_s / 1e9)
    of_peak = shaped.select("cost_certainty", rate.alias("rate"))
    assert of_peak["rate"].max() < 1.5
    assert of_peak.filter(pl.col("cost_certainty") == Certainty.AT_LEAST)["rate"].max() < 1


def test_the_five_kernels_of_an_attention_backward() -> None:
    kernels = opened(SEVERAL[0]).kernels.filter(
        pl.col("op_name") == "aten::_cudnn_attention_backward"
    )
    query, key, row = 4 * 16 * 1024 * 64, 4 * 4 * 1024 * 64, 4 * 16 * 1024
    matmuls = 2 * 2 * query + 2 * 2 * key + 2 * 4 * row + 4 * query + 2 * 2 * query
    assert kernels.group_by("short", maintain_order=True).agg(
        pl.len(), pl.col("flops", "bytes").unique()
    ).rows() == [
        ("sdpa bwd: rowsum(dO*O)", 36, [None], [2 * 2 * query + 4 * row]),
        ("cudnn sdpa bwd 64x64x64 sm90", 36, [21_474_836_480], [matmuls]),
        ("sdpa bwd: dQ f32->16-bit", 36, [None], [(4 + 2) * query]),
        ("sdpa bwd: GQA head sum", 72, [None], [2 * query + 2 * key]),
    ]


def test_a_split_matmul_and_its_sum() -> None:
    kernels = opened(STEPS[0]).kernels.filter(
        (pl.col("op_name") == "aten::mm") & (pl.col("dur_ns") > 0)
    )
    sums = kernels.filter(pl.col("name").str.contains("splitKreduce"))
    split = kernels.filter(pl.col("op").is_in(sums["op"].implode()) & (pl.col("role") == "gemm"))
    assert len(sums) == len(split) > 0
    assert split.select("flops", "bytes").unique().rows() == [
        (100_663_296_000, 2 * (2048 * 32_000 + 32_000 * 768 + 2048 * 768))
    ]
    assert set(sums["bytes"]) == {2 * 2 * 2048 * 768}


def test_an_op_whose_arguments_have_no_sizes_says_so(tmp_path: Path) -> None:
    built = TraceBuilder().op(
        "record_param_comms", 0, 9_000, dims=[[], []], types=["TensorList", "Scalar"]
    )
    trace = open_made(
        built.launch(2_000, 1_000).kernel("ncclKernel_SendRecv", 5_000, 3_000), tmp_path
    )
    row = trace.kernels.row(0, named=True)
    assert (row["bytes"], row["cost_note"]) == (None, "the op's arguments have no recorded sizes")
