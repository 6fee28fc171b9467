"""The nn.Modules of a trace: which of them launched what, where the profiler recorded them.

`with_stack` and `with_modules` write one event per call of a module, named `nn.Module: CLASS_N`.
The number tells the instances of a class apart. A launch belongs to every module around it; its own
module is the innermost. The work of the backward pass belongs to the module of the forward op that
it is the backward of (`model/module_owners.py`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.about import device_of
from foretrace.model.autograd import AutogradNodes
from foretrace.model.intervals import Bools, Ints
from foretrace.model.module_memory import kept_bytes
from foretrace.model.module_owners import PASSES, Owners
from foretrace.model.paths import Paths, summed
from foretrace.model.utilization import ideal_times

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

PREFIX = "nn.Module: "
OUTSIDE, UNKNOWN = "outside modules", "module not known"
# groups of GPU work that a reader looks for by name where no module owns them
NAMED = {
    "optimizer": "optimizer",
    "gradient accumulation": "gradient accumulation",
    "gradient sums": "gradient accumulation",
    "loss": "loss",
}


class ModuleWork(Struct, frozen=True):
    """One module: its calls, and the GPU work of it and of the modules that it called.

    `kernels` and `gpu_ns` are what was launched inside its calls. `forward_ns`, `backward_ns` and
    `recomputed_ns` are all that belongs to it. `flops` are those of its matmuls and attention, and
    `flop_ns` is the time that they take at the peak; None where none is known. `memory_bytes` is
    what its calls allocated on the GPU less what they freed. A row of work that no module owns has
    the kind "".
    """

    name: str
    kind: str
    path: tuple[str, ...]
    calls: int
    kernels: int
    gpu_ns: int
    forward_ns: int
    backward_ns: int
    recomputed_ns: int
    flops: int | None = None
    flop_ns: float | None = None
    memory_bytes: int | None = None

    @property
    def total_ns(self) -> int:
        """GPU time of all three."""
        return self.forward_ns + self.backward_ns + self.recomputed_ns


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
    def owners(self) -> Owners:
        """The module call that each GPU row belongs to, the backward pass included."""
        return Owners(AutogradNodes(self.trace), self.is_module, self.trace.origins.launch_or_op)

    @cached_property
    def paths(self) -> Paths:
        """The paths of module calls."""
        return self.trace.origins.host.paths(self.is_module)

    def path(self, event: int) -> tuple[str, ...]:
        """The names of the modules at and around a module call, outermost first."""
        names = self.paths.names(event, self.trace.origins.host.names)
        return tuple(name.removeprefix(PREFIX) for name in names)

    @cached_property
    def rows(self) -> list[ModuleWork]:
        """Every module in order of first call, then what none owns; empty without modules.

        Work in a nested module counts for both. The rows without a path add up to all GPU time.
        """
        events = np.flatnonzero(self.is_module)
        if not len(events):
            return []
        _, first, place = np.unique(
            self.paths.numbers(self.owners.first_call[events]),
            return_index=True,
            return_inverse=True,
        )
        calls = np.bincount(place)
        sums = [np.bincount(place, weights=each[events]) for each in self._below()]
        own = kept_bytes(self.trace, self.paths)
        kept = own if own is None else np.bincount(place, summed(self.paths.above, own)[events])
        rows = []
        for at in np.argsort(first).tolist():
            path = self.path(int(self.owners.first_call[events[first[at]]]))
            row = _row(path, int(calls[at]), [column[at] for column in sums])
            rows.append(row if kept is None else replace(row, memory_bytes=int(kept[at])))
        return [*rows, *self._outside()]

    def _below(self) -> list[Ints]:
        """The columns of `_columns`, summed over each module call and those inside it."""
        inside, call = self.owners.first_call[self.own], self.owners.call
        columns = self._columns()
        held = [inside, inside, *([call] * (len(columns) - 2))]
        return [self._summed(*pair) for pair in zip(held, columns, strict=True)]

    def _summed(self, call: Ints, values: Ints) -> Ints:
        own = np.zeros(len(self.paths.above), values.dtype)
        np.add.at(own, call[call >= 0], values[call >= 0])
        return summed(self.paths.above, own)

    def _columns(self) -> list[Ints]:
        """Of every GPU row: kernels, time, time by pass; of known FLOP count, sum, least time."""
        gpu = self.trace.gpu
        ideal = ideal_times(self.trace, device_of(self.trace.about))
        known = ideal.matmul & ~np.isnan(ideal.flops)
        return [
            gpu.is_kernel.astype(np.int64),
            gpu.length,
            *(np.where(self.owners.ran == each, gpu.length, 0) for each in PASSES),
            known.astype(np.int64),
            np.where(known, ideal.flops, 0.0),
            np.where(known, ideal.flop_ns, 0.0),
        ]

    @cached_property
    def outside(self) -> list[str]:
        """For every GPU row the name of its row where no module owns it, else ""."""
        owned, lost, groups = self.owners.call >= 0, self.owners.lost, self.trace.grouped
        named = [NAMED.get(name, "") for name in groups.names]
        return [
            "" if mine else named[group] or (UNKNOWN if untold else OUTSIDE)
            for mine, untold, group in zip(
                owned.tolist(), lost.tolist(), groups.group.tolist(), strict=True
            )
        ]

    def _outside(self) -> list[ModuleWork]:
        """What no module owns, by name, most time first."""
        columns, names = self._columns(), np.array(self.outside, np.dtypes.StringDType())
        found = [
            _row((name,), 0, [column[names == name].sum() for column in columns], kind="")
            for name in sorted({*self.outside} - {""})
        ]
        return sorted(found, key=lambda row: -row.total_ns)


def _row(
    path: tuple[str, ...], calls: int, values: list[float], kind: str | None = None
) -> ModuleWork:
    *times, known, flops, at_peak = values
    kernels, inside, forward, backward, recomputed = map(int, times)
    return ModuleWork(
        *(path[-1], class_of(path[-1]) if kind is None else kind, path[:-1], calls),
        *(kernels, inside, forward, backward, recomputed),
        flops=int(flops) if known else None,
        flop_ns=float(at_peak) if known and not np.isnan(at_peak) else None,
    )
