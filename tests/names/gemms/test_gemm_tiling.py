"""Tiles and waves, counted."""

from __future__ import annotations

import pytest

from foretrace.names.families import decode
from foretrace.names.gemms.tiling import Launched, tile_of, tiled, tiling
from foretrace.schema.gemm_point import GemmPoint

NVJET = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"
SPLIT = "nvjet_sm90_tst_128x8_64x12_4x1_v_bz_splitK_TNT"
XMMA = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_"
    "alignc4_execute_kernel__5x_cublas"
)
ONE_EACH = Launched((2, 66, 1), 384, 168, 180_692)


def test_the_down_projection_fills_two_waves() -> None:
    cut = tiling(GemmPoint(8192, 768, 3072), decode(NVJET), ONE_EACH, 132)
    assert cut is not None
    assert (cut.tiles_n, cut.tiles_m, cut.tiles, cut.split) == (4, 64, 256, 1)
    assert cut.waves == 256 / 132
    assert cut.waste == pytest.approx(1 - 256 / 264)
    assert cut.reuse == 2 * 192 * 128 / 320


def test_the_tile_of_gate_and_up_would_leave_a_quarter_empty() -> None:
    cut = tiled(GemmPoint(8192, 768, 3072), (256, 128), 132)
    assert (cut.tiles, cut.waste) == (192, pytest.approx(1 - 192 / 264))


def test_xmma_counts_rows_first() -> None:
    assert tile_of(decode(NVJET)) == (192, 128)
    assert tile_of(decode(XMMA)) == (256, 64)
    assert tile_of(decode("gemv2T_kernel_val")) is None


@pytest.mark.parametrize(
    ("grid", "parts"), [((4, 32, 1), 4), ((4, 8, 1), 1), ((4, 33, 1), None), ((4, 5, 1), None)]
)
def test_the_grid_says_into_how_many_parts_k_is_cut(
    grid: tuple[int, int, int], parts: int | None
) -> None:
    launch = Launched(grid, 384, 168, 180_692)
    cut = tiling(GemmPoint(8, 4096, 14336), decode(SPLIT), launch, 132)
    assert cut is not None
    assert (cut.tiles, cut.split) == (32, parts)


@pytest.mark.parametrize(
    ("launch", "blocks"),
    [
        (ONE_EACH, 1),  # shared memory
        (Launched((1, 1, 1), 256, 32, 0), 8),  # threads
        (Launched((1, 1, 1), 128, 128, 0), 4),  # registers
        (Launched((1, 1, 1), 32, 16, 0), 32),  # blocks
        (Launched((1, 1, 1), 1024, 255, 0), 1),  # never none
    ],
)
def test_blocks_of_one_multiprocessor(launch: Launched, blocks: int) -> None:
    assert launch.per_multiprocessor() == blocks


@pytest.mark.parametrize(
    ("point", "load"),
    [
        (GemmPoint(8, 768, 768), 16),
        (GemmPoint(7, 768, 768), 16),  # M is no size along memory
        (GemmPoint(7, 768, 768, "nt"), 2),
        (GemmPoint(1, 768, 768, "nt"), 16),  # one row is a vector
        (GemmPoint(8, 50257, 768), 2),
        (GemmPoint(8, 768, 766), 4),
        (GemmPoint(8, 764, 768, dtype="tf32"), 16),
        (GemmPoint(8, 768, 768, dtype="fp8"), 16),
    ],
)
def test_the_widest_load(point: GemmPoint, load: int) -> None:
    assert (point.load_bytes, point.aligned) == (load, load == 16)


def test_flops_and_bytes() -> None:
    point = GemmPoint(8192, 3072, 768)
    assert point.flops == 38_654_705_664
    assert point.bytes == 2 * (8192 * 768 + 3072 * 768 + 8192 * 3072)
    assert GemmPoint(2, 3, 5, dtype="fp8").bytes == 2 * 5 + 3 * 5 + 2 * 2 * 3
