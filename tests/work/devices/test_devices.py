"""Every card of `peaks.toml` keeps the rules, and a trace's name finds its card or nothing."""

import subprocess
import sys

import msgspec
import pytest

from foretrace.work import devices
from foretrace.work.devices import Device
from sweep import looped

EVERY = devices.every()
DENSE_FP16_FLOP_PER_SM_AND_CLOCK = {
    "sm_70": 1024, "sm_80": 2048, "sm_89": 1024, "sm_90": 4096, "sm_100": 8192,
    "gfx90a": 1024, "gfx942": 2048,
}  # fmt: skip
KEYS = {"bf16", "fp16", "tf32", "fp32", "fp32_matrix", "fp64", "fp64_matrix", "fp8", "int8", "fp4"}

OTHER_CARDS = [
    "", "AMD Radeon Graphics", "NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H100 NVL",
    "NVIDIA H200 NVL", "NVIDIA L40", "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "Tesla V100S-PCIE-32GB",
    "AMD Instinct MI300A", "AMD Instinct MI250X/MI250",
]  # fmt: skip


def test_the_cards_that_traces_come_from_are_known() -> None:
    known = """
        NVIDIA H200, NVIDIA H100 SXM5, NVIDIA H100 PCIe, NVIDIA B200, NVIDIA A100 40GB, NVIDIA L4,
        NVIDIA A100 80GB SXM4, NVIDIA A100 80GB PCIe, NVIDIA V100 SXM2, NVIDIA V100 PCIe,
        NVIDIA L40S, NVIDIA GeForce RTX 4090, AMD Instinct MI210, AMD Instinct MI250 (one die),
        AMD Instinct MI250X (one die), AMD Instinct MI300X"""
    assert {" ".join(name.split()) for name in known.split(",")} <= {each.name for each in EVERY}


def test_the_numbers_are_those_of_the_datasheet() -> None:
    h200 = devices.find("NVIDIA H200")
    assert h200 is not None
    assert h200.peak_flops["bf16"] == 989.4e12
    assert h200.bytes_per_s == 4.8e12
    assert (h200.l2_bytes, h200.memory_bytes, h200.sms) == (60 * 2**20, 141 * 2**30, 132)


def _datasheet(found: Device | None) -> Device | None:
    """Without what was measured."""
    return found and msgspec.structs.replace(found, measured=None)


def test_names_are_unique() -> None:
    assert len({device.name for device in EVERY}) == len(EVERY)


@pytest.mark.parametrize("device", EVERY, ids=lambda device: device.name)
class TestContract:
    def test_it_finds_itself(self, device: Device) -> None:
        assert _datasheet(devices.find(device.name)) == device
        found = devices.find(
            device.name, arch=device.arch, sms=device.sms, memory_bytes=device.memory_bytes
        )
        assert _datasheet(found) == device

    def test_its_words_are_words(self, device: Device) -> None:
        assert device.names
        assert all(
            word == word.lower() and word.isalnum() for entry in device.names for word in entry
        )

    def test_its_units_are_plausible(self, device: Device) -> None:
        assert set(device.peak_flops) <= KEYS
        assert {"fp16", "fp32"} <= set(device.peak_flops)
        assert all(1e12 <= rate <= 2e16 for rate in device.peak_flops.values())
        assert 1e11 <= device.bytes_per_s <= 1e13
        assert device.l2_bytes is None or 2**22 <= device.l2_bytes <= 2**28
        assert 16 <= device.sms <= 512
        assert device.memory_bytes is None or 2**33 <= device.memory_bytes <= 2**39

    def test_narrower_types_are_not_slower(self, device: Device) -> None:
        rates = device.peak_flops
        order = [
            rates[key] for key in ("fp64", "fp32", "tf32", "bf16", "fp8", "fp4") if key in rates
        ]
        assert order == sorted(order)
        assert rates.get("bf16", rates["fp16"]) == rates["fp16"]

    def test_its_ridge_point_is_sane(self, device: Device) -> None:
        assert 50 <= device.peak_flops["fp16"] / device.bytes_per_s <= 500, "FLOP per byte"

    def test_no_sparse_rate_slipped_in(self, device: Device) -> None:
        """A sparse rate would imply a clock of 2.8 GHz and more, which none of these cards has."""
        clock = (
            device.peak_flops["fp16"] / device.sms / DENSE_FP16_FLOP_PER_SM_AND_CLOCK[device.arch]
        )
        assert 1.2e9 <= clock <= 2.6e9

    def test_it_names_its_source(self, device: Device) -> None:
        assert any(
            word in device.source.lower() for word in ("datasheet", "data sheet", "white paper")
        )


@looped(
    ("name", "found"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA A100-PG509-200", "NVIDIA A100 40GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB SXM4"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2"),
        ("Tesla V100-PCIE-16GB", "NVIDIA V100 PCIe"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
        ("AMD Instinct MI210", "AMD Instinct MI210"),
    ],
)
def test_a_name_finds_its_card(name: str, found: str) -> None:
    device = devices.find(name)
    assert device is not None
    assert device.name == found


@looped("name", OTHER_CARDS)
def test_a_name_that_leaves_doubt_finds_nothing(name: str) -> None:
    assert devices.find(name) is None


def test_sm_count_settles_what_the_name_leaves_open() -> None:
    name = "AMD Instinct MI250X/MI250"
    assert [found.name for sms in (110, 104) if (found := devices.find(name, sms=sms))] == [
        "AMD Instinct MI250X (one die)",
        "AMD Instinct MI250 (one die)",
    ]


def test_a_slice_of_a_card_is_not_the_card() -> None:
    assert devices.find("AMD Instinct MI300X", sms=38) is None
    assert devices.find("NVIDIA H100 80GB HBM3", sms=132, memory_bytes=10 * 2**30) is None
    assert devices.find("NVIDIA H100 80GB HBM3", arch="sm_80") is None


def test_a_nameless_device_is_found_by_its_measures_or_not_at_all() -> None:
    mi300x = devices.find("", sms=304, memory_bytes=206_141_652_992)
    assert mi300x is not None
    assert mi300x.name == "AMD Instinct MI300X"
    assert devices.find("", sms=304) is None
    assert devices.find("", sms=104, memory_bytes=68_702_699_520) is None, (
        "an MI210 and one die of an MI250 both fit"
    )


def test_it_imports_without_the_heavy_packages() -> None:
    code = (
        "import sys, foretrace.work.devices as d; d.every(); print({'numpy', 'polars', 'torch'} & "
        "set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
