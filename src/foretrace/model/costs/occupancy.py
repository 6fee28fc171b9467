"""Theoretical occupancy from a kernel's footprint: the share of an SM's warps that fit at once.

The profiler's own figure depends on the grid and is 0 for kernels it has no data for (cuDNN through
`cuLaunchKernelEx`). This one is what the footprint allows when there are enough blocks. High
occupancy hides latency but is not a goal: the fastest attention kernels run at 12.5%.
"""

from __future__ import annotations

from msgspec import Struct

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
    fitting = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": _by_registers(registers, warps),
        "shared memory": _by_shared(shared_bytes, limits),
    }
    least = min(fitting, key=lambda limit: fitting[limit])
    blocks = fitting[least]
    return Residence(blocks, blocks * warps, limits.warps, least) if blocks > 0 else None


def _by_registers(registers: int, warps: int) -> int:
    per_warp = _rounded(max(registers, 1) * WARP, REGISTER_UNIT)
    fitting = REGISTERS_PER_SM // per_warp // WARP_UNIT * WARP_UNIT
    return fitting // warps


def _by_shared(shared_bytes: int, limits: _Limits) -> int:
    per_block = _rounded(shared_bytes + limits.reserved_bytes, limits.shared_unit)
    return limits.shared_bytes // per_block if per_block else limits.blocks


def _rounded(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
