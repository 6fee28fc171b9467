"""What the map says: why a shape gets its kernel, rules, the plane, guesses, boundaries."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from foretrace.base.errors import UsageError
from foretrace.names.gemms import table, trees
from foretrace.names.gemms.boundaries import Boundary, crossed, differing
from foretrace.names.gemms.document import parse_size
from foretrace.names.gemms.entries import point_of
from foretrace.names.gemms.heat import plane
from foretrace.names.gemms.near import near
from foretrace.names.gemms.predict import Predictor
from foretrace.names.gemms.rules import rules
from foretrace.names.gemms.waves import modelled_us
from foretrace.schema.gemms import GemmPoint

MAP = table.named("h200")
GATE, DOWN = GemmPoint(8192, 3072, 768), GemmPoint(8192, 768, 3072)


def test_down_gets_the_tile_that_fills_the_card() -> None:
    answer = near(MAP, DOWN)
    assert answer.exact
    assert answer.found.tile == "192x128"
    tiles, other = answer.why[0], answer.why[1]
    assert "4 x 64 = 256 tiles on 132 multiprocessors: 1.94 waves" in tiles
    assert other.startswith("256x128 would need 1.45 waves, so 2 whole ones, with 27.3% empty")
    assert [each.tile for each in answer.tiles if each.chosen] == ["192x128"]


def test_gate_and_up_get_the_larger_of_two_tiles_that_fill_it() -> None:
    answer = near(MAP, GATE)
    assert answer.found.tile == "256x128"
    assert "192x128 would fill the card as well. 256x128 is larger" in " ".join(answer.why)


def test_down_is_faster_since_its_tiles_end_less_often() -> None:
    first, work, ends, control = near(MAP, DOWN).against_partner
    assert first.startswith("8192x3072x768 has as many FLOP (38.7 GFLOP)")
    assert "2 tiles of 192x128 with 48 steps along K, there 6 tiles of 256x128 with 12" in work
    assert work.endswith("the same arithmetic.")
    assert "2 against 6" in ends
    assert control.startswith("At M = 16384 both run on one kernel (nvjet 256x128x64 tn bf16)")


def test_a_shape_that_is_not_there_gets_the_nearest() -> None:
    answer = near(MAP, GemmPoint(8190, 3072, 768))
    assert not answer.exact
    assert answer.found.matmul.n == 3072


def test_a_misaligned_size_is_named() -> None:
    why = near(MAP, GemmPoint(1024, 3072, 766)).why[0]
    assert why.startswith("K = 766: rows begin at multiples of 4 bytes, not of 16.")
    assert "cutlass sm80" in why


def test_a_split_is_explained() -> None:
    why = near(MAP, GemmPoint(8, 4096, 14336)).why
    assert why[1].startswith("The tiles alone fill 32 of 132 places. K = 14336 is cut into 4 parts")


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "tf32", "fp32", "fp8"])
@pytest.mark.parametrize("size", ["1x128x128", "7x4099x513", "300x5000x60", "20000x16x20000"])
def test_every_shape_has_an_answer(dtype: str, size: str) -> None:
    point = parse_size(size, dtype)
    assert near(MAP, point).why
    assert Predictor(MAP).guess(point).us > 0


def test_rules_are_counted() -> None:
    """The first rule again, by a loop over matmuls."""
    found = {rule.name: rule for rule in rules(MAP)}
    narrow = [
        (point, at) for point, at in MAP.rows.items() if point.dtype in ("bf16", "fp16", "fp8")
    ]
    family = MAP.frame["family"].to_list()
    obey = sum((family[at] == "nvjet") == point.aligned for point, at in narrow)
    alignment = found["alignment"]
    assert (alignment.obey, alignment.of) == (obey, len(narrow))
    assert len(alignment.exceptions) == alignment.of - alignment.obey > 0
    assert all(each.startswith("1x") for each in alignment.exceptions)  # one row, an activation
    assert {rule.name for rule in found.values() if rule.obey < 0.8 * rule.of} == set()
    assert found["memset"].obey == found["memset"].of


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


def test_a_measured_matmul_is_not_guessed() -> None:
    found = Predictor(MAP).guess(DOWN)
    assert found.measured
    assert found.short == "nvjet 192x128x64 tn bf16"
    assert found.us == pytest.approx(50.784)
    assert found.neighbours[0].octaves == 0


def test_a_guess_rests_on_its_neighbours() -> None:
    found = Predictor(MAP).guess(GemmPoint(8200, 768, 3072))
    assert not found.measured
    assert found.family == "nvjet"
    assert found.kernel in MAP.frame["kernel"]
    assert 0 < found.agreement <= 1


def test_the_model_knows_waves() -> None:
    assert modelled_us(GemmPoint(8192, 768, 3072)) == pytest.approx(50.8, rel=0.3)
    assert modelled_us(GemmPoint(1, 768, 768)) < 5
    assert modelled_us(GemmPoint(4096, 4096, 4095)) > 3 * modelled_us(GemmPoint(4096, 4096, 4096))


def test_trees_learn_a_step() -> None:
    columns = np.linspace(0, 1, 200).reshape(-1, 1).astype(np.float32)
    wanted = np.where(columns[:, 0] > 0.5, 0.3, -0.3)
    how = trees.Fitting(trees=80, depth=2, columns=1.0)
    nodes = trees.fit(columns, wanted, how)
    assert np.abs(trees.evaluate(nodes, columns) - wanted).max() < 0.05


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
