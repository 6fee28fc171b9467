"""What the map says: why a shape gets its kernel, the nearest matmul, the plane, boundaries."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.work.gemms import table
from foretrace.work.gemms.answers import explain_shape, parse_size, plane
from foretrace.work.gemms.documents import MatmulSize
from foretrace.work.gemms.table import DTYPES, FAR, Boundary, crossed, differing, point_of

MAP = table.shipped()
GATE, DOWN = MatmulSize(8192, 3072, 768), MatmulSize(8192, 768, 3072)


def test_down_gets_the_tile_that_fills_the_card() -> None:
    answer = explain_shape(MAP, DOWN)
    assert answer.exact
    assert answer.found.tile == "192x128"
    tiles, other = answer.why[0], answer.why[1]
    assert "4 x 64 = 256 tiles on 132 multiprocessors: 1.94 waves" in tiles
    assert other.startswith("256x128 would need 1.45 waves, so 2 whole ones, with 27.3% empty")
    assert [each.tile for each in answer.tiles if each.chosen] == ["192x128"]


def test_gate_and_up_get_the_larger_of_two_tiles_that_fill_it() -> None:
    answer = explain_shape(MAP, GATE)
    assert answer.found.tile == "256x128"
    assert "192x128 would fill the card as well. 256x128 is larger" in " ".join(answer.why)


def test_down_is_faster_since_its_tiles_end_less_often() -> None:
    first, work, ends, control = explain_shape(MAP, DOWN).against_partner
    assert first.startswith("8192x3072x768 has as many FLOP (38.7 GFLOP)")
    assert "2 tiles of 192x128 with 48 steps along K, there 6 tiles of 256x128 with 12" in work
    assert work.endswith("the same arithmetic.")
    assert "2 against 6" in ends
    assert control.startswith("At M = 16384 both run on one kernel (nvjet 256x128x64 tn bf16)")


def test_a_shape_that_is_not_there_gets_the_nearest() -> None:
    answer = explain_shape(MAP, MatmulSize(8190, 3072, 768))
    assert not answer.exact
    assert answer.found.matmul.n == 3072


def test_a_misaligned_size_is_named() -> None:
    why = explain_shape(MAP, MatmulSize(1024, 3072, 766)).why[0]
    assert why.startswith("K = 766: rows begin at multiples of 4 bytes, not of 16.")
    assert "cutlass sm80" in why


def test_a_split_is_explained() -> None:
    why = explain_shape(MAP, MatmulSize(8, 4096, 14336)).why
    assert why[1].startswith("The tiles alone fill 32 of 132 places. K = 14336 is cut into 4 parts")


def test_a_split_without_a_tile_is_explained() -> None:
    """The names of some old kernels state no tile."""
    rows = MAP.frame.filter(pl.col("splits"), pl.col("tiles").is_null())
    why = explain_shape(MAP, point_of(rows.row(0, named=True))).why
    assert any(line.startswith("The kernel's name states no tile. K = ") for line in why)


@pytest.mark.parametrize("size", ["1x128x128", "20000x16x20000"])
def test_every_shape_has_an_answer(size: str) -> None:
    for dtype in DTYPES:
        assert explain_shape(MAP, parse_size(size, MatmulSize(1, 1, 1, dtype=dtype))).why, dtype


def test_the_plane_has_all_aligned_matmuls_of_its_kind() -> None:
    made = plane(MAP, GATE)
    alike = MAP.like(GATE)
    aligned = [point_of(row).aligned for row in alike.iter_rows(named=True)]
    assert sum(cell.matmuls for cell in made.cells) == sum(aligned) < len(aligned)
    cell = next(each for each in made.cells if (each.m, each.n) == (8192, 2048))
    inside = alike.filter(pl.Series(aligned)).filter(
        pl.col("m").is_between(8192, 16383), pl.col("n").is_between(2048, 4095)
    )
    assert cell.matmuls == inside.height
    shares = 100 * inside["roof_us"] / inside["cold_us"]
    assert cell.roof_percent == pytest.approx(shares.median())
    with pytest.raises(UsageError, match="the map has no matmul fp8 nn none"):
        plane(MAP, replace(GATE, dtype="fp8", layout="nn"))


def test_the_distance_prices_what_changes_the_kernel() -> None:
    def away(point: MatmulSize) -> float:
        return float(MAP.nearest(point, 1)[1][0])

    assert away(DOWN) == 0
    assert away(replace(DOWN, m=8192 * 64)) == pytest.approx(5)  # octaves beyond 16384
    vector = MatmulSize(1, 768, 3072)
    assert away(replace(vector, layout="tt")) == 0  # one row has no order
    assert away(MatmulSize(1 << 20, 1 << 20, 64)) > FAR


def _at(m: int, n: int = 4096, k: int = 14336) -> tuple[MatmulSize, str]:
    point = MatmulSize(m, n, k)
    return point, MAP.frame["kernel"][MAP.rows[point]]


def test_a_boundary_lies_where_the_kernel_changes() -> None:
    assert crossed(MAP, _at(1), _at(16)) == [Boundary(8, 9)]
    assert crossed(MAP, _at(16), _at(1)) == [Boundary(8, 9)]
    assert crossed(MAP, _at(1), _at(8)) == []
    assert crossed(MAP, _at(1), _at(24)) == [Boundary(8, 9), Boundary(16, 17)]


def test_without_the_map_s_kernels_no_boundary_is_stated() -> None:
    assert crossed(MAP, (_at(1)[0], "another kernel"), _at(16)) is None
    assert crossed(MAP, (MatmulSize(1, 4097, 3), _at(1)[1]), _at(16)) is None
    assert crossed(MAP, _at(1), _at(16, 4096, 4096)) is None
    assert differing(GATE, replace(GATE, dtype="fp16")) is None


@pytest.mark.parametrize(
    "text", ["", "8192", "8192x768", "0x1x1", "axbxc", "1x2x3x4", "1x1x99999999"]
)
def test_a_size_that_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text, GATE)


@pytest.mark.parametrize(
    ("point", "load"),
    [
        (MatmulSize(8, 768, 768), 16),
        (MatmulSize(7, 768, 768), 16),  # M is no size along memory
        (MatmulSize(7, 768, 768, "nt"), 2),
        (MatmulSize(1, 768, 768, "nt"), 16),  # one row is a vector
        (MatmulSize(8, 50257, 768), 2),
        (MatmulSize(8, 768, 766), 4),
        (MatmulSize(8, 764, 768, dtype="tf32"), 16),
        (MatmulSize(8, 768, 768, dtype="fp8"), 16),
    ],
)
def test_the_widest_load(point: MatmulSize, load: int) -> None:
    assert (point.load_bytes, point.aligned) == (load, load == 16)


def test_flops_and_bytes() -> None:
    assert GATE.flops == 38_654_705_664
    assert GATE.bytes == 2 * (8192 * 768 + 3072 * 768 + 8192 * 3072)
    assert MatmulSize(2, 3, 5, dtype="fp8").bytes == 2 * 5 + 3 * 5 + 2 * 2 * 3
