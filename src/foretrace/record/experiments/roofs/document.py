"""From figures by group and name to the document of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from foretrace.schema.roofs import SCHEMA, BandwidthPoint, LatencyPoint, MeasuredRoofs

Group = Mapping[str, Mapping[str, Any]]
# the value of a figure, by its group
_VALUES = {
    "all_cores": "gbps",
    "shared": "gbps",
    "tensor_cores": "tflops",
    "fma": "tflops",
    "atomics": "gops",
    "launches": "median_us",
    "transfers": "gbps",
    "host": "median_us",
    "gelu_mul": "gbps",
}


def made(
    found: Mapping[str, Group],
    environment: Mapping[str, str],
    *,
    device: str,
    kind: str,
    not_here: Mapping[str, str],
    seconds: float,
    command: str = "foretrace roofs",
) -> MeasuredRoofs:
    """The document; a figure with an `error` is one that was not measured."""
    values = {group: _values(found, group) for group in _VALUES}
    latency = found.get("shared", {}).get("latency", {}).get("load_ns")
    return MeasuredRoofs(
        SCHEMA,
        device,
        kind,
        command,
        dict(environment),
        bandwidth=_bandwidth(found.get("bandwidth", {})),
        latency=_latency(found.get("latency", {})),
        all_cores_gbps=values["all_cores"],
        shared_gbps=values["shared"],
        shared_load_ns=None if latency is None else _rounded(latency),
        tflops=_matmuls(found.get("matmuls", {})),
        units_tflops=values["tensor_cores"] | values["fma"],
        atomics_gops=values["atomics"],
        launch_us=values["launches"],
        transfer_gbps=values["transfers"],
        host_us=values["host"],
        behind_gbps=values["gelu_mul"],
        not_measured=dict(not_here) | dict(_failed(found)),
        seconds=round(seconds, 1),
    )


def _rounded(value: float) -> float:
    """Four digits: the fifth changes from run to run."""
    return float(f"{value:.4g}")


def _values(found: Mapping[str, Group], group: str) -> dict[str, float]:
    key = _VALUES[group]
    return {
        name: _rounded(figure[key])
        for name, figure in found.get(group, {}).items()
        if key in figure
    }


def _bandwidth(group: Group) -> tuple[BandwidthPoint, ...]:
    """`read 65536`, `write 65536` and `copy 65536` make one point."""
    rates: dict[int, dict[str, float]] = {}
    for name, figure in group.items():
        way, size = name.split()
        if "gbps" in figure:
            rates.setdefault(int(size), {})[f"{way}_gbps"] = _rounded(figure["gbps"])
    return tuple(BandwidthPoint(size, **rates[size]) for size in sorted(rates))


def _latency(group: Group) -> tuple[LatencyPoint, ...]:
    found = {int(name): figure["load_ns"] for name, figure in group.items() if "load_ns" in figure}
    return tuple(LatencyPoint(size, _rounded(found[size])) for size in sorted(found))


def _matmuls(group: Group) -> dict[str, float]:
    """The fastest size of each type."""
    best: dict[str, float] = {}
    for name, figure in group.items():
        dtype, rate = name.split()[0], figure.get("tflops")
        if rate is not None:
            best[dtype] = max(best.get(dtype, 0.0), _rounded(rate))
    return best


def _failed(found: Mapping[str, Group]) -> Iterator[tuple[str, str]]:
    for group, figures in found.items():
        for name, figure in figures.items():
            if "error" in figure:
                yield f"{group}: {name}", figure["error"]
