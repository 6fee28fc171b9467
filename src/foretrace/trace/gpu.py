"""The GPU side: kernels, copies and fills, each with its launch, its op and its step.

Links go by correlation id. A graph launch carries all its kernels. What was launched before the
recording has no launch here, belongs to no step, and is counted as such.

Which call launched which GPU operation: by correlation id, within one process.

Ids repeat from process to process. A merged file may hold several, and its GPU events do not state
theirs. Then the process is that of the only launch with this id that fits: its pid, its External
id, no other launch came before the operation, or all others started something else. What remains
open is decided by the device, if all that is known to run there comes from one process. Otherwise
the operation stays unlinked: a false link is worse than none.

A delay or a cause of idle time needs one clock for host and GPU (`disagreement`). A queue may delay
every operation of a recording, but not for a minute, and not for longer than the whole recording
while the GPU did nothing else. Nothing starts a millisecond before its launch.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from foretrace.base.arrays import counted, distinct, filled, is_in
from foretrace.base.units import plural, time_text, whole
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import NONE, WORK_KINDS, Tables
from foretrace.trace.host import HOST_KINDS, Host
from foretrace.trace.intervals import (
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


class Linker:
    """The calls by id and process, and the GPU operations (`rows`) that look for theirs."""

    def __init__(
        self, host: Host, ids: tuple[Ints, Ints], callers: Ints, rows: Ints, device: Ints
    ) -> None:
        """`ids` are the correlation and the External id of every event; unknown is NONE."""
        self.host, (correlation, self.external) = host, ids
        self.rows, self.device = rows, device
        both = np.concatenate((callers, rows))
        key = numbered(host.namespace[both], correlation[both])
        given, self.wanted = key[: len(callers)], key[len(callers) :]
        order = np.lexsort((host.start[callers], host.process[callers], given))
        self.calls, self.start = callers[order], host.start[callers[order]]
        self.process = host.process[self.calls]
        given = given[order]
        self.low = np.searchsorted(given, self.wanted, "left")
        self.high = np.searchsorted(given, self.wanted, "right")
        again = (given[1:] == given[:-1]) & (self.process[1:] == self.process[:-1])
        self.crowded = np.union1d(self.calls[1:][again], self.calls[:-1][again])

    def run(self) -> tuple[Ints, int, Bools]:
        """The call of every operation or -1, how many ids several calls of one process used, and
        which operations have launches in several processes.

        Most ids belong to one call; the others are looked at one by one.
        """
        launch, untold = np.full(len(self.rows), -1, np.int64), np.zeros(len(self.rows), np.bool_)
        several = np.flatnonzero(self.high - self.low > 1)
        one = self.high - self.low == 1
        launch[one] = self.calls[self.low[one]]
        fitting = {at: self._fitting(at) for at in several.tolist()}
        for at, found in fitting.items():
            launch[at], untold[at] = (found[0], False) if len(found) == 1 else (-1, True)
        if untold.any():
            self._by_elimination(launch, untold, fitting)
            self._by_device(launch, untold, fitting)
        repeated = distinct(self.wanted[several][is_in(launch[several], self.crowded)])
        return launch, len(repeated), untold

    def _fitting(self, at: int) -> list[int]:
        """The nearest earlier call of each process that may have launched this operation."""
        row, start = int(self.rows[at]), self.host.start[self.rows[at]]
        calls = self._nearest(int(self.low[at]), int(self.high[at]), int(start))
        host, external = self.host, self.external
        same = [call for call in calls if external[call] == external[row] != NONE]
        earlier = [call for call in same or calls if host.start[call] <= start]
        own = [call for call in calls if host.process[call] == host.process[row]]
        return own or (earlier if len(earlier) == 1 and host.timed[row] else same or calls)

    def _nearest(self, low: int, high: int, start: int) -> list[int]:
        """Of each process the last call that began before `start`, or else its first."""
        found: list[int] = []
        while low < high and len(found) <= 16:  # with one id: more are not told apart
            stop = low + int(np.searchsorted(self.process[low:high], self.process[low], "right"))
            begun = int(np.searchsorted(self.start[low:stop], start, "right"))
            found.append(int(self.calls[max(low + begun - 1, low)]))
            low = stop
        return found

    def _by_elimination(self, launch: Ints, untold: Bools, fitting: dict[int, list[int]]) -> None:
        """Link what has one launch left that started nothing else; only graphs start several."""
        taken = set(launch[launch >= 0].tolist())
        for at in np.flatnonzero(untold).tolist():
            graphs = self.host.is_graph_launch
            free = [call for call in fitting[at] if call not in taken or graphs[call]]
            if len(free) == 1:
                launch[at], untold[at] = free[0], False
                taken.add(free[0])

    def _by_device(self, launch: Ints, untold: Bools, fitting: dict[int, list[int]]) -> None:
        """Link what is open where the device has one process, and one operation with this id."""
        owner: dict[int, int] = {}
        linked = launch >= 0
        pairs = np.stack((self.device[linked], self.host.process[launch[linked]]))
        for device, process in np.unique(pairs, axis=1).T.tolist():
            owner[device] = -1 if device in owner else process
        place = numbered(self.wanted, self.device)
        alone = np.bincount(place)[place] == 1  # a plain launch starts only one
        for at in np.flatnonzero(untold & alone).tolist():
            process = owner.get(int(self.device[at]), -1)
            mine = [call for call in fitting[at] if self.host.process[call] == process]
            if mine:
                launch[at], untold[at] = mine[0], False


_MILLISECOND, _SECOND = 10**6, 10**9
_MINUTE = 60 * _SECOND
_MOST = 0.9  # the share of a device's operations that must agree


def disagreement(host: Host, device: Ints, start: Ints, delay: Ints, linked: Bools) -> int:
    """How far the clock of the worst device is from the host's, in ns; 0 where they agree.

    `device` is a number for each; `delay` is from the launch to the start, where it is `linked`.
    """
    rows = np.flatnonzero(host.lasting & host.is_kind(*HOST_KINDS, "span"))
    if not len(rows) or not len(start):
        return 0
    low, high = int(host.start[rows].min()), int(host.end[rows].max())
    first = np.full(int(device.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, device, start)
    least, most, found = _quantiles(device[linked], delay[linked])
    idle_till_late = (least > max(high - low, _SECOND)) & (first[found] > high)
    wrong = (least > _MINUTE) | idle_till_late | (most < -_MILLISECOND)
    linked_by = np.where(most < 0, most, least)[wrong]
    unlinked = np.delete(first, found)
    beside = np.maximum(unlinked - high, low - unlinked)[unlinked < np.iinfo(np.int64).max]
    apart = np.concatenate((np.abs(linked_by), beside[beside > max(high - low, _MINUTE)]))
    return int(apart.max(initial=0))


def _quantiles(device: Ints, delay: Ints) -> tuple[Ints, Ints, Ints]:
    """What most delays of each device exceed, and what most do not; and those devices."""
    order = np.lexsort((delay, device))
    found, begin, count = np.unique(device[order], return_index=True, return_counts=True)
    low = begin + ((1 - _MOST) * (count - 1)).astype(np.int64)
    high = begin + np.ceil(_MOST * (count - 1)).astype(np.int64)
    return delay[order][low], delay[order][high], found


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
        # coarse times of what follows at once cross by up to their resolution
        coarse = tables.resolution_ns if tables.resolution_ns > 1 else 0
        crossing = overlapping(lanes, start, end - coarse)
        text = f"{crossing:,} GPU events start before the one ahead on their stream has ended"
        ledger.note("stream_overlap", crossing, text)
        # A stream runs its work in turn: what outlasts the next has a false end, not in graphs
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

    def __len__(self) -> int:
        return len(self.id)

    def ahead(self, rows: Ints) -> Ints:
        """The place among these rows of the one before each on its stream; -1 where none is."""
        order = np.lexsort((self.start[rows], self.lane[rows]))
        lane, found = self.lane[rows[order]], np.full(len(rows), -1)
        found[order[1:]] = np.where(lane[1:] == lane[:-1], order[:-1], -1)
        return found

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
            numbers = [whole(text.rsplit(" ", 1)[-1]) for text in texts]
            written = np.array([NONE if each is None else each for each in numbers], np.int64)
            drawn = written[self.host.track[self.id]]
            if name == "pid":
                self.misplaced: Bools = (column != NONE) & (column != drawn) & (drawn >= 0)
                self.misplaced &= drawn < 64  # of a machine: a larger number is that of a process
            np.copyto(column, drawn, where=column == NONE)
        self.device_space = self.host.namespace[self.id]

    def _links(self, events: pl.DataFrame, ledger: LedgerBuilder) -> None:
        ids, external = (filled(events[name], NONE) for name in ("correlation", "external_id"))
        self.correlation: Ints = ids[self.id]
        linkable = (self.correlation != NONE) & (self.correlation != 0)
        ledger.note("corr_zero", int((self.correlation == 0).sum()))
        usual = (ids != NONE) & (ids != 0)
        callers = np.flatnonzero(self.host.is_call & usual)
        given = ids[callers]
        self._by_correlation((ids, external), callers, linkable, ledger)
        self.op = self.host.nearest_op(self.launch)
        self._by_external(np.flatnonzero(~linkable & (self.correlation != 0)), external)
        unlinked = int((self.launch < 0).sum())
        ledger.note("kernel_unlinked", unlinked, _UNTOLD if self.untold.any() else "")
        # From launch to start; unknown where the clocks of GPU and host disagree (`aligned`)
        call = np.maximum(self.launch, 0)
        known = self.usable & (self.launch >= 0)
        if len(self.id):
            known &= self.host.timed[call]
        self.delay = np.where(known, self.start - self.host.start[call], NONE)
        early = known & (self.delay < 0)
        columns = (self.device_number, self.start, self.delay)
        place, start, delay = (column[self.usable] for column in columns)
        shift = disagreement(self.host, place, start, delay, known[self.usable])
        self.aligned = not shift
        if shift:
            text = f"the clocks of GPU and host are {time_text(shift)} apart: no delay and no cause"
            ledger.note("clock_mismatch", text=f"{text} of idle time is known")
            self.delay[:] = NONE
        else:
            ledger.note("kernel_before_launch", int(early.sum()))
            self.delay[early] = NONE
        self._note_fan_out(ledger)
        self._note_lost(callers, given, ledger)

    def _by_correlation(
        self, ids: tuple[Ints, Ints], callers: Ints, linkable: Bools, ledger: LedgerBuilder
    ) -> None:
        rows = np.flatnonzero(linkable)
        linker = Linker(self.host, ids, callers, self.id[rows], self.device[rows])
        self.launch = np.full(len(self.id), -1, np.int64)
        self.untold = np.zeros(len(self.id), np.bool_)
        self.launch[rows], repeated, self.untold[rows] = linker.run()
        ledger.note("corr_duplicate", repeated)
        untold = int(self.untold.sum())
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

        A launch during a graph capture has none. Kineto drops records whose times lie outside of
        the session, by its own clock: those at its start, those at its end, or all. It counts them
        in its log, with those of warm-up steps, which nobody misses.
        """
        if not len(self.id):
            ledger.note("no_gpu_events")
        launching = self.host.is_launch[callers]
        launching &= ~self.host.captures.holds(self.host.start[callers])
        launches = callers[launching]
        lost = ~is_in(given[launching], self.correlation) & ~is_in(launches, self.launch)
        if lost.any():
            count, share = int(lost.sum()), lost.sum() / len(launches)
            first, last = lost[:count].all(), lost[-count:].all()
            ends = {"all": lost.all(), "the first": first, "the last": last}
            which = next((f"{word} " for word, holds in ends.items() if holds), "")
            text = f"{which}{count:,} of {len(launches):,} launches ({share:.1%}) have no GPU event"
            ledger.note("gpu_events_missing", count, f"{text} in this trace")

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
        rows = self.rows_by_device
        return tuple(IntervalUnion(self.start[mine], self.end[mine]) for mine in rows)

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
