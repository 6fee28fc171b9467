"""NVIDIA L4: Ada in 72 W."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA L4",
    arch="sm_89",
    names=(("l4",),),
    peak_flops={
        "bf16": 121.0e12,
        "fp16": 121.0e12,
        "tf32": 60.0e12,
        "fp32": 30.3e12,
        "fp8": 242.5e12,
        "int8": 242.5e12,
    },
    bytes_per_s=300e9,
    l2_bytes=48 * 2**20,
    sms=58,
    source=(
        "NVIDIA L4 Tensor Core GPU datasheet (2023); its tensor rates are quoted with sparsity "
        "and are halved here"
    ),
    memory_bytes=24 * 2**30,
)
