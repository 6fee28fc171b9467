"""Rates, shares of the roofs, the nearest roof, and costs that no GPU could have done."""

import pytest

from foretrace.work import devices
from foretrace.work.costs import Certainty, Work, position
from foretrace.work.costs.limits import impossible, peak_flops
from foretrace.work.devices import Device

PEAKS = {"bf16": 1000e12, "tf32": 500e12, "fp32": 50e12}
# 1 TFLOP/s of bf16 is 0.1% of the roof, and so are 5 GB/s; 1 us moves 5 MB at most
ROUND = Device(
    "Round", "sm_90", (("round",),), PEAKS, 5e12, None, 100, "round numbers", cache_bytes=2_000_000
)
BF16 = "c10::BFloat16"
H200 = next(
    card for card in devices.every() if card.name == "NVIDIA H200"
)  # without what was measured


def test_a_matrix_matmul_on_an_h200() -> None:
    """The MLP's gate projection: 38.65 GFLOP and 67.6 MB in 56 us."""
    place = position(H200, Work(38_654_705_664, 67_633_152, 56_000, BF16))
    assert place.tflops == pytest.approx(690.26, abs=0.01)
    assert place.gbps == pytest.approx(1207.7, abs=0.1)
    assert (place.nearest, place.share) == ("compute", pytest.approx(0.698, abs=0.001))
    assert place.work_ns == pytest.approx(39_069, abs=1)


@pytest.mark.parametrize(
    ("compute", "memory", "nearest", "share"),
    [
        (0.8, 0.2, "compute", 0.8),
        (0.2, 0.8, "memory", 0.8),
        (0.5, 0.4, "compute", 0.5),
        (0.26, 0.1, "compute", 0.26),
        (0.23, 0.1, "compute", 0.23),
        (0.0, 0.01, "memory", 0.01),
        (0.5, 1.3, "l2", None),
    ],
)
def test_the_nearest_roof_has_no_threshold(
    compute: float, memory: float, nearest: str, share: float | None
) -> None:
    work = Work(round(compute * 1e9), round(memory * 5e6), 1000, BF16)
    place = position(ROUND, work)
    assert place.nearest == nearest
    assert place.share == (None if share is None else pytest.approx(share))


def test_bytes_alone_decide_and_few_flops_alone_do_not() -> None:
    assert position(ROUND, Work(None, 4_000_000, 1000, BF16)).nearest == "memory"
    assert position(ROUND, Work(800_000_000, None, 1000, BF16)).nearest == "compute"
    assert position(ROUND, Work(200_000_000, None, 1000, BF16)).nearest == "unknown"


def test_units_that_the_name_does_not_state() -> None:
    """Of float32, an addition is nearer to the memory on any units; a matmul may be on either."""
    assert position(ROUND, Work(1_000_000, 4_000_000, 1000, "float")).nearest == "memory"
    assert position(ROUND, Work(40_000_000, 4_000, 1000, "float")).nearest == "unknown"


@pytest.mark.parametrize("dur", [None, 0, -5])
def test_without_time_nothing_is_known(dur: int | None) -> None:
    place = position(ROUND, Work(1000, 1000, dur, BF16))
    assert (place.tflops, place.gbps, place.nearest) == (None, None, "unknown")
    assert impossible(ROUND, Work(10**15, 10**15, dur, BF16)) == ""


class TestImpossible:
    def test_more_flop_than_the_peak(self) -> None:
        why = "the counted FLOP exceed the GPU's peak rate: no cost"
        assert impossible(ROUND, Work(1_100_000_000, 1, 1000, BF16)) == why
        assert impossible(ROUND, Work(900_000_000, 1, 1000, BF16)) == ""

    def test_without_a_type_the_highest_peak_counts(self) -> None:
        assert impossible(ROUND, Work(900_000_000, 1, 1000)) == ""
        assert impossible(ROUND, Work(1_100_000_000, 1, 1000)) != ""

    @pytest.mark.parametrize(
        ("moved", "certainty", "possible"),
        [
            (5_000_000, Certainty.EXACT, True),
            (6_900_000, Certainty.EXACT, True),  # 2 MB of it can come from the cache
            (6_900_000, Certainty.AT_LEAST, True),
            (6_900_000, Certainty.AT_MOST, False),
            (6_900_000, Certainty.ESTIMATE, False),
            (7_100_000, Certainty.EXACT, False),
        ],
    )
    def test_more_bytes_than_memory_and_cache_give(
        self, moved: int, certainty: Certainty, possible: bool
    ) -> None:
        why = impossible(ROUND, Work(None, moved, 1000, BF16, certainty=certainty))
        assert why == ("" if possible else "the counted bytes exceed the GPU's bandwidth: no cost")

    def test_a_cache_is_not_infinitely_fast(self) -> None:
        assert impossible(ROUND, Work(None, 900_000, 100, BF16)) == ""
        assert impossible(ROUND, Work(None, 1_100_000, 100, BF16)) != ""


class TestPeaks:
    def test_float32_depends_on_the_units(self) -> None:
        assert peak_flops(ROUND, "float", tensor_core=True) == 500e12
        assert peak_flops(ROUND, "float", tensor_core=False) == 50e12
        assert peak_flops(ROUND, "float") is None

    def test_where_both_units_agree_nothing_needs_to_be_known(self) -> None:
        assert peak_flops(devices.find("AMD Instinct MI300X"), "float") == 163.4e12
        assert peak_flops(devices.find("Tesla V100-SXM2-32GB"), "float") == 15.7e12

    def test_amd_matrix_units_take_plain_float32(self) -> None:
        assert peak_flops(devices.find("AMD Instinct MI210"), "float", tensor_core=True) == 45.3e12

    def test_float64(self) -> None:
        h200 = devices.find("NVIDIA H200")
        assert peak_flops(h200, "double", tensor_core=True) == 66.9e12
        assert peak_flops(h200, "double", tensor_core=False) == 33.5e12

    def test_16_bit_types_off_the_matrix_units_run_in_float32(self) -> None:
        assert peak_flops(ROUND, BF16) == 1000e12
        assert peak_flops(ROUND, BF16, tensor_core=False) == 50e12

    def test_short_names_and_missing_types(self) -> None:
        assert peak_flops(ROUND, "bf16") == 1000e12
        assert peak_flops(ROUND, "f32", tensor_core=False) == 50e12
        assert peak_flops(ROUND, "tf32") == 500e12
        assert peak_flops(ROUND, "c10::Float8_e4m3fn") is None
        assert peak_flops(ROUND, "long int") is None
        assert peak_flops(devices.find("Tesla V100-SXM2-32GB"), BF16) is None, "no bfloat16 units"
