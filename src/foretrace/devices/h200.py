"""NVIDIA H200 SXM: the H100 SXM with 141 GB of faster HBM3e."""

from __future__ import annotations

from foretrace.schema.device import Device

DEVICE = Device(
    name="NVIDIA H200",
    arch="sm_90",
    names=(("h200",),),
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
    bytes_per_s=4.8e12,
    l2_bytes=50 * 2**20,
    sms=132,
    source="NVIDIA H200 Tensor Core GPU datasheet (2024); same GH100 die as the H100 SXM5",
    memory_bytes=141 * 2**30,
)
