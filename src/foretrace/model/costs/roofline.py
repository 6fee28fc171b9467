"""Where a kernel lies under the roofline of its GPU: how near to the peak rate and to the
bandwidth, and which of them limits it.

A kernel that comes near neither is `unknown`: its time goes into something that FLOP and bytes do
not show (too little work to fill the GPU, latency, scattered access).

Both fractions use what the op must do. A kernel whose data is still in the cache moves it faster
than the memory could, so `of_peak_bandwidth` may exceed 1; a kernel that moves its data several
times shows too low a figure.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.device import Device

# On an H200 (torch 2.11, the recorded traces, medians per shape): matrix products of 8 GFLOP and
# more reach 0.60 to 0.87 of the compute roof; vectorized element-by-element kernels of 10 MB and
# more reach 0.55 to 1.08 of the bandwidth, strided ones 0.24 to 0.51; kernels that move less than 1
# MB stay below 0.12 of either.
NEAR = 0.25
# Near both roofs, the higher fraction binds unless the other is within this factor: in the same
# traces the two fractions of a product lie 2.2 apart or more at 8 GFLOP, and 1.1 or less at 2 GFLOP
# (4096x1024x256: 0.33 and 0.35).
CLOSE = 1.5

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
    """Rates that a kernel reached and the roofs above it; None for what is not known.

    `intensity` and `ridge` are FLOP per byte: below the ridge the bandwidth is the lower roof.
    `bound` is compute, memory, mixed or unknown, and `why` says what decided it.
    """

    tflops: float | None
    gbps: float | None
    intensity: float | None
    ridge: float | None
    of_peak_flops: float | None
    of_peak_bandwidth: float | None
    bound: str
    why: str = ""


def position(
    device: Device | None,
    dtype: str | None,
    flops: int | None,
    moved_bytes: int | None,
    dur_ns: float | None,
    *,
    tensor_core: bool | None = None,
) -> Roofline:
    """The place of a kernel that computed `flops` and moved `moved_bytes` in `dur_ns`.

    `dtype` is the type of its operands, as a trace or a kernel name writes it. `tensor_core` says
    whether it ran on matrix units, which only the kernel's name states: float32 and float64 have a
    peak for either case, and with None the peak is unknown where the two differ. 16-bit types count
    as matrix work unless it is False; off the matrix units PyTorch computes them in float32.
    """
    seconds = dur_ns / 1e9 if dur_ns and dur_ns > 0 else None
    rate = flops / seconds if flops is not None and seconds else None
    traffic = moved_bytes / seconds if moved_bytes is not None and seconds else None
    top = peak_flops(device, dtype, tensor_core)
    of_flops = rate / top if rate is not None and top else None
    of_bandwidth = traffic / device.bytes_per_s if traffic is not None and device else None
    bound, why = _bound(of_flops, of_bandwidth)
    return Roofline(
        None if rate is None else rate / 1e12,
        None if traffic is None else traffic / 1e9,
        flops / moved_bytes if flops is not None and moved_bytes else None,
        top / device.bytes_per_s if top and device else None,
        of_flops,
        of_bandwidth,
        bound,
        why,
    )


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


def _bound(of_flops: float | None, of_bandwidth: float | None) -> tuple[str, str]:
    if of_flops is None and of_bandwidth is None:
        return "unknown", "the cost, the time or the device is not known"
    compute, memory = of_flops or 0.0, of_bandwidth or 0.0
    if max(compute, memory) < NEAR:
        return "unknown", f"below {NEAR:.0%} of both roofs: neither explains its time"
    if min(compute, memory) >= NEAR and max(compute, memory) < CLOSE * min(compute, memory):
        return "mixed", "near both roofs"
    if compute > memory:
        return "compute", f"{compute:.0%} of the peak rate"
    cached = ", more than the memory gives: partly from cache" if memory > 1 else ""
    return "memory", f"{memory:.0%} of the bandwidth{cached}"
