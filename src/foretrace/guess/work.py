"""GPU work by case: what a kernel's name, role and op chain make of it, worked out once per
distinct kernel and chain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from foretrace import families
from foretrace.model.intervals import Bools, Ints
from foretrace.model.kernels import chain_ids
from foretrace.model.trace import Trace
from foretrace.schema.kernel import KernelId

# What an op does besides its own name. A linear layer's product with bias is one kernel that
# multiplies and adds.
OP_DOES = {
    "mm": ("matmul",),
    "bmm": ("matmul",),
    "addmm": ("mm", "matmul", "add"),
    "baddbmm": ("bmm", "matmul", "add"),
    "linear": ("matmul",),
    "silu_and_mul": ("silu", "mul"),
    "_softmax": ("softmax",),
    "_safe_softmax": ("softmax",),
    "native_layer_norm": ("layer_norm",),
    "fused_add_rms_norm": ("add", "rms_norm"),
}
# A part of a hand-written kernel's name -> ops it stands for: the authors' own words for their
# fusions.
_NAME_DOES = {
    "geglu": ("gelu", "mul"),
    "swiglu": ("silu", "mul"),
    "silu_and_mul": ("silu", "mul"),
    "fused_add_rms_norm": ("add", "rms_norm"),
}
# Attention in one kernel: both products and the softmax between them.
_ONE_KERNEL_ATTENTION = ("flash", "mem_efficient", "cudnn_sdpa", "fmha")
ATTENTION_DOES = ("matmul", "bmm", "softmax", "scaled_dot_product_attention")


@dataclass(frozen=True, slots=True)
class Case:
    """One distinct piece of GPU work: `does` are ops it performs, `chain` the ops above it,
    outermost first.
    """

    name: str
    kind: str
    ident: KernelId
    role: str
    chain: tuple[str, ...]
    does: frozenset[str]

    @property
    def function(self) -> str:
        """The bare function of a C++ name: `vectorized_elementwise_kernel`."""
        return self.name.split("<")[0].split("(")[0].split("::")[-1].removeprefix("void ")


class Work:
    """The GPU work of one trace; rows are those of `trace.gpu`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        gpu, host = trace.gpu, trace.host
        keys = np.stack((gpu.kind, host.name[gpu.id], chain_ids(trace, gpu.op)), 1)
        _, first, inverse = (
            np.unique(keys, axis=0, return_index=True, return_inverse=True)
            if len(gpu)
            else (0, [], [])
        )
        self._case_of: Ints = np.asarray(inverse, np.int64).reshape(-1)
        self._masks: dict[Hashable, Bools] = {}
        self.cases = [self._case(row) for row in np.asarray(first, np.int64).tolist()]

    def _case(self, row: int) -> Case:
        gpu, host = self.trace.gpu, self.trace.host
        name = host.names[host.name[gpu.id[row]]]
        kind = "kernel" if gpu.is_kernel[row] else "memcpy" if gpu.is_memcpy[row] else "memset"
        chain = host.op_chain(int(gpu.op[row]))
        ident, role = families.decode(name), self.trace.work_roles[row]
        return Case(name, kind, ident, role, chain, _does(ident, role, chain))

    def case(self, row: int) -> Case:
        return self.cases[int(self._case_of[row])]

    def where(self, key: Hashable, test: Callable[[Case], bool]) -> Bools:
        """Which rows belong to a case that passes; asked once for each `key`."""
        if key not in self._masks:
            passing = np.array([test(case) for case in self.cases], bool)
            self._masks[key] = passing[self._case_of] if self.cases else np.zeros(0, bool)
        return self._masks[key]

    @cached_property
    def timeline(self) -> tuple[Ints, Ints]:
        """Every event that has a time, in order of time, and those times."""
        host = self.trace.host
        timed = np.flatnonzero(host.timed)
        order = timed[np.argsort(host.start[timed], kind="stable")]
        return order, host.start[order]

    @cached_property
    def silent(self) -> Bools:
        """Which events are launches that left no GPU event."""
        silent = self.trace.host.is_launch.copy()
        silent[self.trace.gpu.launch[self.trace.gpu.launch >= 0]] = False
        return silent

    @cached_property
    def stray(self) -> Ints:
        """When GPU work ran that has no launch in the trace, in order."""
        return np.sort(self.trace.gpu.start[self.trace.gpu.launch < 0])

    @cached_property
    def by_launch(self) -> tuple[Ints, Ints]:
        """All GPU work in order of launch, and when that was; what has no launch stands where it
        ran.
        """
        order = self.trace.gpu.launch_order
        return order, self.trace.gpu.launched[order]

    @cached_property
    def _kernel_at(self) -> Ints:
        """Row of `trace.kernels` for each row of `trace.gpu` that is a kernel."""
        return np.cumsum(self.trace.gpu.is_kernel) - 1

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        wanted = (
            "flops",
            "bytes",
            "cost_certainty",
            "cost_note",
            "grid",
            "block",
            "registers",
            "shared_memory",
            "occupancy",
            "stream",
            "launch_name",
        )
        return {name: self.trace.kernels[name].to_list() for name in wanted}

    def kernel_fact(self, row: int, column: str) -> Any:
        """One cell of the kernels table; None for copies."""
        return (
            self._columns[column][self._kernel_at[row]] if self.trace.gpu.is_kernel[row] else None
        )

    def footprint(self, row: int, column: str) -> Any:
        """How a kernel was launched; lists as lists."""
        value = self.kernel_fact(row, column)
        if column == "occupancy" and not value:
            # the profiler writes 0 for kernels whose occupancy it cannot estimate, such as those in
            # clusters
            return None
        return value

    @cached_property
    def copy_bytes(self) -> dict[int, int | None]:
        """Bytes of each memcpy and memset by event id."""
        return dict(self.trace.copies.select("id", "bytes").iter_rows())

    def launch_name(self, row: int) -> str:
        """The host call that launched this, or an empty text."""
        launch = int(self.trace.gpu.launch[row])
        return self.trace.host.names[self.trace.host.name[launch]] if launch >= 0 else ""


def bare(op: str) -> str:
    """`aten::mul_` -> `mul`."""
    name = op.rpartition("::")[2]
    return name.rstrip("_") or name


def _does(ident: KernelId, role: str, chain: tuple[str, ...]) -> frozenset[str]:
    stated = ident.get("op")
    ops = [bare(op) for op in (ident.get("ops") or ()) if isinstance(op, str)]
    ops += [bare(stated)] if isinstance(stated, str) and "::" in stated else []
    ops += [bare(chain[-1])] if chain and not ident.get("ops") else []
    more = [word for op in ops for word in OP_DOES.get(op, ())]
    more += [word for part, words in _NAME_DOES.items() if part in ident.name for word in words]
    if role == "attention" and ident.family.startswith(_ONE_KERNEL_ATTENTION):
        more += ATTENTION_DOES
    return frozenset([*ops, *more])
