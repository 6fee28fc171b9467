"""The nn.Modules of a trace: which of them launched what, where the profiler recorded them.

`with_stack` and `with_modules` write one event per call of a module, named `nn.Module: CLASS_N`.
The number tells the instances of a class apart. A launch belongs to every module around it; its own
module is the innermost. The backward pass runs outside the modules, on a thread of its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Bools, Ints
from foretrace.model.paths import Paths, summed

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

PREFIX = "nn.Module: "


class ModuleWork(Struct, frozen=True):
    """One module: its calls, and what was launched in it and in the modules that it called."""

    name: str
    kind: str
    path: tuple[str, ...]
    calls: int
    kernels: int
    gpu_ns: int


def class_of(name: str) -> str:
    """`nn.Module: LlamaRMSNorm_3` -> `LlamaRMSNorm`."""
    stem, _, number = name.removeprefix(PREFIX).rpartition("_")
    return stem if number.isdigit() else name.removeprefix(PREFIX)


class Modules:
    """The modules of one trace; `own` is the event of the innermost module of each GPU row."""

    def __init__(self, trace: Trace) -> None:
        self.trace, host = trace, trace.origins.host
        is_python = host.is_kind("python_function") & host.lasting
        self.is_module: Bools = is_python & host.named(self.is_ours)
        launches = trace.origins.launch
        none = np.full(len(launches), -1, np.int64)
        self.own: Ints = host.nearest(launches, self.is_module) if self.is_module.any() else none

    def is_ours(self, name: str) -> bool:
        """Whether an event of this name is a call of a module."""
        return name.startswith(PREFIX)

    @cached_property
    def _paths(self) -> Paths:
        return self.trace.origins.host.paths(self.is_module)

    @cached_property
    def rows(self) -> list[ModuleWork]:
        """Every module in order of first call. Work in a nested module counts for both."""
        events = np.flatnonzero(self.is_module)
        number = self._paths.numbers(events)
        kernels, time = self._below(events)
        _, first, place = np.unique(number, return_index=True, return_inverse=True)
        sums = [np.bincount(place, weights=each).astype(np.int64) for each in (kernels, time)]
        calls = np.bincount(place)
        return [
            self._row(int(events[first[at]]), int(calls[at]), int(sums[0][at]), int(sums[1][at]))
            for at in np.argsort(first).tolist()
        ]

    def _row(self, event: int, calls: int, kernels: int, time: int) -> ModuleWork:
        path = self._paths.names(event, self.trace.origins.host.names)
        path = tuple(name.removeprefix(PREFIX) for name in path)
        return ModuleWork(path[-1], class_of(path[-1]), path[:-1], calls, kernels, time)

    def _below(self, events: Ints) -> tuple[Ints, Ints]:
        """Kernels, and GPU time of all work, launched in each module call."""
        gpu, parent = self.trace.gpu, self._paths.above
        own, kernels, time = self.own[self.own >= 0], *np.zeros((2, len(parent)), np.int64)
        np.add.at(kernels, own, gpu.is_kernel[self.own >= 0])
        np.add.at(time, own, gpu.length[self.own >= 0])
        return summed(parent, kernels)[events], summed(parent, time)[events]
