"""Whether GPU operations run at the same time, and on which streams."""

from __future__ import annotations

import numpy as np

from foretrace.analyze.guess.kinds import (
    Measurement,
    Query,
    comparison,
    per_window,
    prediction,
)
from foretrace.analyze.guess.selection import certain
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import COPIES, HEADS, Selector
from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model.gpu import Gpu
from foretrace.model.intervals import Ints, split_by


def _streams(window: Window, query: Query) -> Measurement:
    """Whether anything runs on two streams of one GPU at once."""
    window.need_gpu()
    window.need_whole()
    gpu, rows = (
        window.evidence.trace.gpu,
        window.rows[window.evidence.trace.gpu.usable[window.rows]],
    )
    if window.lost or not len(rows):
        raise Unknown("the trace does not say what ran on the streams")
    streams, together = len(distinct(gpu.lane[rows])), _each_lane(gpu, rows) - gpu.busy(rows)
    measured = f"{plural(streams, 'stream')}, two at once for {time_text(together)}"
    wanted = query.args.get("count")
    if together and wanted is not None and wanted.value != streams:
        raise Unknown(f"the trace has {plural(streams, 'stream')}")
    return Measurement(query.hit_if(together > 0), measured, rows=rows.tolist())


def _each_lane(gpu: Gpu, rows: Ints) -> int:
    """The busy time of each stream, summed."""
    return sum(gpu.busy(mine) for mine in split_by(gpu.lane[rows], rows))


def _shared(gpu: Gpu, rows: Ints, others: Ints) -> int:
    """The time in which some of `rows` and some of `others` of another stream run."""
    shared = 0
    for lane in distinct(gpu.lane[rows]):
        mine, theirs = rows[gpu.lane[rows] == lane], others[gpu.lane[others] != lane]
        both = np.concatenate((mine, theirs))
        shared += gpu.busy(mine) + gpu.busy(theirs) - gpu.busy(both)
    return min(shared, gpu.busy(rows), gpu.busy(others))


def _rows(window: Window, selector: Selector) -> Ints:
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation; say for example `gemm`")
    rows = np.array(certain(window, selector).sure, np.int64)
    if not len(rows) and selector.text.lower() in COPIES:
        rows = np.array(certain(window, HEADS["memcpy"]).sure, np.int64)
    if not len(rows):
        raise Unknown(f"no {selector.text} in {window.label}")
    if not window.evidence.trace.gpu.usable[rows].all():
        raise Unknown("some GPU operations have no time")
    return rows


@prediction(
    "overlap",
    42,
    "[both] [{count:count}] streams [not] overlap|overlaps",
    "{first:selector} and {second:selector} [not] overlap|overlaps",
    "{first:selector} [not] overlap|overlaps {second:selector}",
    "{first:selector} [not] overlap|overlaps",
    "{first:selector} hides {compare:compare} {amount:share} behind {second:selector}",
    expected=lambda args: comparison(args) or ("no overlap" if "not" in args else "overlap"),
)
@per_window
def _overlap(window: Window, query: Query) -> Measurement:
    """Whether kernels run at the same time: of two kinds, or among all of one kind.

    Kernels overlap when one runs before another on the same GPU has ended. A stream runs its
    kernels in order, so only kernels of different streams count. What is measured is the time in
    which both run.
    """
    if "streams" in query.args:
        return _streams(window, query)
    first, second = query.args["first"], query.args.get("second")
    rows, gpu = _rows(window, first), window.evidence.trace.gpu
    if second is None:
        together, what = _each_lane(gpu, rows) - gpu.busy(rows), first.text
    else:
        others = np.setdiff1d(_rows(window, second), rows)
        if not len(others):
            raise Unknown(f"`{first.text}` and `{second.text}` are the same kernels here")
        together = _shared(gpu, rows, others)
        if "hides" in query.args:
            share = together / max(gpu.busy(rows), 1)
            shown = f"{percent_text(share)} of {first.text} runs beside {second.text}"
            return Measurement(query.judge(share), shown, rows=rows.tolist())
        rows, what = np.concatenate((rows, others)), f"{first.text} and {second.text}"
    measured = f"{what} overlap for {time_text(together)}" if together else f"no overlap of {what}"
    return Measurement(query.hit_if(together > 0), measured, rows=rows.tolist())


def _rows_there(window: Window, selector: Selector) -> Ints:
    found = certain(window, selector)
    if not found.on_gpu or not found.sure:
        raise Unknown(f"no {selector.text} on a GPU in {window.label}")
    return np.array(found.sure, np.int64)


@prediction(
    "own_streams",
    41,
    "each {what:selector} on own-stream",
    "{what:selector} [not] on own-stream [{other:selector}]",
    expected=lambda args: "shared" if "not" in args else "own stream",
)
@per_window
def _apart(window: Window, query: Query) -> Measurement:
    """Whether work has a stream of its own: apart from other work, or each launch of it.

    `comms on own-stream compute` holds when no stream runs both. Without the second, all other GPU
    work counts. `each gemm on own-stream` holds when no two of them share one.
    """
    lane = window.evidence.trace.gpu.lane
    rows, what = _rows_there(window, query.what), query.what.text
    mine = set(lane[rows].tolist())
    if "each" in query.args:
        measured = f"{plural(len(rows), what)} on {plural(len(mine), 'stream')}"
        return Measurement(query.hit_if(len(mine) == len(rows)), measured, rows=rows.tolist())
    other = query.args.get("other")
    others = np.setdiff1d(_rows_there(window, other) if other else window.rows, rows)
    if not len(others):
        raise Unknown(f"there is nothing but `{what}`")
    shared = mine & set(lane[others].tolist())
    beside = other.text if other else "other work"
    measured = f"{what} on {plural(len(mine), 'stream')}, {len(shared)} of them with {beside}"
    return Measurement(query.hit_if(not shared), measured, rows=rows.tolist())
