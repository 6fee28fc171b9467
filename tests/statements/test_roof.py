"""Statements about rates, bounds and traffic of kernels that were false once, and what holds on
every trace since.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from corpus.builder import TraceBuilder
from foretrace.work.kernel import Certainty
from opened_traces import open_made
from statements.places import ladder

H200 = {
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}
    ]
}
BF16 = "c10::BFloat16"


def one_case(
    folder: Path, op: str, dims: list[list[int]], ns: int, kernel: str = "some_kernel"
) -> dict[str, object]:
    """The case of a kernel of an op on bf16 tensors that took this long on an H200."""
    builder = TraceBuilder(header=H200).op(op, 0, 5_000, dims=dims, types=[BF16] * len(dims))
    builder.launch(1_000, 500).kernel(kernel, 10_000, ns)
    return open_made(builder, folder).kernel_cases.row(0, named=True)


def test_a_cache_write_moves_the_new_tokens_and_not_the_cache(tmp_path: Path) -> None:
    """ "kv cache write 99.25 TB/s": an op without a cost model counted the whole cache."""
    cache = [[32, 1024], [32, 1024], [835_874, 1024], [835_874, 1024]]
    case = one_case(tmp_path, "sglang::other_store_cache", cache, 4_686)
    assert (case["bytes"], case["gbps"], case["bound"]) == (None, None, "unknown")
    assert case["cost_note"] == "this op has no cost model"


def test_no_rate_exceeds_the_peak_of_the_gpu(tmp_path: Path) -> None:
    """ "fmha 6.35 TB/s" on a card of 5.3: such a cost is wrong for that call."""
    shape = [8, 16, 4096, 64]
    op = "aten::_scaled_dot_product_flash_attention"
    case = one_case(tmp_path, op, [shape] * 3, 20_000)
    assert [case[name] for name in ("flops", "bytes", "tflops", "gbps")] == [None] * 4
    assert case["cost_certainty"] == Certainty.NONE
    assert case["cost_note"] == "the counted FLOP exceed the GPU's peak rate: no cost"
    assert (case["bound"], case["limited_by"]) == ("unknown", "")


def test_what_the_cache_gives_is_held_against_l2(tmp_path: Path) -> None:
    """25.2 MB in 4.9 us are 5.14 TB/s: more than HBM gives, and 58% of what L2 does."""
    case = one_case(tmp_path, "aten::mul", [[4096, 1024]] * 2, 4_900)
    assert (case["bytes"], case["bound"]) == (25_165_824, "l2")
    assert (case["gbps"], case["roof_percent"]) == (
        pytest.approx(5135.9, abs=0.1),
        pytest.approx(57.5, abs=0.1),
    )


def test_an_optimizer_counts_the_chunks_that_are_whole() -> None:
    """ "fused AdamW 7.44 TB/s" on a card of 4.8: chunks of small tensors counted as whole."""
    cases = ladder("train_step_fused_4x512x4x768x12x3072x32000").kernel_cases
    adam = cases.filter(pl.col("short").str.contains("AdamW") & pl.col("bytes").is_not_null())
    assert set(adam["cost_certainty"]) == {Certainty.AT_LEAST}
    assert set(adam["limited_by"]) == {"at least 42% of HBM: last wave 21% full"}
    steps = cases.filter(pl.col("ops").list.contains("aten::_foreach_add_"))
    assert steps["bytes"].null_count() == steps.height, "31 step counters are no 31 chunks"


def test_the_same_kernel_has_the_same_bound_at_any_distance() -> None:
    """A cuDNN kernel was "compute" at 26% and "unknown" at 23%."""
    trace = ladder("attention_cudnn_8x16x1024x64")
    (case,) = trace.kernel_cases.iter_rows(named=True)
    assert case["bound"] == "compute"
    assert 25 < case["roof_percent"] < 35
    assert case["limited_by"] == "33% of compute, cause not in the trace"


def test_a_fused_kernel_moves_its_inputs_and_its_output() -> None:
    """gelu + mul: 101 MB in one place and 151 MB in another; the counters read and wrote 151 MB."""
    cases = ladder("mlp_compiled_64x128x768x3072").kernel_cases
    (case,) = cases.filter(pl.col("name").str.starts_with("triton_")).iter_rows(named=True)
    assert (case["bytes"], case["cost_certainty"]) == (150_994_944, Certainty.ESTIMATE)
    assert case["limited_by"].startswith("about ")
