"""Rates, fractions of the roofs, and the word for what binds."""

import pytest

from foretrace import devices
from foretrace.model.costs import position
from foretrace.model.costs.roofline import NEAR, peak_flops
from foretrace.schema.device import Device

PEAKS = {"bf16": 1000e12, "tf32": 500e12, "fp32": 50e12}
ROUND = Device("Round", "sm_90", (("round",),), PEAKS, 5e12, None, 100, "round numbers")
BF16 = "c10::BFloat16"


def test_a_matrix_product_on_an_h200() -> None:
    """The MLP's gate projection: 38.65 GFLOP and 67.6 MB in 56 us."""
    place = position(devices.find("NVIDIA H200"), BF16, 38_654_705_664, 67_633_152, 56_000)
    assert place.tflops == pytest.approx(690.26, abs=0.01)
    assert place.gbps == pytest.approx(1207.7, abs=0.1)
    assert place.intensity == pytest.approx(571.5, abs=0.1)
    assert place.ridge == pytest.approx(206.1, abs=0.1)
    assert place.of_peak_flops == pytest.approx(0.698, abs=0.001)
    assert place.of_peak_bandwidth == pytest.approx(0.252, abs=0.001)
    assert place.bound == "compute"


def test_mul_on_an_h200() -> None:
    place = position(
        devices.find("NVIDIA H200"), BF16, 25_165_824, 150_994_944, 36_700, tensor_core=False
    )
    assert place.of_peak_bandwidth == pytest.approx(0.857, abs=0.001)
    assert place.bound == "memory"
    assert place.why == "86% of the bandwidth"


@pytest.mark.parametrize(
    ("compute", "memory", "bound"),
    [
        (0.8, 0.2, "compute"),
        (0.2, 0.8, "memory"),
        (0.5, 0.4, "mixed"),
        (0.6, 0.3, "compute"),
        (0.1, 0.1, "unknown"),
        (0.0, NEAR, "memory"),
        (NEAR, 0.0, "compute"),
        (0.0, 1.3, "memory"),
    ],
)
def test_the_nearer_roof_binds(compute: float, memory: float, bound: str) -> None:
    micro = 1e-6
    place = position(
        ROUND, BF16, round(compute * 1000e12 * micro), round(memory * 5e12 * micro), 1000
    )
    assert place.bound == bound


def test_cached_data_can_exceed_the_bandwidth_and_says_so() -> None:
    place = position(ROUND, BF16, None, 6_000_000, 1000)
    assert place.of_peak_bandwidth == pytest.approx(1.2)
    assert place.why == "120% of the bandwidth, more than the memory gives: partly from cache"


def test_half_a_cost_still_decides() -> None:
    assert position(ROUND, BF16, None, 4_000_000, 1000).bound == "memory"
    assert position(ROUND, BF16, 800_000_000, None, 1000).bound == "compute"


@pytest.mark.parametrize("dur", [None, 0, -5])
def test_without_time_nothing_is_known(dur: int | None) -> None:
    place = position(ROUND, BF16, 1000, 1000, dur)
    assert (place.tflops, place.gbps, place.of_peak_flops, place.of_peak_bandwidth) == (None,) * 4
    assert place.bound == "unknown"
    assert place.intensity == 1


def test_without_a_device_the_rates_remain() -> None:
    place = position(None, BF16, 2_000_000, 1_000_000, 1000)
    assert (place.tflops, place.gbps, place.intensity) == (2.0, 1000.0, 2.0)
    assert (place.ridge, place.of_peak_flops, place.bound) == (None, None, "unknown")


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
