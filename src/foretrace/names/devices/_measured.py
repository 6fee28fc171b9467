"""What `foretrace roofs` measured on this machine: preferred to the datasheet.

One file per device, in `$FORETRACE_ROOFS` or in the user's configuration folder. A file that cannot
be read costs one line on stderr.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.base.files import write_bytes
from foretrace.base.notices import warn
from foretrace.schema.device import SCHEMA, Device, MeasuredRates, MeasuredRoofs

SHIPPED = Path(__file__).with_name("measured")  # of cards that were measured for the package
_LARGEST = 1 << 20  # bytes: such a file has about ten thousand
_ENCODER = msgspec.json.Encoder()


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


def save(roofs: MeasuredRoofs, place: Path) -> None:
    """Write a device's file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(place, msgspec.json.format(_ENCODER.encode(roofs), indent=1) + b"\n")


def load(path: Path) -> MeasuredRoofs | None:
    """The figures in a file; None without a file that can be read."""
    try:
        if path.stat().st_size > _LARGEST:
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


def place_of(device: str) -> Path | None:
    """Where the file of a device belongs on this machine."""
    place = folder()
    return None if place is None else place / file_name(device)


def named(name: str) -> MeasuredRoofs:
    """Roofs by file, by a device's name or a part of it; no name: the newest of this machine."""
    if not name:
        return _newest()
    path = Path(name)
    if path.suffix == ".json" or path.is_file():
        found = load(path)
        if found is None:
            raise UsageError(f"{name}: no roofs there: write some with `foretrace roofs -o {name}`")
        return found
    wanted = file_name(name).removesuffix(".json")
    files = [
        file for place in (folder(), SHIPPED) if place for file in sorted(place.glob("*.json"))
    ]
    for file in files:
        if wanted and wanted in file.stem and (found := load(file)):
            return found
    known = ", ".join(dict.fromkeys(file.stem for file in files)) or "none are there"
    raise UsageError(f"no roofs of {name!r}: measure them with `foretrace roofs`, or show {known}")


def _newest() -> MeasuredRoofs:
    place = folder()
    files = sorted(place.glob("*.json"), key=lambda file: file.stat().st_mtime) if place else []
    found = next((roofs for file in reversed(files) if (roofs := load(file))), None)
    if found is None:
        raise UsageError(
            "nothing was measured on this machine yet: run `foretrace roofs`, or --show h200"
        )
    return found


def own(device: str) -> MeasuredRoofs | None:
    """What was measured on this machine for a device of this name."""
    place = place_of(device)
    return None if place is None else _loaded(place)


def shipped(device: str) -> MeasuredRoofs | None:
    """What was measured on a card of this name for the package."""
    return _loaded(SHIPPED / file_name(device))


@cache
def _loaded(path: Path) -> MeasuredRoofs | None:
    return load(path)


def forget() -> None:
    """Read the files again when they are next needed."""
    _loaded.cache_clear()


def preferred(device: Device) -> Device:
    """The device with what was measured on it: on this machine, else for the package."""
    found = own(device.name) or _loaded(SHIPPED / file_name(device.name))
    return device if found is None else replace(device, measured=rates(found, device))


def rates(found: MeasuredRoofs, device: Device) -> MeasuredRates:
    """The three roofs: memory, L2 and arithmetic."""
    cache_bytes = device.cache_bytes or device.l2_bytes or 0
    memory, cached = found.memory_gbps(cache_bytes), found.cache_gbps(cache_bytes)
    when = found.environment.get("measured", "")[:10]
    return MeasuredRates(
        _per_second(_fastest(found.units_tflops, found.tflops), 1e12),
        None if not memory else memory * 1e9,
        None if not cached else cached * 1e9,
        f"{found.command}, {when}" if when else found.command,
    )


def _fastest(units: Mapping[str, float], matmuls: Mapping[str, float]) -> dict[str, float]:
    """The units' rates; a library's matmuls alone are no roof, as another kernel may be faster."""
    return {name: max(rate, matmuls.get(name, 0.0)) for name, rate in units.items()}


def _per_second(values: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in values.items() if value}


def stamp() -> str:
    """What changes when a file does: overviews that are kept depend on it."""
    place = folder()
    try:
        files = sorted(place.glob("*.json")) if place else []
        return repr([(file.name, file.stat().st_mtime_ns) for file in files]) if files else ""
    except OSError:
        return ""
