"""The roofs of a trace's GPU in words, and why kernels are faster than HBM."""

from __future__ import annotations

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.model.costs.limits import memory_rate, with_measured
from foretrace.schema.device import Device
from foretrace.schema.documents.look import KernelRow, Look, RoofsEntry
from foretrace.schema.traffic import CachedInput, CacheUse

SAME_SIZE = "The trace shows sizes and order, not that it is the same tensor."
HOW = "`foretrace roofs` on such a GPU measures it"
_UNITS = ("bf16", "fp16", "tf32", "fp32")  # the first that a GPU has stands for its units


def roofs_entry(device: Device | None) -> RoofsEntry | None:
    """The roofs of a device; None where it is not known."""
    if device is None:
        return None
    best, measured = with_measured(device), device.measured
    cached = measured.l2_bytes_per_s if measured else None
    return RoofsEntry(
        device.name,
        memory_rate(device) / 1e9,
        None if cached is None else cached / 1e9,
        device.cache_bytes,
        {name: best.peak_flops[name] / 1e12 for name in device.peak_flops},
        measured is not None,
        measured.source if measured else device.source,
        tuple(sorted({*device.peak_flops} - {*(measured.flops if measured else ())})),
    )


def roofs_text(roofs: RoofsEntry) -> str:
    """`HBM 4.71 TB/s, L2 8.93 TB/s, 894.3 TFLOP/s of bf16, as measured (foretrace roofs, …)`."""
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


def cached_lines(look: Look) -> list[tuple[str, str]]:
    """Every kernel that is faster than HBM, and what explains it."""
    roofs = look.roofs
    rows = [row for row in look.kernels if row.cache_use and row.bytes and row.median_ns]
    return [(_fact(row, roofs), _why(row.cache_use, roofs)) for row in rows] if roofs else []


def _fact(row: KernelRow, roofs: RoofsEntry) -> str:
    rate = (row.bytes or 0) / (row.median_ns or 1)
    moved = f"{bytes_text(row.bytes)} in {time_text(row.median_ns)}"
    name = row.short or row.name
    return f"{name}: {moved} is {_rate(rate)}, above the {_rate(roofs.hbm_gbps)} of HBM"


def _why(use: CacheUse | None, roofs: RoofsEntry) -> str:
    assert use is not None
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
    inputs = "; ".join(_input(each) for each in use.inputs)
    known = "" if roofs.l2_gbps is None else f", which gives up to {_rate(roofs.l2_gbps)}"
    return f"{inputs}. That fits in L2 ({size}){known}. {SAME_SIZE}"


def _input(found: CachedInput) -> str:
    between = bytes_text(found.between_bytes) if found.between_bytes else "nothing"
    unpriced = plural(found.unpriced, "operation")
    also = f" and {unpriced} of unknown traffic" if found.unpriced else ""
    who = found.op.replace("aten::", "") or found.kernel
    return (
        f"{who} wrote {bytes_text(found.bytes)}, the size of its input {found.tensor}, "
        f"{time_text(found.before_ns)} before, with {between}{also} moved in between"
    )


def _rate(gbps: float) -> str:
    return f"{bytes_text(gbps * 1e9)}/s"
