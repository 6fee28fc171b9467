"""MFU and MBU of recorded steps, and where no figure is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.builder import TraceBuilder
from foretrace.read import recordings
from foretrace.trace.utilization import Utilization, utilization
from opened_traces import H200, MM, open_made, opened

FLOPS = 2 * 4096**3


def of(builder: TraceBuilder, folder: Path) -> Utilization:
    return utilization(open_made(builder, folder))


def matmul(header: dict[str, object], ns: int = 200_000) -> TraceBuilder:
    builder = TraceBuilder(header=header).step(1, 0, 400_000).op("aten::mm", 0, 5_000, **MM)
    return builder.launch(1_000, 500).kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_TNT", 2_000, ns)


def test_one_matmul_in_a_step(tmp_path: Path) -> None:
    found = of(matmul(H200).call("cudaDeviceSynchronize", 390_000, 9_999), tmp_path)
    assert found.model_flops == FLOPS
    assert found.mfu_gpu == pytest.approx(FLOPS / 989.4e12 / 200e-6)
    assert found.mbu_gpu == pytest.approx(3 * 2 * 4096**2 / 4.8e12 / 200e-6)
    assert found.mfu_wall == pytest.approx(FLOPS / 989.4e12 / 400e-6, rel=0.01)
    assert found.profiled
    assert found.note == (
        "FLOP of matmuls and attention; at least: bytes known for 100.0% of kernel time"
    )


def test_a_matmul_without_shapes_lowers_what_is_covered(tmp_path: Path) -> None:
    builder = matmul(H200).op("aten::mm", 10_000, 5_000).launch(11_000, 500)
    some = of(builder.kernel("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", 210_000, 50_000), tmp_path)
    assert some.mfu_gpu == pytest.approx(FLOPS / 989.4e12 / 250e-6)
    assert some.note.startswith("at least: FLOP known for 80.0% of the time of matmuls")
    builder.op("aten::mm", 20_000, 5_000).launch(21_000, 500)
    most = of(builder.kernel("nvjet_sm90_tst_64x8_64x16_1x4_h_bz_NNT", 260_000, 200_000), tmp_path)
    assert (most.model_flops, most.mfu_gpu, most.mbu_gpu) == (None, None, None)


def test_without_peaks_or_work_there_is_no_figure(tmp_path: Path) -> None:
    other: dict[str, object] = {"deviceProperties": [{"id": 0, "name": "another GPU"}]}
    assert of(matmul(other), tmp_path) == Utilization(note="no peaks of the GPU")
    assert of(TraceBuilder(header=H200).step(1, 0, 100), tmp_path).note == "no GPU work"


def test_helpers_of_attention_are_no_matmuls() -> None:
    """The row sums and conversions of a backward have its role; the FLOP are with the matmuls."""
    trace = opened(recordings.traces()["llama_train_eager"])
    found = utilization(trace)
    assert found.note.startswith("FLOP of matmuls and attention;")
    assert found.mfu_gpu == pytest.approx(0.213, abs=0.002)
    assert found.model_flops == 4_490_388_373_504
