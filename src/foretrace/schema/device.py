"""What a GPU can do at most: `Device`, the declaration each file of `devices/` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """Dense peaks by data type in FLOP/s (`bf16`, `fp16`, `tf32`, `fp32`, `fp64`, `fp8`, `int8`,
    `fp4`) and bandwidth.

    `fp32` is the CUDA-core (or vector) rate; tensor-core float32 is `tf32`. Sparse rates are never
    used. `names` are lower-case words of the name a trace carries; all of one entry must occur for
    the device to match. `memory_bytes` is the nominal size, which tells cards apart where the name
    does not.
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
