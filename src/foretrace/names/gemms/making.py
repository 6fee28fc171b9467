"""Makes a map from what a sweep wrote: rows, roofs, trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.names import devices
from foretrace.names.gemms import build, table
from foretrace.names.gemms.accuracy import accuracy
from foretrace.names.gemms.predict import fitted
from foretrace.schema.device import Device
from foretrace.schema.gemms import DTYPES
from foretrace.schema.roofs import MeasuredRoofs

SWEEP = "foretrace gemms -o"


def make(
    around: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    place: Path,
    heldout: Iterable[Mapping[str, Any]] = (),
    roofs: MeasuredRoofs | None = None,
) -> table.GemmMap:
    """Write a map to `place`; its roofs are measured ones where there are any."""
    name, sms = around["gpu"], int(around["sms"])
    device = devices.find(name, sms=sms)
    if device is None:
        raise UsageError(f"{name}: its peaks are unknown, so matmuls have no roof")
    flops, bytes_per_s = rates(device, roofs)
    facts = table.MapFacts(name, sms, f"{SWEEP} {place.name}", dict(around), flops, bytes_per_s)
    frame = build.frame(rows, sms, flops, bytes_per_s)
    apart = build.frame(heldout, sms, flops, bytes_per_s)
    trees = fitted(frame)
    found = table.GemmMap(place, facts, frame, apart if apart.height else None, trees)
    found.facts = replace(facts, accuracy=accuracy(found))
    table.save(found)
    return found


def rates(device: Device, roofs: MeasuredRoofs | None) -> tuple[dict[str, float], float]:
    """FLOP/s by data type and bytes per second: measured on the units alone, else the datasheet."""
    units = roofs.units_tflops if roofs else {}
    peaks = device.peak_flops
    flops = {
        name: units[name] * 1e12 if name in units else peaks[name]
        for name in DTYPES
        if name in units or name in peaks
    }
    memory = roofs.memory_gbps(device.cache_bytes or 0) if roofs else None
    return flops, memory * 1e9 if memory else device.bytes_per_s
