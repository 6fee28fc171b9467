"""The noise in exact numbers, and what is compared: regions, steps or whole traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare.traces import made, steps
from corpus.builder import TraceBuilder
from foretrace.base.errors import UsageError
from foretrace.compare import compare
from foretrace.compare.measure import Sample, change, measured, sample


def test_a_cold_first_step_does_not_widen_the_noise() -> None:
    """Three repeats, one far off: the two that agree decide."""
    found = sample([446_278, 291_063, 281_276], tick=32)
    assert found.median == 291_063
    assert found.spread == pytest.approx(9_787 * 1.4826 * 1.495)


def test_noise_is_never_below_a_tick() -> None:
    assert sample([2_688, 2_688, 2_688], tick=32) == Sample(2_688, 32)
    # one tick apart is no change
    assert measured(Sample(2_688, 32), Sample(2_656, 32)).beyond is False


def test_one_repeat_has_no_noise_and_no_verdict() -> None:
    found = measured(sample([100], 1), sample([200, 201, 202], 1))
    assert (found.ratio, found.noise, found.beyond) == (2.01, None, None)


def test_a_repeat_without_a_time_makes_the_quantity_unknown() -> None:
    assert sample([100, None, 100], 1) == Sample(None, None)
    assert measured(Sample(None, None), Sample(5, 1)) == change(None, 5, None)


@pytest.mark.parametrize(
    ("a", "b", "noise", "beyond"),
    [
        (100, 112, 0.10, True),
        (112, 100, 0.10, True),
        (100, 110, 0.10, False),
        (100, 100, 0.0, False),
        (0, 5, 0.5, True),
        (5, 0, 0.5, True),
        (0, 0, 0.0, False),
    ],
)
def test_beyond_the_noise_reads_the_same_from_both_ends(
    a: int, b: int, noise: float, beyond: bool
) -> None:
    assert change(a, b, noise).beyond is beyond


def test_a_shared_region_is_the_unit(tmp_path: Path) -> None:
    a, b = (made(tmp_path, steps([5_000] * 3, region="fwd"), name) for name in "ab")
    found = compare(a, b)
    assert (found.unit.kind, found.unit.name, len(found.a.repeats.spans)) == ("region", "fwd", 3)
    assert found.cpu_ns.a == 4_998


def test_other_names_fall_back_to_the_step(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path, steps([5_000] * 3, region="fwd"), "a"),
        made(tmp_path, steps([5_000] * 3, region="kernels_fwd"), "b"),
    )
    found = compare(a, b)
    assert (found.unit.kind, found.cpu_ns.a) == ("step", 5_000)
    assert found.changed == ()


def test_a_region_with_little_of_the_work_is_not_the_unit(tmp_path: Path) -> None:
    def trained(name: str) -> TraceBuilder:
        builder = steps([50_000] * 3, kernels=9)
        for number in range(3):
            at = number * 60_000
            builder.region("Optimizer.step", at + 40_000, 500).op("aten::add_", at + 40_010, 100)
            builder.launch(at + 40_020, 10).kernel("add", at + 41_000, 100)
        return builder

    a, b = (made(tmp_path, trained(name), name) for name in "ab")
    assert compare(a, b).unit.kind == "step"
    assert compare(a, b, region="Optimizer.step").gpu_ns.a == 100


def test_an_unknown_region_is_refused_with_what_there_is(tmp_path: Path) -> None:
    a, b = (made(tmp_path, steps([5_000] * 3, region="fwd"), name) for name in "ab")
    with pytest.raises(UsageError, match="has no region 'bwd'; it has fwd"):
        compare(a, b, region="bwd")


def test_steps_that_launched_nothing_are_left_out(tmp_path: Path) -> None:
    """The last step of a recording is often cut short."""
    a = made(tmp_path, steps([5_000, 5_000]).step(2, 40_000, 100), "a")
    found = compare(a, made(tmp_path, steps([5_000, 5_000]), "b"))
    assert (len(found.a.repeats.spans), found.a.repeats.idle, found.gpu_ns.ratio) == (2, 1, 1.0)


def test_the_typical_repeat_is_the_most_common(tmp_path: Path) -> None:
    builder = steps([5_000] * 4, kernels=1)
    # in the first step only
    builder.op("aten::add", 300, 50).launch(310, 10).kernel("add", 3_000, 100)
    side = compare(made(tmp_path, builder, "a"), made(tmp_path, steps([5_000] * 4), "b")).a
    assert (len(side.kernels), side.repeats.agreeing) == (1, 3)


def test_wall_ends_with_the_later_of_host_and_gpu(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path, steps([5_000] * 2, kernel_ns=1_000), "a"),
        made(tmp_path, steps([5_000] * 2, kernel_ns=8_000), "b"),
    )
    found = compare(a, b)
    assert (found.wall_ns.a, found.wall_ns.b) == (5_000, 9_000)
    assert (found.a.pace.median, found.b.pace.median) == (5_000, 8_000)


def test_a_queue_that_runs_behind_is_not_wall_time(tmp_path: Path) -> None:
    """The host launches three steps of 8 us in 6 us: the GPU takes 8 us for each of them."""
    builder = TraceBuilder()
    for number in range(3):
        builder.step(number, 2_000 * number, 2_000).op("aten::mm", 2_000 * number, 500)
        builder.launch(2_000 * number + 100, 10).kernel("mm", 1_000 + 8_000 * number, 8_000)
    found = compare(made(tmp_path, builder, "a"), made(tmp_path, builder, "b"))
    assert (found.wall_ns.a, found.a.pace.median) == (8_000, 8_000)
