"""The graphs that captures hold, and what is known about their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from foretrace.model.arguments import Signature
from foretrace.model.captures import batch
from foretrace.model.captures.windows import CaptureWindow, windows
from foretrace.model.costs import OpCall
from foretrace.model.module_calls import PREFIX
from foretrace.model.recording import Recording


class Graph:
    """One window of the capture at `place`; `size` is its batch size where something states it."""

    def __init__(
        self, place: int, trace: Recording, window: CaptureWindow, size: int | None
    ) -> None:
        self.place, self.trace, self.window, self.size = place, trace, window, size
        self.ops = trace.host.nearest_op(window.events).tolist()

    @cached_property
    def chains(self) -> list[tuple[str, ...]]:
        """The ops around each node's launch."""
        return [self.trace.host.op_chain(op) for op in self.ops]

    @cached_property
    def calls(self) -> list[OpCall | None]:
        """The recorded arguments of each node's op."""
        host, found = self.trace.host, self._arguments
        names = [host.names[host.name[op]] if op >= 0 else "" for op in self.ops]
        pairs = zip(found, names, strict=True)
        return [None if each is None else each.call(name) for each, name in pairs]

    @cached_property
    def _arguments(self) -> list[Signature | None]:
        # not from `origins`: the trace may hold its own captures, and these come first
        return [self.trace.arguments.of(op) for op in self.ops]

    @cached_property
    def identities(self) -> list[Any]:
        """What tells the nodes of two graphs apart: ops, arguments and modules."""
        host = self.trace.host
        modules = host.is_kind("python_function") & host.named(lambda name: name.startswith(PREFIX))
        paths = host.paths(modules)
        own = host.nearest(self.window.events, modules).tolist()
        names = [paths.names(event, host.names) if event >= 0 else () for event in own]
        return list(zip(self.chains, self._arguments, names, strict=True))


def graphs_of(captures: Sequence[Recording], sizes: Sequence[int | None]) -> list[Graph]:
    """Every graph, in the order of the captures; `sizes` are those of whole files, where known."""
    found = []
    for place, (trace, size) in enumerate(zip(captures, sizes, strict=True)):
        made = windows(trace)
        stated = batch.around(trace, np.array([window.begin for window in made], np.int64))
        found += [
            Graph(place, trace, window, size if own is None else own)
            for window, own in zip(made, stated, strict=True)
        ]
    return found
