"""What the map says: why a shape gets its kernel, the plane, predictions, boundaries."""

from __future__ import annotations

import polars as pl
import pytest

from foretrace.base.errors import UsageError
from foretrace.names.gemms import table
from foretrace.names.gemms.answers import explain_shape, parse_size, plane
from foretrace.names.gemms.distance import FAR, Nearest
from foretrace.names.gemms.table import Boundary, crossed, differing, point_of
from foretrace.names.gemms.tiling import modelled_us
from foretrace.schema.gemm_point import DTYPES, GemmPoint

MAP = table.named("h200")
NEAREST = Nearest(MAP)
GATE, DOWN = GemmPoint(8192, 3072, 768), GemmPoint(8192, 768, 3072)


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
    answer = explain_shape(MAP, GemmPoint(8190, 3072, 768))
    assert not answer.exact
    assert answer.found.matmul.n == 3072


def test_a_misaligned_size_is_named() -> None:
    why = explain_shape(MAP, GemmPoint(1024, 3072, 766)).why[0]
    assert why.startswith("K = 766: rows begin at multiples of 4 bytes, not of 16.")
    assert "cutlass sm80" in why


def test_a_split_is_explained() -> None:
    why = explain_shape(MAP, GemmPoint(8, 4096, 14336)).why
    assert why[1].startswith("The tiles alone fill 32 of 132 places. K = 14336 is cut into 4 parts")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("size", ["1x128x128", "7x4099x513", "300x5000x60", "20000x16x20000"])
def test_every_shape_has_an_answer(size: str) -> None:
    for dtype in DTYPES:
        point = parse_size(size, dtype)
        made = NEAREST.predict(point)
        assert explain_shape(MAP, point).why, dtype
        assert 0 < made.low_us <= made.us <= made.high_us, dtype


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
        plane(MAP, GATE._replace(dtype="fp8", layout="nn"))


def test_a_measured_matmul_is_not_predicted() -> None:
    made = NEAREST.predict(DOWN)
    assert made.measured
    assert made.short == "nvjet 192x128x64 tn bf16"
    assert made.us == made.low_us == made.high_us == pytest.approx(50.784)
    assert made.nearest[0].octaves == 0


def test_a_prediction_rests_on_its_neighbours() -> None:
    made = NEAREST.predict(GemmPoint(8200, 768, 3072))
    assert not made.measured
    assert not made.inconclusive
    assert made.family == "nvjet"
    assert made.kernel in MAP.frame["kernel"]
    assert 0 < made.agreement <= 1
    assert made.us == pytest.approx(50.8, rel=0.15)


def test_a_far_matmul_is_inconclusive() -> None:
    """The map holds no fp8 matmul whose rows begin elsewhere than at multiples of 16 bytes."""
    made = NEAREST.predict(GemmPoint(1 << 20, 1 << 20, 64))
    assert made.inconclusive
    assert made.nearest[0].octaves > FAR


def test_the_distance_prices_what_changes_the_kernel() -> None:
    def away(point: GemmPoint) -> float:
        return NEAREST.nearest(point, 1)[1][0].item()

    assert away(DOWN) == 0
    assert away(DOWN._replace(m=8192 * 64)) == pytest.approx(5)  # octaves beyond 16384
    vector = GemmPoint(1, 768, 3072)
    assert away(vector._replace(layout="tt")) == 0  # one row has no order


def test_the_model_knows_waves() -> None:
    assert modelled_us(GemmPoint(8192, 768, 3072)) == pytest.approx(50.8, rel=0.3)
    assert modelled_us(GemmPoint(1, 768, 768)) < 5
    assert modelled_us(GemmPoint(4096, 4096, 4095)) > 3 * modelled_us(GemmPoint(4096, 4096, 4096))


def _at(m: int, n: int = 4096, k: int = 14336) -> tuple[GemmPoint, str]:
    point = GemmPoint(m, n, k)
    return point, MAP.frame["kernel"][MAP.rows[point]]


def test_a_boundary_lies_where_the_kernel_changes() -> None:
    assert crossed(MAP, _at(1), _at(16)) == [Boundary(8, 9)]
    assert crossed(MAP, _at(16), _at(1)) == [Boundary(8, 9)]
    assert crossed(MAP, _at(1), _at(8)) == []
    assert crossed(MAP, _at(1), _at(24)) == [Boundary(8, 9), Boundary(16, 17)]


def test_without_the_map_s_kernels_no_boundary_is_stated() -> None:
    assert crossed(MAP, (_at(1)[0], "another kernel"), _at(16)) is None
    assert crossed(MAP, (GemmPoint(1, 4097, 3), _at(1)[1]), _at(16)) is None
    assert crossed(MAP, _at(1), _at(16, 4096, 4096)) is None
    assert differing(GATE, GATE._replace(dtype="fp16")) is None


@pytest.mark.parametrize(
    "text", ["", "8192", "8192x768", "0x1x1", "axbxc", "1x2x3x4", "1x1x99999999"]
)
def test_a_size_that_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)
