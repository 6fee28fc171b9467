"""Where a kernel lies under the roofline of its GPU: its rates, and the roof nearest to it.

The nearest roof is the one of which it reaches the larger share: the time that its FLOP take at the
peak rate, or its bytes at the memory's bandwidth, divided by its own time. A trace does not always
say which units a product ran on (TF32 or plain float32). The lowest peak then decides whether the
arithmetic can be nearer than the memory at all; if it can, neither roof is the nearest for certain.

Bytes are what the op must move. A kernel that finds them in the L2 cache moves them faster than the
memory could: its roof is then `l2`, whose rate no vendor states.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.cost import Certainty
from foretrace.schema.device import Device

# How many times the memory's bandwidth a cache may give before the cost is wrong instead. In the
# H200's traces (torch 2.11) exact costs reach 1.14 times.
CACHE_GAIN = 2.0
# From this share on a kernel is at its roof: in the same traces products of 8 GFLOP and more reach
# 0.60 to 0.87 of the peak rate, vectorized element-by-element kernels of 50 MB and more reach 0.63
# to 0.98 of the bandwidth.
AT_ROOF = 0.7

# Element types as traces and kernel names write them, by the key of `Device.peak_flops`.
_KEYS = {
    "c10::BFloat16": "bf16", "bfloat16": "bf16",
    "c10::Half": "fp16", "float16": "fp16", "f16": "fp16",
    "float": "fp32", "float32": "fp32", "f32": "fp32",
    "double": "fp64", "float64": "fp64", "f64": "fp64",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8", "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8", "e4m3": "fp8", "e5m2": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4", "e2m1": "fp4",
    "signed char": "int8", "unsigned char": "int8", "i8": "int8",
}  # fmt: skip


class Roofline(Struct, frozen=True):
    """Rates that a kernel reached, and shares of the roofs above it; None for what is not known.

    `nearest` is compute, memory, l2 or unknown, and `share` is of that roof, 0 to 1. `work_ns` is
    the time that its work takes at the roof.
    """

    tflops: float | None = None
    gbps: float | None = None
    nearest: str = "unknown"
    share: float | None = None
    work_ns: float | None = None


class Work(Struct, frozen=True):
    """What a kernel computed and moved in `ns`; None for what is not known.

    `dtype` is the type of its operands, as a trace or a kernel name writes it. `tensor_core` says
    whether it ran on matrix units, which only the kernel's name states: float32 and float64 have a
    peak for either case, and with None the peak is unknown where the two differ. 16-bit types count
    as matrix work unless it is False; off the matrix units PyTorch computes them in float32.
    """

    flops: int | None
    bytes: int | None
    ns: float | None
    dtype: str | None = None
    tensor_core: bool | None = None
    certainty: str = Certainty.EXACT


def position(device: Device | None, work: Work) -> Roofline:
    """The place of a kernel under the roofs of its GPU."""
    if not work.ns or work.ns <= 0:
        return Roofline()
    tflops = None if work.flops is None else work.flops / work.ns / 1e3
    gbps = None if work.bytes is None else work.bytes / work.ns
    if device is None:
        return Roofline(tflops, gbps)
    peak = peak_flops(device, work.dtype, work.tensor_core)
    lowest = peak or device.peak_flops.get("fp32") or min(device.peak_flops.values())
    compute = (work.flops or 0) / lowest * 1e9
    memory = (work.bytes or 0) / device.bytes_per_s * 1e9
    if memory > work.ns:
        return Roofline(tflops, None, "l2")
    if work.bytes is not None and memory >= compute:
        return Roofline(tflops, gbps, "memory", memory / work.ns, memory)
    if peak is None or (work.bytes is None and compute < AT_ROOF * work.ns):
        return Roofline(tflops, gbps)
    return Roofline(tflops, gbps, "compute", compute / work.ns, compute)


def impossible(device: Device | None, work: Work) -> str:
    """Why no kernel of this time can have this cost; "" if it can.

    Bytes beyond the bandwidth are possible where the cache can hold what exceeds it. An estimate
    beyond the bandwidth is wrong: it counts what is not moved.
    """
    if device is None or not work.ns or work.ns <= 0:
        return ""
    peak = peak_flops(device, work.dtype, work.tensor_core) or max(device.peak_flops.values())
    if (work.flops or 0) > peak * work.ns / 1e9:
        return "the counted FLOP exceed the GPU's peak rate: no cost"
    most = device.bytes_per_s * work.ns / 1e9
    exact = work.certainty != Certainty.ESTIMATE
    cached = min(device.cache_bytes or 0, most * (CACHE_GAIN - 1)) if exact else 0
    if (work.bytes or 0) > most + cached:
        return "the counted bytes exceed the GPU's bandwidth: no cost"
    return ""


def peak_flops(
    device: Device | None, dtype: str | None, tensor_core: bool | None = None
) -> float | None:
    """The dense peak for `dtype`; None if unknown, or if it depends on an unknown `tensor_core`."""
    if device is None or dtype is None:
        return None
    key, peaks = _KEYS.get(dtype, dtype), device.peak_flops
    if key in ("fp32", "fp64"):
        tf32 = peaks.get("tf32") if key == "fp32" else None
        matrix = peaks.get(f"{key}_matrix") or tf32 or peaks.get(key)
        if tensor_core is None:
            return matrix if matrix == peaks.get(key) else None
        return matrix if tensor_core else peaks.get(key)
    if key in ("bf16", "fp16") and tensor_core is False:
        return peaks.get("fp32")
    return peaks.get(key)
