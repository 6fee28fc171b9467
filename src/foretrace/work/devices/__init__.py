"""What each GPU can do at most: dense peaks, bandwidth and cache, from `peaks.toml`.

Every card is one table of that file, with its datasheet. Other packages add theirs through the
entry point group `foretrace.devices`. What `foretrace lab roofs` measured on a card is preferred to
the datasheet: one file per device, in `$FORETRACE_ROOFS` or in the user's configuration folder. A
file that cannot be read costs one line on stderr.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.base.errors import UsageError, warn
from foretrace.base.files import write_bytes


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


PEAKS = Path(__file__).with_name("peaks.toml")
# A partition or a cut-down sibling carries the big card's name and one of these words, but not the
# card's peaks.
OTHER_CARD = frozenset({"mig", "laptop", "nvl", "vgpu", "d"})

SHIPPED = Path(__file__).with_name("measured")  # of cards that were measured for the package


@cache
def every() -> tuple[Device, ...]:
    """All known devices, in the order of the file."""
    cards = tomllib.loads(PEAKS.read_text(encoding="utf-8"))
    found = [_device(name, card) for name, card in cards.items()]
    return (*found, *plugins.entries(Device, "foretrace.devices"))


def _device(name: str, card: dict[str, Any]) -> Device:
    l2, memory = card.get("l2_mib"), card.get("memory_gib")
    cache = card.get("cache_mib", l2)
    return Device(
        name,
        card["arch"],
        tuple(tuple(entry.split()) for entry in card["names"]),
        # through text: 989.4 * 1e12 is not the float nearest to 989.4e12
        {key: float(f"{rate}e12") for key, rate in card["tflops"].items()},
        float(f"{card['gb_per_s']}e9"),
        None if l2 is None else l2 * 2**20,
        card["sms"],
        card["source"],
        None if memory is None else memory * 2**30,
        None if cache is None else cache * 2**20,
    )


def find(
    name: str, *, arch: str | None = None, sms: int | None = None, memory_bytes: int | None = None
) -> Device | None:
    """The device that a trace means by `name`, or None if that is not certain.

    The card with most words in the name wins (`A100 80GB PCIe` over `A100 80GB`). `arch` (`sm_90`,
    `gfx942`), `sms` and `memory_bytes` must agree where they are given: a card with fewer SMs than
    its name promises is a slice of one. A trace without a name, or with one that fits several cards
    (`NVIDIA H100`), is matched by SM count and memory together, and only if one device fits.
    """
    words = frozenset(re.split(r"[^a-z0-9]+", name.lower())) - {""}
    if words & OTHER_CARD:
        return None
    scores = {
        device.name: max(
            (len(entry) for entry in device.names if words.issuperset(entry)), default=0
        )
        for device in every()
    }
    best = max(scores.values())
    candidates = tuple(device for device in every() if best and scores[device.name] == best)
    if not candidates and sms and memory_bytes:
        # those whose model, the first word of their names, is among the words
        candidates = tuple(
            device
            for device in every()
            if not words or any(entry[0] in words for entry in device.names)
        )
    fits = [device for device in candidates if _agrees(device, arch, sms, memory_bytes)]
    return _with_measured(fits[0]) if len(fits) == 1 else None


def _agrees(device: Device, arch: str | None, sms: int | None, memory_bytes: int | None) -> bool:
    if (arch and arch != device.arch) or (sms and sms != device.sms):
        return False
    if not memory_bytes or not device.memory_bytes:
        return True
    # What a trace reports lies a little below the nominal size: from 0.01% (MI300X) to 1.5% (A100,
    # 39.4 of 40 GiB).
    return abs(memory_bytes / device.memory_bytes - 1) <= 0.05


def folder() -> Path | None:
    """Where the files lie; None for a user who has no home."""
    chosen = os.environ.get("FORETRACE_ROOFS")
    if chosen:
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:  # no HOME, and no such user
        return None
    return home / "foretrace" / "roofs"


def file_name(device: str) -> str:
    """`NVIDIA H200` -> `nvidia-h200.json`."""
    return "-".join(re.findall(r"[a-z0-9]+", device.lower())) + ".json"


def load(path: Path) -> MeasuredRoofs | None:
    """The figures in a file; None without a file that can be read."""
    try:
        if path.stat().st_size > (1 << 20):  # bytes: such a file has about ten thousand
            raise ValueError("it is too large")
        found = msgspec.json.decode(path.read_bytes(), type=MeasuredRoofs)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:  # msgspec's errors are ValueErrors
        warn(f"{path}: these roofs cannot be read and are not used: {problem}")
        return None
    if found.schema != SCHEMA:
        warn(f"{path}: these roofs have schema {found.schema} and are not used; measure again")
        return None
    return found


def shown_roofs(name: str) -> MeasuredRoofs:
    """Roofs by file, by a device's name or a part of it; no name: the newest of this machine."""
    home, files = folder(), [Path(name)]
    if not files[0].is_file():
        own = home.glob("*.json") if home else ()
        files = sorted(own, key=lambda file: file.stat().st_mtime, reverse=True)
        files += sorted(SHIPPED.glob("*.json")) if name else []
        wanted = file_name(name).removesuffix(".json")
        files = [file for file in files if wanted in file.stem]
    if found := next(filter(None, map(load, files)), None):
        return found
    raise UsageError(
        f"no roofs of {name or 'this machine'}: measure them with `foretrace lab roofs`, or give "
        "--show h200"
    )


@cache
def _loaded(path: Path) -> MeasuredRoofs | None:
    return load(path)


def save_roofs(roofs: MeasuredRoofs, output: Path | None = None) -> Path | None:
    """Write what was measured to `output`, or where `find` looks; None without such a place."""
    home = folder()
    place = output or (home / file_name(roofs.device) if home else None)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, msgspec.json.format(msgspec.json.encode(roofs), indent=1) + b"\n")
        _loaded.cache_clear()
    return place


def measured_roofs(device: Device) -> MeasuredRoofs | None:
    """What was measured on this machine, or else on such a card for the package."""
    places = (folder(), SHIPPED)
    found = (_loaded(place / file_name(device.name)) for place in places if place)
    return next(filter(None, found), None)


def _with_measured(device: Device) -> Device:
    """The device with its three measured roofs: memory, L2 and arithmetic."""
    found = measured_roofs(device)
    if found is None:
        return device
    cache_bytes = device.cache_bytes or device.l2_bytes or 0
    memory, cached = found.memory_gbps(cache_bytes), found.cache_gbps(cache_bytes)
    when = found.environment.get("measured", "")[:10]
    # a library's matmuls alone are no roof, as another kernel may be faster
    units = {
        name: max(rate, found.tflops.get(name, 0.0)) for name, rate in found.units_tflops.items()
    }
    rates = MeasuredRates(
        {name: rate * 1e12 for name, rate in units.items() if rate},
        None if not memory else memory * 1e9,
        None if not cached else cached * 1e9,
        f"{found.command}, {when}" if when else found.command,
    )
    return replace(device, measured=rates)


def measured_stamp() -> str:
    """What changes when a file does: overviews that are kept depend on it."""
    place = folder()
    try:
        files = sorted(place.glob("*.json")) if place else []
        return repr([(file.name, file.stat().st_mtime_ns) for file in files]) if files else ""
    except OSError:
        return ""
