"""What a GPU or CPU can do at most: by its datasheet, and as `foretrace lab roofs` measured it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec import Struct


class MeasuredRates(Struct, frozen=True):
    """What `foretrace lab roofs` measured, in FLOP/s and bytes/s; None for what it did not."""

    flops: Mapping[str, float]
    bytes_per_s: float | None
    l2_bytes_per_s: float | None
    source: str


class Device(Struct, frozen=True):
    """Dense peaks by data type in FLOP/s, and bandwidth. `devices/peaks.toml` explains the fields.

    `memory_bytes` is the nominal size; it tells cards apart where the name does not. `cache_bytes`
    is the largest cache in front of the memory, the L2 on most cards. `measured` is preferred to
    the datasheet where a kernel is placed under its roofs; what is possible at all is decided by
    the datasheet.
    """

    name: str
    arch: str
    names: tuple[tuple[str, ...], ...]
    peak_flops: Mapping[str, float]
    bytes_per_s: float
    l2_bytes: int | None
    sms: int
    source: str
    memory_bytes: int | None = None
    cache_bytes: int | None = None
    measured: MeasuredRates | None = None


SCHEMA = 1


class BandwidthPoint(Struct, frozen=True):
    """A working set, and how fast it is read, written and copied, in 10^9 bytes per second.

    A copy moves each byte twice, and both count. None is what could not be measured.
    """

    working_set_bytes: int
    read_gbps: float | None = None
    write_gbps: float | None = None
    copy_gbps: float | None = None

    def best_gbps(self) -> float:
        """The fastest of the three; 0 without any."""
        return max(rate or 0.0 for rate in (self.read_gbps, self.write_gbps, self.copy_gbps))


class LatencyPoint(Struct, frozen=True):
    """A working set, and how long one load takes that depends on the load before."""

    working_set_bytes: int
    load_ns: float


class MeasuredRoofs(Struct, frozen=True, omit_defaults=True):
    """The figures of one machine.

    `bandwidth` is that of a whole GPU, or of one core of a CPU; `all_cores_gbps` is that of memory
    with all cores. `tflops` is that of large matmuls by data type, `units_tflops` that of the
    units alone: tensor cores that wait for no memory, vector registers of a CPU. `shared`,
    `atomics_gops`, `launch_us`, `transfer_gbps` and `host_us` are by what was measured. What could
    not be measured is in `not_measured`, with the reason.
    """

    schema: int
    device: str
    kind: str
    command: str
    environment: dict[str, str]
    bandwidth: tuple[BandwidthPoint, ...] = ()
    latency: tuple[LatencyPoint, ...] = ()
    all_cores_gbps: dict[str, float] = {}
    shared_gbps: dict[str, float] = {}
    shared_load_ns: float | None = None
    tflops: dict[str, float] = {}
    units_tflops: dict[str, float] = {}
    atomics_gops: dict[str, float] = {}
    launch_us: dict[str, float] = {}
    transfer_gbps: dict[str, float] = {}
    host_us: dict[str, float] = {}
    behind_gbps: dict[str, float] = {}
    not_measured: dict[str, str] = {}
    seconds: float = 0.0

    def memory_gbps(self, cache_bytes: int) -> float | None:
        """The fastest rate of working sets that no cache holds: of sixteen times its size, and
        more, it holds at most 6%.
        """
        return self._fastest(16 * cache_bytes, inf)

    def cache_gbps(self, cache_bytes: int) -> float | None:
        """The fastest rate of working sets of a quarter to a half of a cache.

        An H200's L2 is two halves, and holds twice what all multiprocessors read. Of smaller sets
        the multiprocessors give a part themselves.
        """
        return self._fastest(cache_bytes / 4, cache_bytes / 2)

    def _fastest(self, least: float, most: float) -> float | None:
        chosen = (each for each in self.bandwidth if least <= each.working_set_bytes <= most)
        return max((each.best_gbps() for each in chosen), default=None)
