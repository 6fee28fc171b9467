"""NVIDIA A100 80GB PCIe: the SXM4 card with slightly slower HBM2e."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA A100 80GB PCIe",
    arch="sm_80",
    names=(("a100", "80gb", "pcie"),),
    peak_flops={
        "bf16": 312.0e12,
        "fp16": 312.0e12,
        "tf32": 156.0e12,
        "fp32": 19.5e12,
        "fp64": 9.7e12,
        "fp64_matrix": 19.5e12,
        "int8": 624.0e12,
    },
    bytes_per_s=1935e9,
    l2_bytes=40 * 2**20,
    sms=108,
    source="NVIDIA A100 80GB PCIe datasheet (2021)",
    memory_bytes=80 * 2**30,
)
