"""NVIDIA L40S."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA L40S",
    arch="sm_89",
    names=(("l40s",),),
    peak_flops={
        "bf16": 362.05e12,
        "fp16": 362.05e12,
        "tf32": 183.0e12,
        "fp32": 91.6e12,
        "fp8": 733.0e12,
        "int8": 733.0e12,
    },
    bytes_per_s=864e9,
    l2_bytes=96 * 2**20,
    sms=142,
    source="NVIDIA L40S GPU datasheet (2023), dense column",
    memory_bytes=48 * 2**30,
)
