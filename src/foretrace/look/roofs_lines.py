"""The document of `foretrace lab roofs` as text, and the roofs of `look`: in words, as a roofline
with kernels under the slopes of HBM and L2, and why kernels are faster than HBM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from foretrace.base.tables import (
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    bulleted,
    filled,
    paragraphs,
)
from foretrace.base.units import DASH, bytes_text, flops_text, plural, time_text
from foretrace.look.documents import Look, RoofsEntry
from foretrace.work.devices import BandwidthPoint, MeasuredRoofs
from foretrace.work.kernel import CacheUse
from foretrace.work.kernel_row import KernelRow

BAR = 24  # characters of the longest bar
SUFFIX = " TFLOP/s"
PLAIN = ("fp32", "fp64")  # on a GPU: without tensor cores
# names of figures, where they are not plain English
NAMES = {
    "fp64_matrix": "fp64",
    "add_": "add_",
    "fp8_slow_sum": "fp8 (use_fast_accum=False)",
    "shared": "shared memory",
    "tensor_cores": "tensor cores",
    "gelu_mul": "gelu(gate) * up",
    "all_cores": "memory with all cores",
}
FIRST_ROWS = 12  # working sets on the first screen: every second one of a GPU


def page(document: MeasuredRoofs, place: Path | None = None, *, every: bool) -> list[Table]:
    """The roofs and the curve, or `every` figure."""
    around = document.environment
    versions = f"torch {around.get('torch', '?')}"
    if document.kind == "gpu":
        versions += f", driver {around.get('driver', '?')}"
    heading = f"{document.device}: {versions}, measured in {document.seconds:.0f} s"
    cache = int(document.environment.get("l2_bytes", 0) or 0)
    lines = list[Line]()
    if document.kind == "gpu":
        rates = {"HBM": document.memory_gbps(cache), "L2": document.cache_gbps(cache)}
        if document.shared_gbps:
            rates["SHARED"] = max(document.shared_gbps.values())
        lines = [Line(level, _rate(gbps)) for level, gbps in rates.items()]
    elif document.all_cores_gbps:
        lines = [Line("MEMORY", f"{_rate(document.all_cores_gbps.get('read'))} read by all cores")]
    found = [
        Table(heading, lines=lines + _arithmetic(document)),
        _curve(document, every=every),
    ]
    if every:
        shared = {name: value / 1e3 for name, value in document.shared_gbps.items()}
        found += [
            _values("Matmuls and units, TFLOP/s", document.tflops, document.units_tflops),
            _values("Shared memory, TB/s", shared),
            _values("Memory with all cores, GB/s", document.all_cores_gbps),
            _values("Atomic additions, 10^9 per second", document.atomics_gops),
            _values("Launches, us", document.launch_us),
            _values("Between host and GPU, GB/s", document.transfer_gbps),
            _values("Host time of an op, us", document.host_us),
            _values("gelu(gate) * up by what ran before, GB/s", document.behind_gbps),
        ]
    written = [] if place is None else [f"wrote {place}"]
    more = [] if every else ["more: --all (every working set and every figure)"]
    return filled([*found, _missing(document, every=every), paragraphs("", *written, *more)])


def _arithmetic(document: MeasuredRoofs) -> list[Line]:
    """The best of matmuls and units alone, by type; float32 runs on no tensor core."""
    both = (document.tflops, document.units_tflops)
    names = dict.fromkeys(name for table in both for name in table)
    best = {name: max(table.get(name, 0.0) for table in both) for name in names}
    if document.kind != "gpu":
        rates = [f"{name} {flops_text(value * 1e12)}/s" for name, value in best.items()]
        return [Line("MATMULS", ", ".join(rates))] if rates else []
    plain = {name: best.pop(name) for name in PLAIN if name in best}
    parts = {"TENSOR CORES": best, "CUDA CORES": plain}
    return [
        Line(
            label,
            ", ".join(f"{_named(name)} {value:.4g}" for name, value in rates.items()) + SUFFIX,
        )
        for label, rates in parts.items()
        if rates
    ]


def _named(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))


def _rate(gbps: float | None) -> str:
    return DASH if gbps is None else f"{bytes_text(gbps * 1e9)}/s"


def _curve(document: MeasuredRoofs, *, every: bool) -> Table:
    """One row per working set: reads, with a bar, the other rates, and the latency of a load."""
    points = document.bandwidth
    if not every and len(points) > FIRST_ROWS:
        points = tuple(each for each in points if each.working_set_bytes.bit_count() == 1)[::2]
    top = max((point.best_gbps() for point in document.bandwidth), default=0.0)
    loads = {point.working_set_bytes: point.load_ns for point in document.latency}

    def bar(point: BandwidthPoint) -> str:
        return "█" * max(1, round(BAR * point.read_gbps / top)) if point.read_gbps else ""

    def load(point: BandwidthPoint) -> str:
        ns = loads.get(point.working_set_bytes)
        return f"{ns:.1f} ns" if ns is not None and ns < 100 else time_text(ns)

    columns = [
        Column("working set", "working_set_bytes"),
        Column("read", lambda point: _rate(point.read_gbps), TEXT),
        Column("", bar, WORDS),
        Column("write", lambda point: _rate(point.write_gbps), TEXT),
        Column("copy", lambda point: _rate(point.copy_gbps), TEXT),
    ]
    columns += [Column("latency", load, TEXT)] if loads else []
    whole = "one core" if document.kind == "cpu" else "the whole GPU"
    return Table(f"By working set, {whole}", columns, points)


def _values(title: str, *tables: Mapping[str, float]) -> Table:
    heads = ("matmuls", "units alone") if len(tables) > 1 else ("",)

    def figure(name: str, table: Mapping[str, float]) -> str | None:
        return f"{table[name]:.4g}" if name in table else None

    columns = [
        Column(head, partial(figure, table=table), TEXT)
        for head, table in zip(heads, tables, strict=True)
    ]
    names = [*dict.fromkeys(name for table in tables for name in table)]
    return Table(title, (Column("", _named, WORDS), *columns), names)


def _missing(document: MeasuredRoofs, *, every: bool) -> Table:
    """What could not be measured; on the first screen one line for each reason."""
    missing, by_reason = document.not_measured, dict[str, list[str]]()
    if every:
        return bulleted("Not measured", [f"{name}: {why}" for name, why in missing.items()])
    for name, why in missing.items():
        by_reason.setdefault(why, []).append(name)
    lines = []
    for why, names in [*by_reason.items()][:3]:
        kinds = dict.fromkeys(name.partition(":")[0] for name in names)
        count = f" ({plural(len(names), 'figure')})" if len(kinds) < len(names) else ""
        lines.append(f"{', '.join(map(_named, kinds))}{count}: {why}")
    return bulleted("Not measured", lines)


KERNELS, ABOVE = 8, 2  # that get a letter: by time, and at least these many from L2
ROWS, COLUMNS = 13, 64
HBM, L2, ROOF = "/", ".", "-"


def roofline(
    kernels: Sequence[KernelRow], roofs: RoofsEntry
) -> tuple[str, list[tuple[str, KernelRow]]]:
    """The plot, and the letter of each kernel in it; both empty where no cost is known."""
    known = [row for row in kernels if row.flops and row.bytes and row.median_ns]
    unit = unit_of(roofs)
    if not known or not unit:
        return "", []
    ranked = sorted(known, key=lambda row: -(row.total_ns or 0))
    above = [row for row in ranked if row.bound == "l2"][:ABOVE]
    most = [row for row in ranked if row not in above][: KERNELS - len(above)]
    shown, peak = sorted([*most, *above], key=lambda row: -(row.total_ns or 0)), roofs.tflops[unit]
    places = {}  # FLOP per byte, and TFLOP/s
    for at, row in enumerate(shown):
        flops = float(row.flops or 0)
        intensity = flops / (row.bytes or 1)
        places[chr(ord("A") + at)] = intensity, flops / (row.median_ns or 1) / 1e3
    slopes = f"{HBM} HBM" + (f"   {L2} L2" if roofs.l2_gbps else "")
    plot = _plot(places, {L2: roofs.l2_gbps or 0.0, HBM: roofs.hbm_gbps}, peak)
    return "\n".join([*plot, f"{slopes}   {ROOF} {unit}"]), [*zip(places, shown, strict=True)]


def _plot(
    places: Mapping[str, tuple[float, float]], slopes: Mapping[str, float], peak: float
) -> list[str]:
    """A grid of characters with whole powers of ten around the points and the ridge; a slope is
    what so many 10^9 bytes per second allow, up to the peak.
    """
    ridge = (peak * 1e3 / slopes[HBM], peak)
    axes = zip(*places.values(), ridge, strict=True)
    logs = ([math.log10(at) for at in axis if at > 0] for axis in axes)
    x, y = ((math.floor(min(each)), math.floor(max(each)) + 1) for each in logs)
    cells = [[" "] * COLUMNS for _ in range(ROWS)]

    def put(intensity: float, tflops: float, mark: str) -> None:
        """A mark at this place; outside of the grid there is none."""
        column, row = _scaled(intensity, x, COLUMNS), _scaled(tflops, y, ROWS)
        if 0 <= column < COLUMNS and 0 <= row < ROWS:
            cells[ROWS - 1 - row][column] = mark

    for mark, gbps in slopes.items():
        for column in range(COLUMNS if gbps else 0):
            intensity = 10 ** (x[0] + (column + 0.5) / COLUMNS * (x[1] - x[0]))
            allowed = intensity * gbps / 1e3
            put(intensity, min(allowed, peak), mark if allowed < peak else ROOF)
    for mark, place in reversed([*places.items()]):  # A hides what lies below it
        put(*place, mark)
    heights = {ROWS - 1 - _scaled(10**power, y, ROWS): power for power in range(*y)}
    rows = [
        f"{_power(heights[at]) if at in heights else '':>7} |{''.join(row)}".rstrip()
        for at, row in enumerate(cells)
    ]
    ticks = [" "] * (COLUMNS + 8)
    for power in range(*x):
        column = _scaled(10**power, x, COLUMNS)
        ticks[column : column + len(_power(power))] = _power(power)
    below = f"{'':>7} +{'-' * COLUMNS}", f"{'':>9}{''.join(ticks)}".rstrip()
    return ["TFLOP/s", *rows, *below, f"{'FLOP per byte':>73}"]


def _scaled(value: float, powers: tuple[int, int], cells: int) -> int:
    low, high = powers
    return math.floor((math.log10(value) - low) / (high - low) * cells)


def _power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"


SAME_SIZE = "The trace shows sizes and order, not that it is the same tensor."
HOW = "`foretrace lab roofs` on such a GPU measures it"
_UNITS = ("bf16", "fp16", "tf32", "fp32")  # the first that a GPU has stands for its units


def roofs_text(roofs: RoofsEntry) -> str:
    """`HBM 4.71 TB/s, L2 8.93 TB/s, 894.3 TFLOP/s of bf16, as measured (foretrace lab …)`."""
    rates = [f"HBM {_rate(roofs.hbm_gbps)}"]
    rates += [] if roofs.l2_gbps is None else [f"L2 {_rate(roofs.l2_gbps)}"]
    unit = unit_of(roofs)
    printed = " (datasheet)" if roofs.measured and unit in roofs.datasheet else ""
    rates += [f"{roofs.tflops[unit]:.4g} TFLOP/s of {unit}{printed}"] if unit else []
    where = f"as measured ({roofs.source})" if roofs.measured else f"by the {roofs.source}"
    said = f"{', '.join(rates)}, {where}"
    return said if roofs.l2_gbps is not None else f"{said}; the rate of L2 is not known: {HOW}"


def unit_of(roofs: RoofsEntry) -> str:
    """The data type whose rate stands for the arithmetic of a GPU."""
    return next((name for name in _UNITS if name in roofs.tflops), "")


def cached_lines(look: Look) -> list[Line]:
    """Every kernel that is faster than HBM, and what explains it."""
    roofs = look.roofs
    lines = []
    for row in look.kernels:
        if roofs and row.cache_use and row.bytes and row.median_ns:
            moved = f"{bytes_text(row.bytes)} in {time_text(row.median_ns)}"
            rate = f"{_rate(row.bytes / row.median_ns)}, above the {_rate(roofs.hbm_gbps)} of HBM"
            fact = f"{row.short or row.name}: {moved} is {rate}"
            lines.append(Line(BULLET, fact, _why(row.cache_use, roofs)))
    return lines


def _why(use: CacheUse, roofs: RoofsEntry) -> str:
    size = bytes_text(use.cache_bytes)
    if use.verdict == "doubted":
        large = f"Its {bytes_text(use.too_large)} exceed L2 ({size})"
        none = f"Nothing that ran shortly before wrote an input of it that L2 ({size}) can hold"
        return f"{large if use.too_large else none}: its bytes or its time are in doubt."
    if use.verdict == "result":
        made = bytes_text(use.written_bytes)
        return f"No input is known to be in L2. Its {made} result fits there: written back later."
    if use.verdict == "unknown":
        return f"A cache gave part of it. The rate of L2 is not known: {HOW}."
    inputs = []
    for each in use.inputs:
        between = bytes_text(each.between_bytes) if each.between_bytes else "nothing"
        unpriced = plural(each.unpriced, "operation")
        also = f" and {unpriced} of unknown traffic" if each.unpriced else ""
        who, moved = each.op.replace("aten::", "") or each.kernel, bytes_text(each.bytes)
        when = f"{time_text(each.before_ns)} before, with {between}{also} moved in between"
        inputs.append(f"{who} wrote {moved}, the size of its input {each.tensor}, {when}")
    known = "" if roofs.l2_gbps is None else f", which gives up to {_rate(roofs.l2_gbps)}"
    return f"{'; '.join(inputs)}. That fits in L2 ({size}){known}. {SAME_SIZE}"
