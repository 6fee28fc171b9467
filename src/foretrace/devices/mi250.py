"""AMD Instinct MI250, one of its two dies."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="AMD Instinct MI250 (one die)",
    arch="gfx90a",
    names=(("mi250",),),
    peak_flops={
        "bf16": 181.05e12,
        "fp16": 181.05e12,
        "fp32": 22.65e12,
        "fp32_matrix": 45.25e12,
        "fp64": 22.65e12,
        "fp64_matrix": 45.25e12,
        "int8": 181.05e12,
    },
    bytes_per_s=1638.4e9,
    l2_bytes=8 * 2**20,
    sms=104,
    source=(
        "AMD Instinct MI200 series data sheet (2021), half of the MI250 package; AMD CDNA 2 "
        "white paper (L2)"
    ),
    memory_bytes=64 * 2**30,
)
