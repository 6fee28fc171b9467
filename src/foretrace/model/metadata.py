"""What the header of a trace says about where it was recorded: GPU, architecture, rank."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import INT64, whole
from foretrace.names import devices
from foretrace.schema.device import Device
from foretrace.schema.ledger import LedgerBuilder

_RANK_IN_NAME = regex(
    r"rank[_-]?(\d{1,9})|[_-]TP-?(\d{1,9})|profile_(\d{1,9})\.json|ranks?_(\d{1,9})", re.IGNORECASE
)
_COORDINATOR = regex(r"\.async_llm\.|coordinator", re.IGNORECASE)


class About(Struct, frozen=True):
    """`device` is the first GPU's name, `arch` its generation as `sm90` or `gfx942`."""

    device: str | None
    arch: str | None
    sms: int | None
    memory_bytes: int | None
    devices: tuple[str, ...]
    rank: int | None
    world_size: int | None
    options: tuple[str, ...]
    versions: dict[str, Any]
    job: str = ""  # the same text in all ranks of a job; empty where nothing is stated


def about(header: dict[str, Any], path: str, ledger: LedgerBuilder) -> About:
    """Read a header; a rank that it should name and does not is noted."""
    listed = header.get("deviceProperties")
    entries = listed if isinstance(listed, list) else []
    found = [entry for entry in entries if isinstance(entry, dict)]
    names = tuple(str(entry.get("name") or "") for entry in found)
    first = found[0] if found else {}
    rank, world = _rank(header, path, ledger)
    options = tuple(
        name
        for name in ("record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops")
        if header.get(name) in (1, "1", True)
    )
    versions: dict[str, Any] = {
        key: header[key]
        for key in ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version")
        if key in header
    }
    return About(
        names[0] or None if names else None,
        _arch(first, amd="hip_runtime_version" in header),
        _int(first.get("numSms")),
        _int(first.get("totalGlobalMem")),
        names,
        rank,
        world,
        options,
        versions,
        _job(header.get("distributedInfo")),
    )


def device_of(about: About) -> Device | None:
    """The table entry of the GPU that a trace was recorded on, or None."""
    if about.device is None and about.sms is None:
        return None
    return devices.find(about.device or "", sms=about.sms, memory_bytes=about.memory_bytes)


def is_coordinator(path: str) -> bool:
    """Serving engines write a trace of their scheduler beside the ranks: it is no rank."""
    return _COORDINATOR.search(path) is not None


def _arch(device: dict[str, Any], *, amd: bool) -> str | None:
    """AMD cards without a name are told by the runtime's version or the width of a wavefront."""
    major, minor = (_int(device.get(key)) for key in ("computeMajor", "computeMinor"))
    name = str(device.get("name", ""))
    if major is None or minor is None:
        return None
    amd = amd or "AMD" in name or "Instinct" in name or device.get("warpSize") == 64
    return f"gfx{major}{minor:x}" if amd else f"sm{major}{minor}"


def _rank(
    header: dict[str, Any], path: str, ledger: LedgerBuilder
) -> tuple[int | None, int | None]:
    """distributedInfo first, the file name second."""
    info = header.get("distributedInfo")
    if isinstance(info, dict):
        rank, world = _int(info.get("rank")), _int(info.get("world_size"))
        if rank is not None:
            return rank, world
        ledger.note("rank_unknown")
        return rank_in_name(path), world
    return rank_in_name(path), None


def _job(info: Any) -> str:
    """What every rank of a job states: the size and the libraries of its default group."""
    if not isinstance(info, dict):
        return ""
    groups = info.get("pg_config")
    first = groups[0] if isinstance(groups, list) and groups else {}
    size = first.get("pg_size") if isinstance(first, dict) else None
    stated = (info.get("world_size"), info.get("backend"), info.get("nccl_version"), size)
    return " ".join(map(str, stated))


def rank_in_name(path: str) -> int | None:
    """The rank that the name of a file states."""
    match = _RANK_IN_NAME.search(path.rsplit("/", 1)[-1])
    return int(next(group for group in match.groups() if group)) if match else None


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return whole(value)
    return value if isinstance(value, int) and value in INT64 else None
