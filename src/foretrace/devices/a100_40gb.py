"""NVIDIA A100 40GB, SXM4 and PCIe: both have the same peaks and the same HBM2."""

from __future__ import annotations

from foretrace.schema.device import Device

# PG509-200 is the board number that some clusters report instead of the product name.
DEVICE = Device(
    name="NVIDIA A100 40GB",
    arch="sm_80",
    names=(("a100", "40gb"), ("a100", "pg509", "200")),
    peak_flops={
        "bf16": 312.0e12,
        "fp16": 312.0e12,
        "tf32": 156.0e12,
        "fp32": 19.5e12,
        "fp64": 9.7e12,
        "fp64_matrix": 19.5e12,
        "int8": 624.0e12,
    },
    bytes_per_s=1555e9,
    l2_bytes=40 * 2**20,
    sms=108,
    source=(
        "NVIDIA A100 Tensor Core GPU Architecture white paper (2020), table 1; NVIDIA A100 "
        "datasheet (2020)"
    ),
    memory_bytes=40 * 2**30,
)
