"""What filled the memory, for people."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, filled, listed
from foretrace.base.units import bytes_text, count_text, percent_text, plural, time_text
from foretrace.memory import DeviceMemoryDocument, MemoryDocument, MemoryPart
from foretrace.memory.changes import MemoryChanges, change_text
from foretrace.memory.fixes import PeakFix
from foretrace.memory.oom import OutOfMemoryDocument

SHOWN_FIXES = 3
MOST_TIMES = 64  # beyond this, the batch is not what limits the memory
SHOWN = 5  # categories that fit the line of the peak
LEAST = 0.005  # of the peak: less is not worth a row
ORDERS = ["DO FIRST", *["THEN"] * (SHOWN_FIXES - 1)]
_HELD = (Column("at the peak", "bytes"), Column("share", "share"), Column("tensors", "count"))
_OF_LINES = (
    Column("line", "line", WORDS),
    Column("is", "category", WORDS),
    *_HELD,
    Column("live for", "live_ns"),
)
_OF_MODULES = (Column("module", "name", WORDS), *_HELD)
_OF_DEVICES = (
    Column("device", lambda each: f"device {each.device}", WORDS),
    Column("peak", "peak_bytes"),
    Column("reserved", "reserved_bytes"),
)
_CHANGED = (
    Column("A", "a_bytes"),
    Column("B", "b_bytes"),
    Column("change", change_text, TEXT),
    Column("", "change", WORDS),
)


def page(found: MemoryDocument, *, top: int) -> list[Table]:
    """The first screen: the peak, what lowers it, fragments, growth, and the lines."""
    device = found.device
    inside = "" if device.peak_pass.startswith("outside") else "in the "
    where = f"at {time_text(device.peak_ns)}, {inside}{device.peak_pass}"
    parts = parts_text(device.categories)
    lines = [Line("PEAK", f"{bytes_text(device.peak_bytes)} {where}: {parts}")]
    lines += [Line("FAILED", failed_text(device))] if device.failed else []
    fixes = zip(ORDERS, device.fixes, strict=False)
    lines += [Line(word, fix_text(device, fix)) for word, fix in fixes]
    if (growth := device.growth) is not None:
        added = f"{bytes_text(growth.bytes_per_step)} more after each of {growth.steps} steps"
        most = f"{percent_text(growth.lines[0].share)} of it from {growth.lines[0].name}"
        lines.append(Line("GROWS", f"{added}, and nothing frees it; {most}"))
    if device.batch is not None:
        times = device.batch.fits_times
        text = f"with twice the batch the peak is about {bytes_text(device.batch.twice_bytes)}"
        if times is not None and times > MOST_TIMES:
            text += "; far larger ones fit this card"
        elif times is not None:
            text += f"; {f'{times} times the' if times > 1 else 'no larger'} batch fits this card"
        lines.append(Line("BATCH", text))
    if device.device >= 0:  # a CPU reserves nothing
        lines.append(Line("FRAGMENTS", fragments_text(device)))
    about = [
        found.path.replace("\\", "/").rsplit("/", 1)[-1],
        found.card or f"device {device.device}",
        f"{plural(device.allocations, 'allocation')}, {time_text(device.span_ns)}",
        *([plural(device.steps, "step")] if device.steps else []),
        "stacks recorded" if device.stacks else "no stacks: record with stacks='python'",
    ]
    if lost := sum(found.lost.values()):
        about.append(f"{count_text(lost)} records not read")
    by_line = [each for each in device.lines[:top] if each.share >= LEAST]
    by_module = [each for each in device.modules[:top] if each.share >= LEAST]
    return filled(
        [
            Table("", lines=[Line("", " · ".join(about)), *lines]),
            Table("By line", _OF_LINES, by_line),
            Table("By module", _OF_MODULES, by_module),
            Table("Other devices", _OF_DEVICES, found.others),
        ]
    )


def failed_text(device: DeviceMemoryDocument) -> str:
    """The allocation that failed, and why."""
    failed = device.failed
    if failed is None:
        return ""
    free = f"; the driver had {bytes_text(failed.device_free)} free" if failed.device_free else ""
    if failed.device_free and failed.device_free > failed.bytes:
        free += ", so a limit of this process stopped it (set_per_process_memory_fraction)"
    return f"{failed.line} wanted {bytes_text(failed.bytes)}; {failed.why}{free}"


def failure_text(device: DeviceMemoryDocument) -> str:
    """The allocation that failed, and what held the memory at that moment."""
    if device.failed is None:
        return f"no allocation of the history failed; {parts_text(device.categories)}"
    held = f"{bytes_text(device.failed.live_bytes)} were in use"
    return f"{failed_text(device)}; {held}: {parts_text(device.failed.categories)}"


def parts_text(parts: Sequence[MemoryPart]) -> str:
    """The largest parts with their bytes."""
    shown = [part for part in parts if part.share >= LEAST][:SHOWN]
    return ", ".join(f"{part.name} {bytes_text(part.bytes)}" for part in shown)


def fix_text(device: DeviceMemoryDocument, fix: PeakFix) -> str:
    """What to do, what was seen, and the new peak."""
    if fix.reserved_bytes is not None:
        now, then, what = device.reserved_bytes, fix.reserved_bytes, "reserved"
    else:
        now, then, what = device.peak_bytes, fix.peak_bytes, "peak"
        what += " up to the failure" if device.failed is not None else ""
    cost = f"; {fix.cost}" if fix.cost else ""
    change = f"{what} {bytes_text(now)} to about {bytes_text(then)}"
    return f"{fix.order}: {fix.why}; {change}{cost}"


def fragments_text(device: DeviceMemoryDocument) -> str:
    """What is reserved, what of it is free, and the largest piece."""
    most, held = device.reserved_bytes, device.fragments
    if not most:
        return "nothing is reserved"
    idle = percent_text(max(most - device.peak_bytes, 0) / most)
    told = f"reserved {bytes_text(most)} for a peak of {bytes_text(device.peak_bytes)}, {idle} idle"
    free = [] if held is None else [f"at the end {plural(held.free_blocks, 'free block')}"]
    if held is not None and held.free_blocks:
        free[0] += f", the largest {bytes_text(held.largest_free)}"
    later = [fix for fix in device.fixes[SHOWN_FIXES:] if fix.reserved_bytes is not None]
    fixed = [f"{fix.order}: about {bytes_text(fix.reserved_bytes or 0)}" for fix in later]
    return "; ".join([told, *free, *fixed])


def oom_page(found: OutOfMemoryDocument) -> list[Table]:
    """The numbers, the cause, and what to do."""
    text = found.text
    at = f" at {text.line}" if text.line else ""
    parts = [
        (text.allocated_bytes, "in tensors"),
        (text.private_bytes, "of them in private pools (CUDA graphs)"),
        (text.unallocated_bytes, "reserved by PyTorch and free"),
        (text.process_bytes, "in use by this process in all"),
        (text.other_bytes or None, "by other processes"),
        (text.free_bytes, "free"),
        (text.allowed_bytes, "allowed"),
        (text.total_bytes, "on the card"),
    ]
    known = ", ".join(f"{bytes_text(size)} {what}" for size, what in parts if size is not None)
    lines = [
        Line("WANTED", f"{bytes_text(text.wanted_bytes)} on {text.device}{at}"),
        Line("MEMORY", known or "the text has no numbers"),
        Line("WHY", f"{found.cause}: {found.why}"),
    ]
    orders = [Line(word, what) for word, what in zip(ORDERS, found.next, strict=False)]
    return [Table(lines=[*lines, *orders])]


def changes_page(found: MemoryChanges, *, top: int) -> list[Table]:
    """The verdict, and the categories and lines that changed."""
    names = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in (found.a, found.b)]
    reserved = f"{bytes_text(found.a_reserved_bytes)} to {bytes_text(found.b_reserved_bytes)}"
    least = LEAST * max(found.a_peak_bytes, found.b_peak_bytes)
    large = [each for each in found.categories if max(each.a_bytes, each.b_bytes) >= least]
    lines = [each for each in found.lines if each.change != "same"]
    is_what = Column("is", "name", WORDS)
    of_line = (Column("line", "name", WORDS), Column("is", "category", WORDS))
    return [
        Table(" against ".join(names), lines=[Line("VERDICT", found.verdict)]),
        Table(f"At the peak; reserved {reserved}", (is_what, *_CHANGED), large),
        listed("Lines that changed", (*of_line, *_CHANGED), lines, top, "--top has more"),
    ][: 3 if lines else 2]
