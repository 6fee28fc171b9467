"""The roof of each level of a GPU: measured on it where it was, else from its datasheet."""

from __future__ import annotations

from foretrace.names import devices
from foretrace.schema.device import Device
from foretrace.schema.documents.counters import KnownRoof


def ceilings(device: Device | None) -> list[KnownRoof]:
    """HBM, L2, shared memory, and tensor cores by type; what nobody stated is not in it."""
    if device is None:
        return []
    found = devices.measured_roofs(device)
    cache = device.cache_bytes or device.l2_bytes or 0
    sheet = "datasheet"
    rates: dict[str, tuple[float | None, str]] = {"hbm": (device.bytes_per_s, sheet)}
    rates |= {f"tensor {kind}": (rate, sheet) for kind, rate in device.peak_flops.items()}
    if found is not None:
        said = _source(found.command, found.environment.get("measured", ""))
        flops = {
            kind: max(found.tflops.get(kind, 0.0), found.units_tflops.get(kind, 0.0))
            for kind in (*found.tflops, *found.units_tflops)
        }
        measured = {
            "hbm": _scaled(found.memory_gbps(cache), 1e9),
            "l2": _scaled(found.cache_gbps(cache), 1e9),
            "shared": _scaled(max(found.shared_gbps.values(), default=None), 1e9),
            **{f"tensor {kind}": _scaled(rate, 1e12) for kind, rate in flops.items()},
        }
        rates |= {level: (rate, said) for level, rate in measured.items() if rate}
    return [KnownRoof(level, rate, source) for level, (rate, source) in rates.items() if rate]


def _scaled(value: float | None, factor: float) -> float | None:
    return value * factor if value else None


def _source(command: str, when: str) -> str:
    return f"{command}, {when[:10]}" if when else command
