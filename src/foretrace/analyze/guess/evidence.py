"""GPU operations of a trace: name, role, op chain and ops, decoded once per distinct one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from foretrace.analyze.fixes import Predicted
from foretrace.analyze.fixes._typical import predicted
from foretrace.analyze.guess.kernel_ops import (
    callers,
    performed,
    possible,
    recorded_ops,
    settled_ops,
    with_records,
)
from foretrace.analyze.rules._common import cast_of
from foretrace.model.cpu_ops import computing_ops, runs_on_cpu
from foretrace.model.intervals import Bools, Ints
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.schema import compiled
from foretrace.schema.kernel import KernelId

_COLUMNS = (
    "flops bytes cost_certainty cost_note grid block registers shared_memory occupancy stream "
    "launch_name"
)


@dataclass(frozen=True, slots=True)
class GpuOperation:
    """One distinct kernel, memcpy or memset.

    `does` are the ops it performs, `may_do` those of which the trace does not say, `chain` the ops
    above it, outermost first.
    """

    name: str
    kind: str
    ident: KernelId
    role: str
    chain: tuple[str, ...]
    does: frozenset[str]
    may_do: frozenset[str] = frozenset()

    @property
    def function(self) -> str:
        """The bare function of a C++ name: `vectorized_elementwise_kernel`."""
        return self.name.split("<")[0].split("(")[0].split("::")[-1].removeprefix("void ")

    @property
    def label(self) -> str:
        """A short name for people."""
        return self.ident.short if self.kind == "kernel" else self.name


class Evidence:
    """What predictions are measured on: the GPU operations of one trace, by row of `trace.gpu`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        gpu, host, origins = trace.gpu, trace.host, trace.origins
        chain = origins.host.op_paths.numbers(origins.op)
        keys = np.stack((gpu.kind, host.name[gpu.id], chain), 1)
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        self._number: Ints = inverse.reshape(-1)
        self.masks: dict[Hashable, Bools] = {}
        self.operations = self._decoded(first.tolist())

    def _decoded(self, first: list[int]) -> list[GpuOperation]:
        """Each distinct operation, of which `first` has a row."""
        gpu, roles = self.trace.gpu, self.trace.work_roles
        origins = self.trace.origins
        chains = [origins.host.op_chain(int(origins.op[row])) for row in first]
        idents = [families.decode(self.name(gpu.id[row])) for row in first]
        pairs = zip(idents, gpu.is_kernel[first].tolist(), strict=True)
        apart = families.told_apart(ident for ident, kernel in pairs if kernel)
        idents = [apart.get(ident.name, ident) for ident in idents]
        alone = callers(self.trace, self._number, chains)
        listed = settled_ops(list(zip(idents, roles[first].tolist(), strict=True)))
        mapped = recorded_ops(self.trace, self._number)
        found: list[GpuOperation] = []
        for row, ident, chain, own, more in zip(first, idents, chains, alone, listed, strict=True):
            role = str(roles[row])
            kind = "kernel" if gpu.is_kernel[row] else "memcpy" if gpu.is_memcpy[row] else "memset"
            by_op = ([], ()) if ident.get("ops") else (own, chain)
            does = performed(ident, role, *by_op) | more[0]
            may_do = (more[1] | possible(ident, role, chain)) - does
            if launches := mapped.get(len(found)):
                does, may_do = with_records(does, may_do, launches)
            found.append(GpuOperation(ident.name, kind, ident, role, chain, does, may_do))
        return found

    def name(self, event: int) -> str:
        """The name of one event."""
        name: str = self.trace.host.names[self.trace.host.name[event]]
        return name

    def operation(self, row: int) -> GpuOperation:
        """The operation of one row."""
        return self.operations[int(self._number[row])]

    def where(self, key: Hashable, test: Callable[[GpuOperation], bool]) -> Bools:
        """Rows whose operation passes the test; computed once per `key`."""
        if key not in self.masks:
            passing = np.array([test(operation) for operation in self.operations], bool)
            self.masks[key] = passing[self._number]
        return self.masks[key]

    @cached_property
    def timeline(self) -> tuple[Ints, Ints]:
        """Every event that has a time, in time order, and those times."""
        host = self.trace.host
        timed = np.flatnonzero(host.timed)
        order = timed[np.argsort(host.start[timed], kind="stable")]
        return order, host.start[order]

    @cached_property
    def silent(self) -> Bools:
        """Which events are launches without a GPU event."""
        silent = self.trace.host.is_launch.copy()
        silent[self.trace.gpu.launch[self.trace.gpu.launch >= 0]] = False
        return silent

    @cached_property
    def stray(self) -> Ints:
        """Start times of GPU operations that lack their launch in the trace, in order.

        What was launched before the recording belongs to no step and lacks nothing.
        """
        gpu = self.trace.gpu
        return np.sort(gpu.start[(gpu.launch < 0) & ~gpu.before_recording])

    @cached_property
    def replayed(self) -> Predicted | None:
        """The typical step with its fixes; None where it cannot be replayed."""
        return predicted(self.trace) if self.trace.spans.steps else None

    @cached_property
    def by_launch(self) -> tuple[Ints, Ints]:
        """All rows in order of launch, and the launch times; without a launch: the start."""
        order = self.trace.gpu.launch_order
        return order, self.trace.gpu.launched[order]

    @cached_property
    def _kernel_at(self) -> Ints:
        """Row of `trace.kernels` for each row of `trace.gpu` that is a kernel."""
        return np.cumsum(self.trace.gpu.is_kernel) - 1

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        return {name: self.trace.kernels[name].to_list() for name in _COLUMNS.split()}

    def kernel_fact(self, row: int, column: str) -> Any:
        """One cell of the kernels table; None for memcpys and memsets."""
        if not self.trace.gpu.is_kernel[row]:
            return None
        return self._columns[column][self._kernel_at[row]]

    @cached_property
    def _cases(self) -> dict[int, Case]:
        """The case of each row that is a kernel."""
        order = self.trace.order
        pairs = zip(order.row.tolist(), order.case.tolist(), strict=True)
        return {row: order.cases[case] for row, case in pairs}

    def is_cast(self, row: int) -> bool:
        """Whether a row is a kernel that only changes the data type."""
        return row in self._cases and bool(cast_of(self._cases[row]))

    def roof(self, row: int) -> float | None:
        """Percent of the nearest roof that a kernel reaches; None where it is not known."""
        return self._cases[row].roof_percent if row in self._cases else None

    def footprint(self, row: int, column: str) -> Any:
        """How a kernel was launched: grid, block, registers, shared memory, occupancy, stream."""
        value = self.kernel_fact(row, column)
        # the profiler writes 0 where it cannot estimate, such as for kernels in clusters
        return None if column == "occupancy" and not value else value

    def inputs(self, event: int, word: str) -> list[list[int]] | None:
        """`shapes` or `strides` of an op's tensor inputs in order; None where not recorded."""
        found = self.trace.origins.arguments.of(event)
        if found is None:
            return None
        return found.tensors if word == "shapes" else found.tensor_strides

    @cached_property
    def copy_bytes(self) -> dict[int, int | None]:
        """Bytes of each memcpy and memset by event id."""
        return dict(self.trace.copies.select("id", "bytes").iter_rows())

    def launch_name(self, row: int) -> str:
        """The host call that launched this, or an empty text."""
        launch = int(self.trace.gpu.launch[row])
        return self.name(launch) if launch >= 0 else ""

    @cached_property
    def has_attention(self) -> bool:
        """Whether a kernel of the trace does attention as a whole; else matmuls and softmax do."""
        return any(operation.role == "attention" for operation in self.operations)

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile's cache lookup ran in this trace."""
        return compiled.CACHE_LOOKUP in self.trace.host.names

    @cached_property
    def runs_on_cpu(self) -> bool:
        """Whether nothing in the trace hints at a GPU."""
        return runs_on_cpu(self.trace)

    @cached_property
    def computing(self) -> Bools:
        """Which events are ops that compute on the CPU."""
        return computing_ops(self.trace)[0]
