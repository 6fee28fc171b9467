"""The place of a kernel under the roofs of its GPU, and what holds it back from the nearest one.

`docs/costs.md` has the bounds and the causes. A trace does not always say which units a matmul ran
on (TF32 or plain float32). The lowest peak then decides whether the arithmetic can be nearer than
the memory at all; if it can, neither roof is the nearest for certain. Where `foretrace lab roofs`
measured the GPU, its rates are the roofs, that of L2 included.

Each cause must be able to explain the distance alone: SMs without a block and an empty last wave
count from 30% of the GPU on. Few warps are no cause for matmuls and attention, whose fastest
kernels run at 12% occupancy. Grids of AMD's traces count threads or blocks, depending on how the
kernel was launched, and are no evidence.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.work.devices import Device
from foretrace.work.kernel import CacheUse, Certainty

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
        # from L2 in part; its share is known where that roof is
        rate = cache_rate(device)
        if not rate or not work.bytes:
            return Roofline(tflops, None, "l2")
        needed = work.bytes / rate * 1e9
        return Roofline(tflops, gbps, "l2", min(needed / work.ns, 1.0), needed)
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
    # An element type as `Device.peak_flops` names it: `c10::BFloat16` -> `bf16`.
    key, peaks = _KEYS.get(dtype, dtype), device.peak_flops
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
    roofs = with_measured(device)
    pairs = (
        (precision or "", rates.tflops, roofs.peak_flops.get(precision or "", 0.0) / 1e12),
        ("HBM", rates.gbps, roofs.bytes_per_s / 1e9),
        ("L2", rates.gbps, (cache_rate(device) or 0) / 1e9),
    )
    return [
        RoofShare(name, min(100 * rate / roof, 100.0))
        for name, rate, roof in pairs
        if rate is not None and roof
    ]


WARP = 32
REGISTERS_PER_SM = 65_536
REGISTER_UNIT = 256  # registers are allocated per warp in this unit
WARP_UNIT = 4  # warps come in fours, one per scheduler


class _Limits(Struct, frozen=True):
    """Per SM, from the technical specifications in the CUDA programming guide."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    reserved_bytes: int  # the driver reserves shared memory per block since sm_80


LIMITS: dict[str, _Limits] = {
    "sm_70": _Limits(64, 32, 96 * 1024, 256, 0),
    "sm_75": _Limits(32, 16, 64 * 1024, 256, 0),
    "sm_80": _Limits(64, 32, 164 * 1024, 128, 1024),
    "sm_86": _Limits(48, 16, 100 * 1024, 128, 1024),
    "sm_89": _Limits(48, 24, 100 * 1024, 128, 1024),
    "sm_90": _Limits(64, 32, 228 * 1024, 128, 1024),
    "sm_100": _Limits(64, 32, 228 * 1024, 128, 1024),
}


class Residence(Struct, frozen=True):
    """How many blocks of a footprint an SM holds at once, and what allows no more."""

    blocks: int
    warps: int
    of_warps: int
    limited_by: str

    @property
    def share(self) -> float:
        """The occupancy, 0 to 1."""
        return self.warps / self.of_warps


def occupancy(registers: int, shared_bytes: int, threads: int, arch: str) -> float | None:
    """The share of an SM's warps that blocks of this footprint can fill, 0 to 1; see `residence`"""
    found = residence(registers, shared_bytes, threads, arch)
    return None if found is None else found.share


def residence(registers: int, shared_bytes: int, threads: int, arch: str) -> Residence | None:
    """What an SM holds of blocks of this footprint.

    `registers` per thread, `shared_bytes` static and dynamic per block, `threads` per block. None
    for an architecture without known limits (AMD among them), for an empty block, and for a block
    that does not fit at all.
    """
    limits = LIMITS.get(arch)
    if limits is None or threads <= 0 or registers < 0 or shared_bytes < 0:
        return None
    warps = -(-threads // WARP)
    per_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    shared = shared_bytes + limits.reserved_bytes
    per_block = -(-shared // limits.shared_unit) * limits.shared_unit
    fitting = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": REGISTERS_PER_SM // per_warp // WARP_UNIT * WARP_UNIT // warps,
        "shared memory": limits.shared_bytes // per_block if per_block else limits.blocks,
    }
    least = min(fitting, key=lambda limit: fitting[limit])
    blocks = fitting[least]
    return Residence(blocks, blocks * warps, limits.warps, least) if blocks > 0 else None


# On an H200 (torch 2.11, the recorded traces): no kernel with less work than 1.25 us at the roof
# reaches 70% of it, and kernels with next to none (0.25 us) take 1 to 4.5 us in all.
SMALL_NS, TINY_NS, SETUP_NS = 1250, 250, 5000
# Bytes that may be more, at less than this share of the bandwidth: arithmetic that is not counted
# may take the time as well.
FAINT = 0.1
# What an almost empty kernel takes in most cases (the median of 160 is 1.5 us): a kernel that takes
# no longer beside its work at the roof spends the difference on starting and ending.
START_NS = 1500
# Matmuls fill and drain a pipeline of tiles as well: those with less than 17 us of work at the
# roof take 3 to 8 us beside it, and none of them reaches 70%. The same tiles reach 87% of compute
# with 310 us of work.
MATMUL_START_NS = 8000
# Up to here a kernel is short whatever it moved: enough for costs that are lower bounds.
SHORT_NS = 3000
# The same on AMD's cards: on an MI300X an almost empty kernel takes 4.2 to 6.2 us, the medians of
# five traces.
AMD_SHORT_NS = 6000
# To keep 4.8 TB/s busy for 0.7 us of latency takes about 25 KB in flight per SM; 12 of 64 warps
# with 16 bytes a thread hold 6 KB. In the same traces 16 warps still reach 68% of the bandwidth.
FEW_WARPS = 0.2

_ROOFS = {"compute": "compute", "memory": "HBM"}
_ABOUT = {
    Certainty.AT_LEAST: "at least ",
    Certainty.AT_MOST: "at most ",
    Certainty.ESTIMATE: "about ",
}
NOT_IN_TRACE = "cause not in the trace"


class Footprint(Struct, frozen=True):
    """How a kernel was launched; 0 for what is not recorded. `blocks` is of its largest grid."""

    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared_bytes: int = 0


class Traits(Struct, frozen=True):
    """What the role, the name and the operands of a kernel say about how it works."""

    role: str = ""
    strided: bool = False
    broadcast: bool = False
    cast: bool = False
    split_k: bool = False
    bus_gbps: float | None = None  # of a collective, where the trace has its message
    cached: CacheUse | None = None  # of a kernel that is faster than HBM

    @property
    def start_ns(self) -> int:
        """What it takes beside its work at the roof."""
        return MATMUL_START_NS if self.role in ("gemm", "gemv") else START_NS


def limit(
    device: Device | None, work: Work, place: Roofline, launch: Footprint, traits: Traits
) -> tuple[str, str]:
    """The bound of a kernel, and a phrase for what limits it; "" where no cost is known."""
    if traits.role == "comms":
        reached = "" if traits.bus_gbps is None else f"{traits.bus_gbps:.3g} GB/s on the bus: "
        return "comms", f"{reached}the links, or ranks that wait"
    if work.flops is None and work.bytes is None:
        return "unknown", ""
    if device is None:
        return "unknown", "the GPU's peaks are not known"
    if not work.ns:
        return "unknown", "its time is not recorded"
    if place.nearest == "l2":
        # Faster than HBM: from L2 where the trace shows how, and else in doubt.
        if traits.cached is not None and traits.cached.verdict == "doubted":
            large = f"its {bytes_text(traits.cached.too_large)} exceed L2"
            why = large if traits.cached.too_large else "no input is known to be in L2"
            return "unknown", f"faster than HBM, and {why}: cost in doubt"
        share = "" if place.share is None else f" ({math.floor(100 * place.share)}% of its roof)"
        return "l2", _from_cache(traits.cached) + share
    if place.share is None or place.work_ns is None:
        # Without the bytes, or without the peak of its units, no roof is the nearest for certain
        if work.bytes is None:
            return "unknown", "far from compute, bytes not known"
        return "compute", "the peak of its units is not known"
    if place.share >= AT_ROOF:
        share, _, roof = _reached(place, work).rpartition(" of ")
        return place.nearest, f"{share} of the {roof} roof"
    starved = _starved(device, work, place, launch, traits)
    if starved:
        return "latency", f"latency: {starved}"
    if work.flops is None and work.certainty != Certainty.EXACT and place.share < FAINT:
        return "unknown", f"{_reached(place, work)}, FLOP not known"
    return place.nearest, _below(device, work, place, launch, traits)


def _from_cache(cached: CacheUse | None) -> str:
    if cached is None or cached.verdict == "unknown":
        return "from L2, faster than HBM"
    if cached.verdict == "result":
        return f"faster than HBM: its {bytes_text(cached.written_bytes)} result fits in L2"
    first = cached.inputs[0]
    sure = "from L2" if cached.verdict == "certain" else "likely from L2"
    who = first.op.replace("aten::", "") or first.kernel
    return f"{sure}: {who} wrote {bytes_text(first.bytes)} {time_text(first.before_ns)} before"


def _about(place: Roofline, work: Work) -> str:
    """A lower bound is one of bytes: the FLOP beside it are exact."""
    if place.nearest == "compute" and work.certainty == Certainty.AT_LEAST:
        return ""
    return _ABOUT.get(Certainty(work.certainty), "")


def _reached(place: Roofline, work: Work) -> str:
    """Rounded down, so that 69.9% is not taken for a kernel at its roof."""
    whole, roof = math.floor(round(100 * (place.share or 0), 6)), _ROOFS[place.nearest]
    about = _about(place, work)
    if whole:
        return f"{about}{whole}% of {roof}"
    bound = work.certainty == Certainty.AT_LEAST and bool(about)
    return f"{'a lower bound ' if bound else ''}under 1% of {roof}"


def _starved(device: Device, work: Work, place: Roofline, launch: Footprint, traits: Traits) -> str:
    """Too little work, or too few blocks, to keep the GPU busy."""
    ns, needed = work.ns or 0, place.work_ns or 0
    few = 0 < launch.blocks < AT_ROOF * device.sms and device.arch.startswith("sm_")
    setup = max(SETUP_NS, traits.start_ns)
    brief = SHORT_NS if device.arch.startswith("sm_") else AMD_SHORT_NS
    short = ns - needed <= setup if work.certainty == Certainty.EXACT else ns <= brief
    if few and (needed >= TINY_NS or not short):
        return f"{plural(launch.blocks, 'block')} on {device.sms} SMs"
    if (needed < TINY_NS and work.certainty == Certainty.EXACT) or (needed < SMALL_NS and short):
        if work.certainty != Certainty.EXACT:  # the bytes may be more, the time is not
            return f"only {time_text(work.ns)} long"
        if place.nearest == "memory":
            return f"only {bytes_text(work.bytes)}"
        return f"{time_text(place.work_ns)} of work at the roof"
    return ""


def _below(device: Device, work: Work, place: Roofline, launch: Footprint, traits: Traits) -> str:
    beside = (work.ns or 0) - (place.work_ns or 0)
    short = "" if beside > traits.start_ns else f"only {time_text(work.ns)} long"
    cause = short or _cause(device, launch, traits)
    reached = _reached(place, work)
    if cause:
        return f"{reached}: {cause}"
    return reached if _about(place, work) else f"{reached}, {NOT_IN_TRACE}"


def _cause(device: Device, launch: Footprint, traits: Traits) -> str:
    held = residence(launch.registers, launch.shared_bytes, launch.threads, device.arch)
    matmuls = traits.role in ("gemm", "gemv", "conv", "attention")
    return (
        _last_wave(device, launch, held)
        or ("strided operand" if traits.strided else "")
        or ("broadcast operand" if traits.broadcast else "")
        or ("unvectorized cast" if traits.cast else "")
        or ("" if matmuls else _few_warps(device, launch, held))
        or ("split K" if traits.split_k else "")
    )


def _last_wave(device: Device, launch: Footprint, held: Residence | None) -> str:
    """Blocks run in waves of as many as the SMs hold; an almost empty one takes as long."""
    if held is None or not launch.blocks or not launch.registers:
        return ""
    waves = launch.blocks / (device.sms * held.blocks)
    if waves <= 1 or waves / math.ceil(waves) >= AT_ROOF:
        return ""
    return f"last wave {waves % 1:.0%} full"


def _few_warps(device: Device, launch: Footprint, held: Residence | None) -> str:
    if held is None or not launch.registers:
        return ""
    if held.share <= FEW_WARPS:
        return f"{held.warps} of {held.of_warps} warps ({held.limited_by})"
    warps = launch.blocks * -(-launch.threads // WARP) / device.sms
    few = 0 < warps <= FEW_WARPS * held.of_warps
    return f"{warps:.0f} of {held.of_warps} warps per SM" if few else ""
