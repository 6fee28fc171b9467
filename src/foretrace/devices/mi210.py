"""AMD Instinct MI210: one CDNA 2 die."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="AMD Instinct MI210",
    arch="gfx90a",
    names=(("mi210",),),
    peak_flops={
        "bf16": 181.0e12,
        "fp16": 181.0e12,
        "fp32": 22.6e12,
        "fp32_matrix": 45.3e12,
        "fp64": 22.6e12,
        "fp64_matrix": 45.3e12,
        "int8": 181.0e12,
    },
    bytes_per_s=1638.4e9,
    l2_bytes=8 * 2**20,
    sms=104,
    source="AMD Instinct MI210 accelerator data sheet (2022); AMD CDNA 2 white paper (L2)",
    memory_bytes=64 * 2**30,
)
