"""Where GPU work comes from: the launch and the op of every row of `gpu`.

An eager kernel has them in its own trace. A kernel that a graph replays has them in the trace that
was recorded while the graph was captured, where one was found (`model/captures`). Chains, shapes,
modules, stacks and costs ask here, and need not know which of the two it is. What happened on the
host during the recording (steps, delays, idle time) asks `trace.host` and `trace.gpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from foretrace.model.arguments import Arguments
from foretrace.model.captures import Captured, append_tables
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host
from foretrace.model.intervals import Bools, Ints, numbered
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import Tables


class WorkOrigins:
    """`host` has the events of the trace under their own numbers, then those of its captures.

    `launch` and `op` are events of `host`, or -1, for every row of `gpu`. `tables` are the side
    tables of `host`: `autograd`, `comms`, `frames`, `launches`, `shapes`, `signatures`, `stacks`,
    `triton`.
    """

    def __init__(
        self, tables: Tables, gpu: Gpu, captured: Captured, captures: Sequence[tuple[Tables, Host]]
    ) -> None:
        joined = captured.launch >= 0
        self.host, self.tables = gpu.host, tables
        self._gpu, self.launch, self.op = gpu, gpu.launch, gpu.op
        self.is_captured: Bools = joined
        if joined.any():
            self.tables, first = append_tables(tables, [each for each, _ in captures])
            parts = [gpu.host, *(each for _, each in captures)]
            self.host = Host(self.tables, LedgerBuilder(), parts)
            offset = np.array(first, np.int64)[captured.capture[joined]]
            self.launch, self.op = gpu.launch.copy(), gpu.op.copy()
            self.launch[joined] = captured.launch[joined] + offset
            self.op[joined] = self.host.nearest_op(self.launch[joined])

    @cached_property
    def arguments(self) -> Arguments:
        """The recorded arguments of the op calls of `host`."""
        return Arguments(self.tables)

    @cached_property
    def launched(self) -> Ints:
        """When each row was launched, by the clock of the trace that recorded the launch; its own
        start where none did.
        """
        if not self.is_captured.any():
            return self._gpu.launched
        launch = self.host.start[np.maximum(self.launch, 0)]
        return np.where(self.launch >= 0, launch, self._gpu.start)

    @cached_property
    def launch_or_op(self) -> Ints:
        """The launch of every row, its op where the trace has no launch, or -1."""
        return np.where(self.launch >= 0, self.launch, self.op)

    @cached_property
    def call(self) -> Ints:
        """A number for each call of an op as it ran, or -1; see `calls`."""
        return self.calls(self.op)

    def calls(self, events: Ints) -> Ints:
        """One event of `host` for every row of `gpu`, or -1: a number for each time that it ran.
        Every replay of a graph runs the calls of its capture anew.
        """
        if not self.is_captured.any():
            return events
        replay = np.where(self.is_captured, self._gpu.launch, -1)
        return np.where(events >= 0, numbered(events, replay), -1)

    @cached_property
    def is_first(self) -> Bools:
        """The rows without the second and later replays of what was captured once."""
        first = ~self.is_captured
        captured = np.flatnonzero(self.is_captured)
        first[captured[np.unique(self.launch[captured], return_index=True)[1]]] = True
        return first
