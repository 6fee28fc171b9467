"""NVIDIA A100 80GB SXM4."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA A100 80GB SXM4",
    arch="sm_80",
    names=(("a100", "80gb"), ("a100", "pg509", "210")),
    peak_flops={
        "bf16": 312.0e12,
        "fp16": 312.0e12,
        "tf32": 156.0e12,
        "fp32": 19.5e12,
        "fp64": 9.7e12,
        "fp64_matrix": 19.5e12,
        "int8": 624.0e12,
    },
    bytes_per_s=2039e9,
    l2_bytes=40 * 2**20,
    sms=108,
    source="NVIDIA A100 80GB datasheet (2021)",
    memory_bytes=80 * 2**30,
)
