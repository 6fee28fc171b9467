"""What is compared: regions, steps, whole traces; and which repeat stands for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.compare.traces import made, steps
from corpus.builder import TraceBuilder
from foretrace.analyze.compare import compare
from foretrace.base.errors import UsageError


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


def test_without_steps_the_whole_trace(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 500).launch(100, 10).kernel("sgemm", 1_000, 700)
    found = compare(made(tmp_path, builder, "a"), made(tmp_path, steps([5_000] * 3), "b"))
    assert found.unit.kind == "trace"
    assert (found.gpu_ns.a, found.cpu_ns.a, found.wall_ns.a) == (700, 500, 1_700)


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
