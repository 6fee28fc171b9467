"""GPU time as stacks: the modules around the work, the pass, the op, the kernel.

Without recorded nn.Modules the stacks begin with the `record_function` ranges around the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from foretrace import families
from foretrace.model.autograd import AutogradNodes
from foretrace.model.intervals import Ints, numbered
from foretrace.model.module_owners import FORWARD, Owners
from foretrace.model.modules import PREFIX

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_RAN = ("forward", "backward", "recomputed")
NO_OP = "no op recorded"


class Stack(Struct, frozen=True):
    """All GPU work with one stack, outermost first: its time and how often it ran."""

    frames: tuple[str, ...]
    ns: int
    count: int


class Stacks:
    """The stack of every row of `gpu`; rows with one stack share a number."""

    def __init__(self, trace: Trace) -> None:
        self.trace, host = trace, trace.origins.host
        modules = trace.modules
        self.has_modules = bool(modules.is_module.any())
        scope = modules.is_module if self.has_modules else host.is_region
        self.owners = (
            modules.owners
            if self.has_modules
            else Owners(trace.origins, AutogradNodes(trace), scope)
        )
        self.paths = modules.paths if self.has_modules else host.paths(scope)
        self._known: dict[int, tuple[str, ...]] = {}
        self.place, self.outside = _numbered_text(modules.outside if self.has_modules else None)

    def scopes(self, row: int) -> tuple[str, ...]:
        """The modules or ranges around a row's work, outermost first."""
        call = int(self.owners.call[row])
        if call < 0:
            name = self.outside[self.place[row]] if self.outside else ""
            return (name,) if name else ()
        if call not in self._known:
            names = self.paths.names(call, self.trace.origins.host.names)
            self._known[call] = tuple(name.removeprefix(PREFIX) for name in names)
        return self._known[call]

    def ran(self, row: int) -> str:
        """`forward`, `backward` or `recomputed`; "" for what no module owns."""
        return _RAN[self.owners.ran[row]] if self.owners.call[row] >= 0 else ""

    def every(self) -> list[Stack]:
        """One entry for each distinct stack, in order of first launch."""
        gpu, host, op = self.trace.gpu, self.trace.origins.host, self.trace.origins.op
        if not len(gpu):
            return []
        name = np.where(op >= 0, host.name[np.maximum(op, 0)], -1)
        path, kernel = self.paths.numbers(self.owners.call), host.name[gpu.id]
        place = self.place if self.outside else np.zeros(len(gpu), np.int64)
        number = numbered(path, place, self.owners.ran, name, kernel)
        _, first, where = np.unique(number, return_index=True, return_inverse=True)
        times, counts = np.zeros(len(first), np.int64), np.bincount(where)
        np.add.at(times, where, gpu.length)
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for at in np.argsort(first).tolist():
            frames = self._frames(int(first[at]))
            ns, count = found.get(frames, (0, 0))  # two kernels may have one short name
            found[frames] = ns + int(times[at]), count + int(counts[at])
        return [Stack(frames, *both) for frames, both in found.items()]

    def _frames(self, row: int) -> tuple[str, ...]:
        host, op = self.trace.origins.host, int(self.trace.origins.op[row])
        kernel = host.names[host.name[self.trace.gpu.id[row]]]
        ran = [self.ran(row)] if self.owners.ran[row] != FORWARD and self.ran(row) else []
        named = host.names[host.name[op]] if op >= 0 else NO_OP
        return (*self.scopes(row), *ran, named, families.decode(kernel).short or kernel)


def _numbered_text(texts: list[str] | None) -> tuple[Ints, list[str]]:
    if not texts:
        return np.zeros(0, np.int64), []
    distinct = sorted(set(texts))
    number = {text: at for at, text in enumerate(distinct)}
    return np.array([number[text] for text in texts], np.int64), distinct
