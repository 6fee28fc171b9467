"""AMD Instinct MI300X (SPX mode: the whole package is one device)."""

from __future__ import annotations

from foretrace.schema.device import Device

# Behind the L2 lies a 256 MB Infinity Cache, so effective bandwidth can exceed the HBM figure.
DEVICE = Device(
    name="AMD Instinct MI300X",
    arch="gfx942",
    names=(("mi300x",),),
    peak_flops={
        "bf16": 1307.4e12,
        "fp16": 1307.4e12,
        "tf32": 653.7e12,
        "fp32": 163.4e12,
        "fp32_matrix": 163.4e12,
        "fp64": 81.7e12,
        "fp64_matrix": 163.4e12,
        "fp8": 2614.9e12,
        "int8": 2614.9e12,
    },
    bytes_per_s=5.3e12,
    l2_bytes=32 * 2**20,
    sms=304,
    source=(
        "AMD Instinct MI300X accelerator data sheet (2023); AMD CDNA 3 white paper (L2 of "
        "eight dies)"
    ),
    memory_bytes=192 * 2**30,
)
