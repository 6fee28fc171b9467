"""AMD Instinct MI250X, one of its two dies."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="AMD Instinct MI250X (one die)",
    arch="gfx90a",
    names=(("mi250x",),),
    peak_flops={
        "bf16": 191.5e12,
        "fp16": 191.5e12,
        "fp32": 23.95e12,
        "fp32_matrix": 47.85e12,
        "fp64": 23.95e12,
        "fp64_matrix": 47.85e12,
        "int8": 191.5e12,
    },
    bytes_per_s=1638.4e9,
    l2_bytes=8 * 2**20,
    sms=110,
    source=(
        "AMD Instinct MI200 series data sheet (2021), half of the MI250X package; AMD CDNA 2 "
        "white paper (L2)"
    ),
    memory_bytes=64 * 2**30,
)
