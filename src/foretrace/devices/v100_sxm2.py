"""NVIDIA V100 SXM2: Volta, tensor cores for fp16 alone."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA V100 SXM2",
    arch="sm_70",
    names=(("v100", "sxm2"),),
    peak_flops={
        "fp16": 125.0e12,
        "fp32": 15.7e12,
        "fp64": 7.8e12,
    },
    bytes_per_s=900e9,
    l2_bytes=6 * 2**20,
    sms=80,
    source=(
        "NVIDIA Tesla V100 GPU Architecture white paper WP-08608-001 (2017), table 1; NVIDIA "
        "V100 datasheet (2020)"
    ),
)
