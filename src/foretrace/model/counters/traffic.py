"""From the metrics of a launch to bytes by level and operations of the tensor cores.

`ceilings` are the roofs of each level of a GPU: measured on it where they were, else from its
datasheet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from foretrace.base.patterns import regex
from foretrace.names import devices
from foretrace.schema.device import Device
from foretrace.schema.documents.counters import KnownRoof
from foretrace.schema.traffic import SECTOR, WAVEFRONT

_TENSOR = regex(
    r"sm__ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?src_(?P<type>[a-z]+\d+)(?:_dst_\w+?)?\.sum"
)
_TIMES = ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum")


class LevelTraffic(Struct, frozen=True):
    """Bytes of one launch by level; None for what was not counted.

    `l2` is what the multiprocessors sent to L2 and got from it. `l2_lookups` is all that L2 looked
    up, what passes between its partitions included; `l2_fabric` is that part alone.
    """

    hbm_read: float | None = None
    hbm_written: float | None = None
    l2: float | None = None
    l2_read: float | None = None
    l2_written: float | None = None
    l2_lookups: float | None = None
    l2_fabric: float | None = None
    l1: float | None = None
    shared: float | None = None

    @property
    def hbm(self) -> float | None:
        """Read and written; None where one of them was not counted."""
        return _sum(self.hbm_read, self.hbm_written)

    @property
    def kept_in_l2(self) -> float | None:
        """What multiprocessors read and HBM did not: it was in L2, or was read twice."""
        if self.l2_read is not None and self.hbm_read is not None:
            return max(self.l2_read - self.hbm_read, 0.0)
        return None

    @property
    def kept_in_l1(self) -> float | None:
        """What threads moved through L1 and L2 did not see."""
        return None if self.l1 is None or self.l2 is None else max(self.l1 - self.l2, 0.0)


def traffic(metrics: Mapping[str, float]) -> LevelTraffic:
    """The traffic of one launch."""
    read = _first(metrics, ("dram__bytes_read.sum", 1), ("dram__sectors_read.sum", SECTOR))
    written = _first(metrics, ("dram__bytes_write.sum", 1), ("dram__sectors_write.sum", SECTOR))
    from_l1 = "lts__t_sectors_srcunit_tex"
    return LevelTraffic(
        read,
        written,
        _first(metrics, (f"{from_l1}.sum", SECTOR)),
        _first(metrics, (f"{from_l1}_op_read.sum", SECTOR)),
        _first(metrics, (f"{from_l1}_op_write.sum", SECTOR)),
        _first(metrics, ("lts__t_bytes.sum", 1), ("lts__t_sectors.sum", SECTOR)),
        _first(metrics, ("lts__t_sectors_srcunit_ltcfabric.sum", SECTOR)),
        _first(metrics, ("l1tex__t_bytes.sum", 1), ("l1tex__t_sectors.sum", SECTOR)),
        _first(
            metrics,
            ("sm__sass_data_bytes_mem_shared.sum", 1),
            ("smsp__sass_data_bytes_mem_shared.sum", 1),
            ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", WAVEFRONT),
        ),
    )


def counted_ns(metrics: Mapping[str, float]) -> float | None:
    """How long the launch took under Nsight Compute."""
    return _first(metrics, *((name, 1) for name in _TIMES))


def tensor_operations(metrics: Mapping[str, float]) -> dict[str, float]:
    """Operations of the tensor cores by the type of their operands, those above zero.

    A metric of a type counts those of each instruction; where there is none, these are added. Of
    one instruction the largest counts: others are parts of it.
    """
    whole: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        if found := _TENSOR.fullmatch(name):
            kind, op = found["type"], found["op"]
            if op is None:
                whole[kind] = max(value, whole.get(kind, 0.0))
            else:
                each = parts.setdefault(kind, {})
                each[op] = max(value, each.get(op, 0.0))
    added = {kind: sum(each.values()) for kind, each in parts.items()}
    return {kind: value for kind, value in sorted((added | whole).items()) if value > 0}


def mean_traffic(launches: Sequence[LevelTraffic]) -> LevelTraffic:
    """The mean of each level over the launches that counted it."""
    columns = zip(*(asdict(launch).values() for launch in launches), strict=True)
    return LevelTraffic(*(mean(values) for values in columns))


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _first(metrics: Mapping[str, float], *names: tuple[str, int]) -> float | None:
    for name, scale in names:
        if name in metrics:
            return metrics[name] * scale
    return None


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


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
