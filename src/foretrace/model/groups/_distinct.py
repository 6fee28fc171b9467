"""The distinct kinds of GPU work of a trace: a million launches are some hundred of them."""

from __future__ import annotations

import numpy as np

from foretrace.model.groups._group import GpuWork
from foretrace.model.intervals import Ints, numbered
from foretrace.model.module_calls import ModuleCalls, class_of
from foretrace.model.recording import Recording
from foretrace.names import families

# Ops whose sizes say what they are for; the arguments of the others do not matter here.
SIZED = frozenset({"aten::cat", "aten::copy_", "aten::index_copy_", "aten::index_put_"})


class Distinct:
    """`kinds` has one entry per kind; `kind` is the place in it of every row of `gpu`."""

    def __init__(self, trace: Recording, modules: ModuleCalls) -> None:
        self.trace, self.modules, gpu, origins = trace, modules, trace.gpu, trace.origins
        host, op = origins.host, origins.op
        above = (host.is_op | host.is_region) & host.lasting
        self.paths = host.paths(above)
        self.event: Ints = host.nearest(origins.launch, above)
        lost = (self.event < 0) & (op >= 0)  # linked to an op, not to a launch
        self.event[lost] = op[lost]
        sized = host.named(SIZED.__contains__)[np.maximum(op, 0)] & (op >= 0)
        self.signature: Ints = np.where(sized, origins.arguments.numbers(op), -1)
        classes, module = self._classes()
        columns = (
            host.name[gpu.id],
            self.paths.numbers(self.event),
            self.signature,
            module,
        )
        _, first, self.kind = np.unique(numbered(*columns), return_index=True, return_inverse=True)
        self.kinds = [self._work(row, classes[module[row]]) for row in first.tolist()]

    def _classes(self) -> tuple[list[str], Ints]:
        """Classes of modules, "" last, and the place of each row's: -1 without a module."""
        host, own = self.trace.origins.host, self.modules.own
        name = np.where(own >= 0, host.name[np.maximum(own, 0)], -1)
        numbers, place = np.unique(name, return_inverse=True)
        written = [class_of(host.names[number]) if number >= 0 else "" for number in numbers]
        classes = sorted({*written, ""}, reverse=True)
        return classes, np.array([classes.index(each) for each in written], np.int64)[place]

    def _work(self, row: int, module: str) -> GpuWork:
        trace, origins = self.trace, self.trace.origins
        host = origins.host
        event, number = int(self.event[row]), int(self.signature[row])
        path = self.paths.names(event, host.names)
        op = int(origins.op[row])
        name = host.names[host.name[trace.gpu.id[row]]]
        call = None
        if number >= 0:
            call = origins.arguments.signatures[number].call(host.names[host.name[op]])
        decoded = families.decode(name)
        role = families.role_for(name, host.names[host.name[op]] if op >= 0 else None)
        return GpuWork(decoded, role, path, call, module)
