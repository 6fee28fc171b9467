"""Quantities of a view: the time of the GPU or the host, and the time, flops, bytes or number of
things.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from foretrace.guess.select import Found, find
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View
from foretrace.schema.cost import INEXACT
from foretrace.units import bytes_text, count_text, flops_text, time_text

CLOCKS = ("gpu", "cpu")
PER_KERNEL = ("time", "flops", "bytes")
_TEXTS = {
    "time": time_text,
    "flops": flops_text,
    "bytes": bytes_text,
    "count": count_text,
    "gpu time": time_text,
    "cpu time": time_text,
}


@dataclass(frozen=True, slots=True)
class Measure:
    """`name` is gpu time, cpu time, time, flops, bytes or count; `thing` is what it is of."""

    text: str
    name: str
    thing: Thing | None = None

    def of(self, view: View) -> float:
        """The quantity in one view; `Unknown` when the trace cannot say."""
        if self.thing is None:
            return _gpu_time(view) if self.name == "gpu time" else _cpu_time(view)
        if self.name == "count":
            return len(certain(view, self.thing).sure)
        return sum(each(view, self.thing, self.name))

    def median(self, views: list[View]) -> float:
        return median(self.of(view) for view in views)

    def shown(self, value: float) -> str:
        return _TEXTS[self.name](value)


def certain(view: View, thing: Thing) -> Found:
    """What is there, when that is certain."""
    found = find(view, thing)
    if found.unclear:
        raise Unknown(found.why(thing))
    return found


def each(view: View, thing: Thing, quantity: str) -> list[float]:
    """The quantity of every one of the things; none at all is unknown, for there is nothing to
    measure.
    """
    found = certain(view, thing)
    if not found.sure:
        raise Unknown(f"no {thing.text} in {view.label}")
    read = {"time": _time, "flops": _flops, "bytes": _bytes}[quantity]
    return [read(view, found, item) for item in found.sure]


def _time(view: View, found: Found, item: int) -> float:
    trace = view.work.trace
    if found.on_gpu:
        if not trace.gpu.usable[item]:
            raise Unknown("some of the GPU work has no time")
        return int(trace.gpu.length[item])
    return int(trace.host.length[item])


def _flops(view: View, found: Found, item: int) -> float:
    flops = view.work.kernel_fact(item, "flops") if found.on_gpu else None
    if flops is None:
        raise Unknown(_no_cost(view, found, item, "flops"))
    return float(flops)


def _bytes(view: View, found: Found, item: int) -> float:
    if found.on_gpu and view.work.case(item).kind != "kernel":
        moved = view.work.copy_bytes.get(int(view.work.trace.gpu.id[item]))
    else:
        moved = view.work.kernel_fact(item, "bytes") if found.on_gpu else None
        certainty = view.work.kernel_fact(item, "cost_certainty") if found.on_gpu else None
        if certainty in INEXACT:
            note = view.work.kernel_fact(item, "cost_note")
            raise Unknown(
                f"the bytes of {view.work.case(item).ident.short} are not known exactly ({note})"
            )
    if moved is None:
        raise Unknown(_no_cost(view, found, item, "bytes"))
    return float(moved)


def _no_cost(view: View, found: Found, item: int, what: str) -> str:
    if not found.on_gpu:
        return f"{what} belong to GPU work, not to host events"
    if not view.work.trace.has("shapes"):
        return f"{what} need recorded shapes: record with record_shapes=True"
    return f"the {what} of {view.work.case(item).ident.short} are not known"


def _gpu_time(view: View) -> float:
    view.need_gpu()
    view.need_whole()
    gpu = view.work.trace.gpu
    if view.lost:
        raise Unknown("some launches left no GPU event: the time is not complete")
    if not len(view.rows):
        raise Unknown(f"no GPU work in {view.label}")
    if not gpu.usable[view.rows].all():
        raise Unknown("some of the GPU work has no time")
    return gpu.busy(view.rows)


def _cpu_time(view: View) -> float:
    view.need_whole()
    if view.start_ns is None or view.end_ns is None:
        raise Unknown(
            "`cpu time` is that of a step, a region or an op: say where, as in `per step: cpu "
            "time < 1 ms`"
        )
    return view.end_ns - view.start_ns
