"""NVIDIA H100 PCIe 80GB: fewer SMs, a lower clock and HBM2e."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA H100 PCIe",
    arch="sm_90",
    names=(("h100", "pcie"), ("h100", "hbm2e")),
    peak_flops={
        "bf16": 756.0e12,
        "fp16": 756.0e12,
        "tf32": 378.0e12,
        "fp32": 51.2e12,
        "fp64": 25.6e12,
        "fp64_matrix": 51.2e12,
        "fp8": 1513.0e12,
        "int8": 1513.0e12,
    },
    bytes_per_s=2.0e12,
    l2_bytes=50 * 2**20,
    sms=114,
    source=(
        "NVIDIA H100 Tensor Core GPU Architecture white paper v1.04 (2023), table 2; NVIDIA "
        "H100 datasheet (2023)"
    ),
    memory_bytes=80 * 2**30,
)
