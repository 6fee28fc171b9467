"""GPU time as stacks: the modules around the work, the pass, the op, the kernel.

Without recorded nn.Modules the stacks begin with the `record_function` ranges around the work.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.model.analysis import Analysis
from foretrace.model.autograd import AutogradNodes
from foretrace.model.intervals import Ints, numbered
from foretrace.model.module_calls import FORWARD, PREFIX, Owners
from foretrace.names import families

PASSES = ("forward", "backward", "recomputed")
NO_OP = "no op recorded"
Frame = tuple[str, str]  # module, range, pass, op, call or kernel; and the name


class Stack(Struct, frozen=True):
    """All GPU work with one stack, outermost first: its time and how often it ran."""

    frames: tuple[str, ...]
    ns: int
    count: int


class Scopes:
    """The modules or ranges that some host events belong to; the autograd nodes tell whose backward
    pass they are.
    """

    def __init__(self, trace: Analysis, events: Ints | None = None) -> None:
        self.trace, self.host = trace, trace.origins.host
        modules = trace.module_calls
        self.has_modules = bool(modules.is_module.any())
        self.chosen = modules.is_module if self.has_modules else self.host.is_region
        self.paths = modules.paths if self.has_modules else self.host.paths(self.chosen)
        if events is None and self.has_modules:
            self.owners = modules.owners
        else:
            events = trace.origins.launch_or_op if events is None else events
            nodes = modules.owners.nodes if self.has_modules else AutogradNodes(trace)
            self.owners = Owners(nodes, self.chosen, events)
        self._known: dict[int, tuple[str, ...]] = {}

    def names(self, row: int) -> tuple[str, ...]:
        """The modules or ranges of an event, outermost first."""
        call = int(self.owners.call[row])
        if call < 0:
            return ()
        if call not in self._known:
            names = self.paths.names(call, self.host.names)
            self._known[call] = tuple(name.removeprefix(PREFIX) for name in names)
        return self._known[call]

    def ran(self, row: int) -> str:
        """`forward`, `backward` or `recomputed`; "" for what no module owns."""
        return PASSES[self.owners.ran[row]] if self.owners.call[row] >= 0 else ""

    def frames(self, row: int, outside: str = "") -> tuple[Frame, ...]:
        """Modules or ranges and, where it is not the forward pass, the pass."""
        kind = "module" if self.has_modules else "range"
        found = [(kind, name) for name in self.names(row)]
        if not found and outside:
            found = [(kind, outside)]
        if self.owners.ran[row] != FORWARD and (ran := self.ran(row)):
            found.append(("pass", ran))
        return tuple(found)

    @cached_property
    def number(self) -> Ints:
        """A number for the path and the pass of each event."""
        return numbered(self.paths.numbers(self.owners.call), self.owners.ran)


class Stacks(Scopes):
    """The stack of every row of `gpu`; rows with one stack share a number."""

    def __init__(self, trace: Analysis) -> None:
        super().__init__(trace)
        self._place, self._outside = _numbered_text(
            trace.outside_modules if self.has_modules else [""] * len(trace.gpu)
        )

    def scopes(self, row: int) -> tuple[str, ...]:
        """The modules or ranges around a row's work, outermost first."""
        outside = self.outside(row)
        return self.names(row) or ((outside,) if outside else ())

    def outside(self, row: int) -> str:
        """What a row's work is called where no module owns it."""
        return self._outside[int(self._place[row])]

    @cached_property
    def stack(self) -> Ints:
        """The number of each row's stack."""
        host, op = self.host, self.trace.origins.op
        name = np.where(op >= 0, host.name[np.maximum(op, 0)], -1)
        return numbered(self.number, self._place, name, host.name[self.trace.gpu.id])

    def every(self) -> list[Stack]:
        """One entry for each distinct stack, in order of first launch."""
        gpu = self.trace.gpu
        if not len(gpu):
            return []
        _, first, where = np.unique(self.stack, return_index=True, return_inverse=True)
        times, counts = np.zeros(len(first), np.int64), np.bincount(where)
        np.add.at(times, where, gpu.length)
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for at in np.argsort(first).tolist():
            frames = self._frames(int(first[at]))
            ns, count = found.get(frames, (0, 0))  # two kernels may have one short name
            found[frames] = ns + int(times[at]), count + int(counts[at])
        return [Stack(frames, *both) for frames, both in found.items()]

    def _frames(self, row: int) -> tuple[str, ...]:
        host, op = self.host, int(self.trace.origins.op[row])
        named = host.names[host.name[op]] if op >= 0 else NO_OP
        around = self.frames(row, self.outside(row))
        return (*(name for _, name in around), named, kernel_frame(self.trace, row)[1])


def kernel_frame(trace: Analysis, row: int) -> Frame:
    """A row's kernel by its short name."""
    name = trace.host.names[trace.host.name[trace.gpu.id[row]]]
    return "kernel", families.decode(name).short or name


def _numbered_text(texts: list[str]) -> tuple[Ints, list[str]]:
    distinct = sorted(set(texts))
    number = {text: at for at, text in enumerate(distinct)}
    return np.array([number[text] for text in texts], np.int64), distinct
