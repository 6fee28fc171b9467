"""NVIDIA H100 SXM5 80GB."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA H100 SXM5",
    arch="sm_90",
    names=(("h100", "80gb", "hbm3"), ("h100", "sxm5"), ("h100", "sxm")),
    peak_flops={
        "bf16": 989.4e12,
        "fp16": 989.4e12,
        "tf32": 494.7e12,
        "fp32": 66.9e12,
        "fp64": 33.5e12,
        "fp64_matrix": 66.9e12,
        "fp8": 1978.9e12,
        "int8": 1978.9e12,
    },
    bytes_per_s=3.35e12,
    l2_bytes=50 * 2**20,
    sms=132,
    source=(
        "NVIDIA H100 Tensor Core GPU Architecture white paper v1.04 (2023), table 2; NVIDIA "
        "H100 datasheet (2023)"
    ),
    memory_bytes=80 * 2**30,
)
