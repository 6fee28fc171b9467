"""Where a kernel lies under the roofline of its GPU: its rates, and the roof nearest to it.

The nearest roof is the one of which it reaches the larger share: the time that its FLOP take at the
peak rate, or its bytes at the memory's bandwidth, divided by its own time. A trace does not always
say which units a matmul ran on (TF32 or plain float32). The lowest peak then decides whether the
arithmetic can be nearer than the memory at all; if it can, neither roof is the nearest for certain.

Bytes are what the op must move. A kernel that finds them in the L2 cache moves them faster than the
memory could: its roof is then `l2`, whose rate no vendor states. Where `foretrace roofs` measured
the GPU, its rates are the roofs, that of L2 included.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from foretrace.schema.device import Device
from foretrace.schema.traffic import Certainty

# How many times the memory's bandwidth a cache may give before the cost is wrong instead. In the
# H200's traces (torch 2.11) exact costs reach 1.14 times.
CACHE_GAIN = 2.0
# From this share on a kernel is at its roof: in the same traces matmuls of 8 GFLOP and more reach
# 0.60 to 0.87 of the peak rate, vectorized element-by-element kernels of 50 MB and more reach 0.63
# to 0.98 of the bandwidth.
AT_ROOF = 0.7
# A kernel counts as faster than a measured bandwidth from here on: repeated measurements of one
# card differ by less.
MEASURED_NOISE = 1.03

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
    roofs = with_measured(device)
    peak = peak_flops(roofs, work.dtype, work.tensor_core)
    lowest = peak or roofs.peak_flops.get("fp32") or min(roofs.peak_flops.values())
    compute = (work.flops or 0) / lowest * 1e9
    memory = (work.bytes or 0) / roofs.bytes_per_s * 1e9
    if memory > work.ns * (MEASURED_NOISE if roofs is not device else 1):
        return _cached(device, work, tflops)
    if work.bytes is not None and memory >= compute:
        return Roofline(tflops, gbps, "memory", min(memory / work.ns, 1.0), memory)
    if peak is None or (work.bytes is None and compute < AT_ROOF * work.ns):
        return Roofline(tflops, gbps)
    return Roofline(tflops, gbps, "compute", min(compute / work.ns, 1.0), compute)


def memory_rate(device: Device) -> float:
    """What HBM gives, in bytes per second: as measured, else as the datasheet says."""
    measured = device.measured
    return (measured.bytes_per_s if measured else None) or device.bytes_per_s


def cache_rate(device: Device | None) -> float | None:
    """What L2 gives, in bytes per second; None where it was not measured."""
    return device.measured.l2_bytes_per_s if device and device.measured else None


def traffic_ns(device: Device, moved: int, working_set: int) -> float:
    """The least time to move these bytes: at the roof of L2 where it holds the working set."""
    rate = cache_rate(device) if working_set <= (device.cache_bytes or 0) else None
    return moved / (rate or memory_rate(device)) * 1e9


def with_measured(device: Device) -> Device:
    """The device with the rates that were measured on it instead of those of its datasheet."""
    measured = device.measured
    if measured is None:
        return device
    return replace(
        device,
        peak_flops={**device.peak_flops, **measured.flops},
        bytes_per_s=memory_rate(device),
    )


def _cached(device: Device, work: Work, tflops: float | None) -> Roofline:
    """A kernel whose bytes came from L2 in part; its share is known where that roof is."""
    rate = cache_rate(device)
    if not rate or not work.bytes or not work.ns:
        return Roofline(tflops, None, "l2")
    needed = work.bytes / rate * 1e9
    return Roofline(tflops, work.bytes / work.ns, "l2", min(needed / work.ns, 1.0), needed)


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
    exact = work.certainty not in (Certainty.AT_MOST, Certainty.ESTIMATE)
    cached = min(device.cache_bytes or 0, most * (CACHE_GAIN - 1)) if exact else 0
    if (work.bytes or 0) > most + cached:
        return "the counted bytes exceed the GPU's bandwidth: no cost"
    return ""


def type_key(dtype: str) -> str:
    """An element type as `Device.peak_flops` names it: `c10::BFloat16` -> `bf16`."""
    return _KEYS.get(dtype, dtype)


def peak_flops(
    device: Device | None, dtype: str | None, tensor_core: bool | None = None
) -> float | None:
    """The dense peak for `dtype`; None if unknown, or if it depends on an unknown `tensor_core`."""
    name = peak_name(device, dtype, tensor_core)
    return device.peak_flops.get(name) if device and name else None


def peak_name(
    device: Device | None, dtype: str | None, tensor_core: bool | None = None
) -> str | None:
    """Under which name `Device.peak_flops` has that peak."""
    if device is None or dtype is None:
        return None
    key, peaks = type_key(dtype), device.peak_flops
    if key in ("fp32", "fp64"):
        matrix = next(
            (name for name in (f"{key}_matrix", "tf32" * (key == "fp32")) if peaks.get(name)), key
        )
        if tensor_core is None:
            return key if peaks.get(matrix) == peaks.get(key) else None
        return matrix if tensor_core else key
    return "fp32" if key in ("bf16", "fp16") and tensor_core is False else key


class RoofShare(Struct, frozen=True):
    """What a kernel reaches of one roof: a peak by its precision, `HBM` or `L2`."""

    roof: str
    percent: float


def roof_shares(device: Device | None, precision: str | None, rates: Roofline) -> list[RoofShare]:
    """The share of every roof whose rate is known, that of the arithmetic first."""
    if device is None:
        return []
    roofs, peak = with_measured(device), None
    if precision:
        peak = roofs.peak_flops.get(precision)
    pairs = (
        (precision or "", rates.tflops, peak and peak / 1e12),
        ("HBM", rates.gbps, roofs.bytes_per_s / 1e9),
        ("L2", rates.gbps, (cache_rate(device) or 0) / 1e9),
    )
    return [
        RoofShare(name, min(100 * rate / roof, 100.0))
        for name, rate, roof in pairs
        if rate is not None and roof
    ]
