"""Quantities of a window: GPU, CPU or wall time; time, FLOPs, bytes or number of a selector's
matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from foretrace.analyze.guess.selection import Selection, certain
from foretrace.analyze.guess.selectors import Selector
from foretrace.analyze.guess.windows import Unknown, Window, named
from foretrace.base.units import bytes_text, count_text, flops_text, time_text
from foretrace.schema.traffic import INEXACT

CLOCKS = ("gpu", "cpu", "wall")
PER_KERNEL = ("time", "flops", "bytes")
_TEXTS = {"flops": flops_text, "bytes": bytes_text, "count": count_text}
_NO_TIME = "some GPU operations have no time"


@dataclass(frozen=True, slots=True)
class Measure:
    """`name` is gpu, cpu or wall time, or time, flops, bytes or count of `selector`'s matches."""

    text: str
    name: str
    selector: Selector | None = None

    def of(self, window: Window) -> float:
        """The quantity in one window; `Unknown` when the trace does not say."""
        if self.selector is None:
            return _TIMES[self.name](window)
        if self.name == "count":
            return len(certain(window, self.selector).sure)
        return sum(each(window, self.selector, self.name))

    def median(self, windows: list[Window]) -> float:
        """The median over several windows.

        What is on the GPU is that of the window with the median GPU time, of those that launched
        anything: the parts of a step then add up to it, as `foretrace look` shows them.
        """
        if self.name == "gpu time" or (self.selector and self.name == "time"):
            windows = middle(windows)
        return median(self.of(window) for window in windows)

    def rows(self, window: Window) -> list[int]:
        """The GPU operations it is measured on."""
        if self.selector and self.selector.on_gpu:
            return certain(window, self.selector).sure
        rows: list[int] = window.rows.tolist()
        return rows

    def shown(self, value: float) -> str:
        """A value for people."""
        return _TEXTS.get(self.name, time_text)(value)


def middle(windows: list[Window]) -> list[Window]:
    """The window with the median GPU time, or the two in the middle; on a CPU the median time."""
    working = [window for window in windows if len(window.rows)]
    working.sort(key=lambda window: window.evidence.trace.spans.busy(window.span))
    if not working and windows[0].evidence.runs_on_cpu:
        working = sorted(windows, key=lambda window: window.length_ns)
    return working[(len(working) - 1) // 2 : len(working) // 2 + 1] or windows


def each(window: Window, selector: Selector, quantity: str) -> list[float]:
    """The quantity of every match; no match is unknown, since there is nothing to measure."""
    found = certain(window, selector)
    if not found.sure:
        raise Unknown(f"no {selector.text} in {window.label}")
    read = {"time": _time, "flops": _flops, "bytes": _bytes}[quantity]
    return [read(window, found, item) for item in found.sure]


def _time(window: Window, found: Selection, item: int) -> float:
    trace = window.evidence.trace
    if not found.on_gpu:
        return int(trace.host.length[item])
    if not trace.gpu.usable[item]:
        raise Unknown(_NO_TIME)
    return int(trace.gpu.length[item])


def _flops(window: Window, found: Selection, item: int) -> float:
    flops = window.evidence.kernel_fact(item, "flops") if found.on_gpu else None
    return _known(flops, window, found, item, "flops")


def _bytes(window: Window, found: Selection, item: int) -> float:
    evidence, moved = window.evidence, None
    if found.on_gpu and evidence.operation(item).kind != "kernel":
        moved = evidence.copy_bytes.get(int(evidence.trace.gpu.id[item]))
    elif found.on_gpu:
        moved = evidence.kernel_fact(item, "bytes")
        if evidence.kernel_fact(item, "cost_certainty") in INEXACT:
            note = evidence.kernel_fact(item, "cost_note")
            short = evidence.operation(item).ident.short
            raise Unknown(f"the bytes of {short} are not known exactly ({note})")
    return _known(moved, window, found, item, "bytes")


def _known(value: float | None, window: Window, found: Selection, item: int, what: str) -> float:
    if value is not None:
        return float(value)
    if not found.on_gpu:
        raise Unknown(f"{what} belong to GPU operations, not to host events")
    if not window.evidence.trace.has("shapes"):
        raise Unknown(f"{what} need recorded shapes: record with record_shapes=True")
    raise Unknown(f"the {what} of {window.evidence.operation(item).ident.short} are not known")


def _gpu_time(window: Window) -> float:
    window.need_gpu()
    window.need_whole()
    gpu = window.evidence.trace.gpu
    if window.lost:
        raise Unknown("some launches have no GPU event: the time is incomplete")
    if not len(window.rows):
        raise Unknown(f"no GPU operations in {window.label}")
    if not gpu.usable[window.rows].all():
        raise Unknown(_NO_TIME)
    return window.evidence.trace.spans.busy(window.span)


def _cpu_time(window: Window) -> float:
    window.need_whole()
    if window.start_ns is None or window.end_ns is None:
        raise Unknown(
            "`cpu time` needs a step, a region or an op: say which, as in `per step: cpu "
            "time < 1 ms`"
        )
    return window.end_ns - window.start_ns


def _wall_time(window: Window) -> float:
    """The run record beside the trace has the wall time of one call of its region."""
    run, where = window.evidence.trace.run, window.region
    wall, region = run.timing.wall_ns_per_call, run.rung.region
    if wall is None or region is None:
        raise Unknown("wall time needs a run record beside the trace: record with `foretrace run`")
    if not named(where or region, region):
        raise Unknown(f"the run record has the wall time of a call of {region} alone")
    return wall


_TIMES = {"gpu time": _gpu_time, "cpu time": _cpu_time, "wall time": _wall_time}
