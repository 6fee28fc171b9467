"""NVIDIA B200 (HGX, 1000 W)."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA B200",
    arch="sm_100",
    names=(("b200",),),
    peak_flops={
        "bf16": 2250.0e12,
        "fp16": 2250.0e12,
        "tf32": 1100.0e12,
        "fp32": 75.0e12,
        "fp64": 37.0e12,
        "fp64_matrix": 37.0e12,
        "fp8": 4500.0e12,
        "int8": 4500.0e12,
        "fp4": 9000.0e12,
    },
    bytes_per_s=7.7e12,
    l2_bytes=126 * 2**20,
    sms=148,
    source="NVIDIA Blackwell datasheet (2025), HGX B200, dense; NVIDIA Blackwell Tuning Guide (L2)",
    memory_bytes=180 * 2**30,
)
