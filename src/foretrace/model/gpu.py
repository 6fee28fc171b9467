"""The GPU side: kernels, copies and fills, each with its launch, its op and its step.

Links go by correlation id. A graph launch carries all its kernels. What was launched before the
recording has no launch here, belongs to no step, and is counted as such.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from foretrace.base.arrays import counted, filled
from foretrace.base.units import plural, time_text, whole
from foretrace.model.host import Host
from foretrace.model.intervals import (
    Bools,
    Floats,
    IntervalUnion,
    Ints,
    numbered,
    overlapping,
    shared_lengths,
    split_by,
    union_length,
)
from foretrace.model.links import Ids, Linker, disagreement
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import NONE, WORK_KINDS, Tables

_MOST_DEVICES = 64  # of a machine: a larger number is that of a process
EVER = int(np.iinfo(np.int64).min)  # before any time

_UNTOLD = (
    "GPU events without a launch in this trace, or with launches in several processes, belong to "
    "no step"
)


class Gpu:
    """One row per operation, in time order; unknown is -1 in `launch` and `op`, NONE in `delay`.

    `lag` is how much later the GPU's clock is than the host's: a time of the host is compared with
    a time of the GPU after adding it.
    """

    def __init__(self, tables: Tables, host: Host, ledger: LedgerBuilder) -> None:
        self.host = host
        self.lag = tables.gpu_lag_ns
        self.id: Ints = np.flatnonzero(host.is_kind(*WORK_KINDS))
        self.kind = host.kind[self.id]
        self.start, self.length = host.start[self.id], host.length[self.id]
        self.end = host.end[self.id]
        self.usable: Bools = host.lasting[self.id]
        self.is_kernel: Bools = host.is_kind("kernel")[self.id]
        self.is_memcpy: Bools = host.is_kind("gpu_memcpy")[self.id]
        self.is_memset: Bools = host.is_kind("gpu_memset")[self.id]
        self._places(tables)
        self._links(tables["events"], ledger)
        lanes, start, end = (each[self.usable] for each in (self.lane, self.start, self.end))
        ledger.note("stream_overlap", overlapping(lanes, start, end))
        self._note_overruns(ledger)

    def __len__(self) -> int:
        return len(self.id)

    def _places(self, tables: Tables) -> None:
        """Device and stream from the arguments; otherwise from the row's pid and tid."""
        self.device, self.stream, self.bytes = np.full((3, len(self.id)), NONE, np.int64)
        side = tables["gpu"]
        rows = np.searchsorted(self.id, side["event"].to_numpy())
        self.side_row = np.full(len(self.id), -1, np.int64)
        self.side_row[rows] = np.arange(side.height)
        for name in ("device", "stream", "bytes"):
            getattr(self, name)[rows] = filled(side[name], NONE)
        self.in_graph = np.zeros(len(self.id), bool)
        self.in_graph[rows] = filled(side["graph_id"], 0) != 0
        for name, column in (("pid", self.device), ("tid", self.stream)):
            texts = tables["tracks"][name].to_list()
            written = np.array([_number(text) for text in texts], np.int64)
            drawn = written[self.host.track[self.id]]
            if name == "pid":
                self.misplaced: Bools = (column != NONE) & (column != drawn) & (drawn >= 0)
                self.misplaced &= drawn < _MOST_DEVICES
            np.copyto(column, drawn, where=column == NONE)
        self.device_space = self.host.namespace[self.id]

    def _links(self, events: pl.DataFrame, ledger: LedgerBuilder) -> None:
        ids = Ids(filled(events["correlation"], NONE), filled(events["external_id"], NONE))
        self.correlation: Ints = ids.correlation[self.id]
        linkable = (self.correlation != NONE) & (self.correlation != 0)
        ledger.note("corr_zero", int((self.correlation == 0).sum()))
        usual = (ids.correlation != NONE) & (ids.correlation != 0)
        callers = np.flatnonzero(self.host.is_call & usual)
        given = ids.correlation[callers]
        self._by_correlation(ids, callers, linkable, ledger)
        self.op = np.full(len(self.id), -1, np.int64)
        linked = self.launch >= 0
        self.op[linked] = self.host.nearest_op(self.launch[linked])
        self._by_external(np.flatnonzero(~linkable & (self.correlation != 0)), ids.external)
        unlinked = int((self.launch < 0).sum())
        ledger.note("kernel_unlinked", unlinked, _UNTOLD if self.untold.any() else "")
        self._delays(ledger)
        self._note_fan_out(ledger)
        self._note_lost(callers, given, ledger)

    def _delays(self, ledger: LedgerBuilder) -> None:
        """From launch to start; unknown where the clocks of GPU and host disagree (`aligned`)."""
        call = np.maximum(self.launch, 0)
        known = self.usable & (self.launch >= 0)
        if len(self.id):
            known &= self.host.timed[call]
        self.delay = np.where(known, self.start - self.host.start[call], NONE)
        early = known & (self.delay < 0)
        place, usable = self.device_number[self.usable], self.usable
        shift = disagreement(
            self.host, place, self.start[usable], self.delay[usable], known[usable]
        )
        self.aligned = not shift
        if shift:
            text = f"the clocks of GPU and host are {time_text(shift)} apart: no delay and no cause"
            ledger.note("clock_mismatch", text=f"{text} of idle time is known")
            self.delay[:] = NONE
        else:
            ledger.note("kernel_before_launch", int(early.sum()))
            self.delay[early] = NONE

    def _by_correlation(
        self, ids: Ids, callers: Ints, linkable: Bools, ledger: LedgerBuilder
    ) -> None:
        rows = np.flatnonzero(linkable)
        found = Linker(self.host, ids, callers, self.id[rows], self.device[rows]).run()
        self.launch = np.full(len(self.id), -1, np.int64)
        self.untold = np.zeros(len(self.id), np.bool_)
        self.launch[rows], self.untold[rows] = found.launch, found.untold
        ledger.note("corr_duplicate", found.repeated)
        untold = int(found.untold.sum())
        text = f"{untold:,} GPU events have launches with their correlation id in several processes"
        ledger.note("corr_duplicate", untold, f"{text}: not linked")

    def _by_external(self, rows: Ints, external: Ints) -> None:
        """Without a correlation, an External id of only one op tells the op and its one launch."""
        if not len(rows):
            return
        key = numbered(self.host.namespace, external)
        wanted = key[self.id[rows]]
        stated = external != NONE
        for found, holders in ((self.op, self.host.is_op), (self.launch, self.host.is_launch)):
            owners = np.flatnonzero(holders & stated)
            only = np.full(int(key.max()) + 1, -1, np.int64)
            only[key[owners]] = owners
            only[np.bincount(key[owners], minlength=len(only)) > 1] = -1
            hit = stated[self.id[rows]] & (only[wanted] >= 0)
            found[rows[hit]] = only[wanted[hit]]

    def _note_fan_out(self, ledger: LedgerBuilder) -> None:
        """A graph launches many kernels; a plain launch with many has a false correlation."""
        kernels = self.launch[self.is_kernel & (self.launch >= 0)]
        if not len(kernels):
            return
        launch, count = counted(kernels)
        graph = self.host.is_graph_launch[launch]
        many, graphs = int(count[graph].sum()), int(graph.sum())
        text = f"{plural(graphs, 'graph launch', 'graph launches')} started {many:,} GPU events"
        ledger.note("graph_launch", graphs, text)
        plain = ~graph & (count > 1) & self.host.is_launch[launch]
        ledger.note("corr_duplicate", int(plain.sum()))

    def _note_lost(self, callers: Ints, given: Ints, ledger: LedgerBuilder) -> None:
        """Launches without their GPU event: the profiler dropped records and left no other mark.

        A launch during a graph capture has none.
        """
        if not len(self.id):
            ledger.note("no_gpu_events")
            return
        launching = self.host.is_launch[callers]
        launching &= ~self.host.captures.holds(self.host.start[callers])
        launches = callers[launching]
        lost = ~np.isin(given[launching], self.correlation) & ~np.isin(launches, self.launch)
        if lost.any():
            count, share = int(lost.sum()), lost.sum() / len(launches)
            text = f"{count:,} of {len(launches):,} launches ({share:.1%}) have no GPU event"
            ledger.note("gpu_events_missing", count, f"{text} in this trace")

    def _note_overruns(self, ledger: LedgerBuilder) -> None:
        """A stream runs its work in turn: what outlasts the next has a false end, not in graphs."""
        rows = np.flatnonzero(self.usable & ~self.in_graph)
        rows = rows[np.lexsort((self.end[rows], self.start[rows], self.lane[rows]))]
        first, then = rows[:-1], rows[1:]
        follows = (self.lane[first] == self.lane[then]) & (self.start[then] > self.start[first])
        long = follows & (self.end[first] > self.end[then])
        if long.any():
            written = int(self.length[first[long]].sum())
            cut = int((self.start[then[long]] - self.start[first[long]]).sum())
            count = int(long.sum())
            text = f"{count:,} GPU events outlast the next one on their stream: {written:,} ns as "
            text += f"written, {cut:,} ns if each ends where the next begins"
            ledger.note("dur_overrun", count, text)

    @cached_property
    def launched(self) -> Ints:
        """When each was launched on the host; its own start where the launch is not recorded."""
        if not len(self.id):
            return self.start
        launch = self.host.start[np.maximum(self.launch, 0)]
        return np.where(self.launch >= 0, launch, self.start - self.lag)

    @cached_property
    def launch_order(self) -> Ints:
        """Rows in the order of their launches; first what was launched before the recording."""
        earliest = np.iinfo(np.int64).min
        return np.lexsort((self.start, np.where(self.before_recording, earliest, self.launched)))

    @cached_property
    def before_recording(self) -> Bools:
        """What was launched before the recording: it belongs to no step.

        A stream runs in order, so this is what has no launch here and ran before the first that
        has one. On a stream without any launch it is what began before the first recorded call.
        """
        found, unlinked = np.zeros(len(self.id), bool), (self.launch < 0) & ~self.untold
        calls = self.host.start[self.host.is_call & self.host.timed]
        if not unlinked.any() or not len(calls):
            return found
        first = np.full(int(self.lane.max()) + 1, calls.min() + self.lag, np.int64)
        linked = np.flatnonzero((self.launch >= 0) & self.usable)
        lanes, at = np.unique(self.lane[linked], return_index=True)  # rows are in time order
        first[lanes] = self.start[linked[at]]
        return unlinked & self.usable & (self.start < first[self.lane])

    @cached_property
    def lane(self) -> Ints:
        """A number for each (namespace, device, stream)."""
        return numbered(self.device_space, self.device, self.stream)

    @cached_property
    def device_number(self) -> Ints:
        """A number for each (namespace, device)."""
        return numbered(self.device_space, self.device)

    @cached_property
    def covered(self) -> tuple[IntervalUnion, ...]:
        """When each device was busy, in the order of `device_number`."""
        return tuple(
            IntervalUnion(self.start[mine], self.end[mine]) for mine in self.rows_by_device
        )

    @cached_property
    def rows_by_device(self) -> list[Ints]:
        """The rows that have a time, in time order, of every device up to the last used."""
        rows = np.flatnonzero(self.usable)
        number = self.device_number[rows]
        edges = np.searchsorted(np.sort(number), np.arange(1, int(number.max(initial=-1)) + 1))
        return np.split(rows[np.argsort(number, kind="stable")], edges) if len(rows) else []

    def busy(self, rows: Bools | Ints, since: int = EVER) -> int:
        """Time in which at least one of these was running, per device, summed over devices."""
        chosen = self._usable(rows)
        start, end = (np.maximum(each[chosen], since) for each in (self.start, self.end))
        return union_length(start, end, self.device_number[chosen])

    def shared(self, rows: Bools | Ints, since: int = EVER) -> Floats:
        """The time of every operation, 0 for others than these: what runs at once on a device
        shares it, so that they add up to `busy`.
        """
        chosen, time = self._usable(rows), np.zeros(len(self.id))
        start, end = (np.maximum(each[chosen], since) for each in (self.start, self.end))
        time[chosen] = shared_lengths(self.device_number[chosen], start, end)
        return time

    def idle_within(self, rows: Bools | Ints) -> int:
        """Time from the first to the last of these in which nothing ran, these or others."""
        chosen, idle = self._usable(rows), 0
        for mine in split_by(self.device_number[chosen], chosen):
            edges = np.array([self.start[mine].min(), self.end[mine].max()])
            busy = self.covered[int(self.device_number[mine[0]])]
            idle += int(edges[1] - edges[0] - busy.between(edges[:1], edges[1:])[0])
        return idle

    def span(self, rows: Bools | Ints) -> int:
        """First start to last end, per device, summed over devices."""
        chosen = self._usable(rows)
        if not len(chosen):
            return 0
        chosen = chosen[np.argsort(self.device_number[chosen], kind="stable")]
        device = self.device_number[chosen]
        edges = np.flatnonzero(np.diff(device, prepend=-1))
        last = np.maximum.reduceat(self.end[chosen], edges)
        return int((last - np.minimum.reduceat(self.start[chosen], edges)).sum())

    def _usable(self, rows: Bools | Ints) -> Ints:
        chosen: Ints = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64)
        return chosen[self.usable[chosen]]


def _number(text: str) -> int:
    number = whole(text.rsplit(" ", 1)[-1])
    return NONE if number is None else number
