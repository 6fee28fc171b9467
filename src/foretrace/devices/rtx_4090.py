"""NVIDIA GeForce RTX 4090."""

from __future__ import annotations

from foretrace.schema.device import Device

# GeForce tensor cores run at half rate when they accumulate in FP32, as PyTorch asks; the
# FP16-accumulate rates on the box are twice these.
DEVICE = Device(
    name="NVIDIA GeForce RTX 4090",
    arch="sm_89",
    names=(("rtx", "4090"),),
    peak_flops={
        "bf16": 165.2e12,
        "fp16": 165.2e12,
        "tf32": 82.6e12,
        "fp32": 82.6e12,
        "fp8": 330.3e12,
        "int8": 660.6e12,
    },
    bytes_per_s=1008e9,
    l2_bytes=72 * 2**20,
    sms=128,
    source=(
        "NVIDIA Ada GPU Architecture white paper v2.02 (2023), appendix A, dense, FP32 accumulate"
    ),
    memory_bytes=24 * 2**30,
)
