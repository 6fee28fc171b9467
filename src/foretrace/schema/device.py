"""`Device`: what a GPU can do at most."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class MeasuredRates(Struct, frozen=True):
    """What `foretrace roofs` measured, in FLOP/s and bytes per second; None for what it did not."""

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
