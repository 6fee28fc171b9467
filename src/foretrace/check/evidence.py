"""GPU operations of a trace, each distinct one once: name, role, op chain and the ops it performs.

An op counts for a kernel when it launched that kernel and no other. Inductor's names list the ops
that the fused nodes came from, and another kernel may do the work of one of them: a pointwise
kernel that lists `bmm` prepares its input. So a pointwise kernel proves pointwise ops, a reduction
also reductions, norms and softmaxes, and a template everything. Any other op in the list is dropped
where some kernel of the trace has the role of that op, is proven where no other kernel lists it,
and is open otherwise.

The compiler's records beside a trace outrank a name: they map nodes to the ops of the program. A
word of the name that is an op of the program, and not one of this kernel's, is dropped; any other
word (`native_layer_norm` for `layer_norm`) stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.look.fixes import Predicted, predicted
from foretrace.look.rules import cast_of
from foretrace.read.compiler import records as compiled
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.trace import cpu_ops
from foretrace.trace.compiled import provenance
from foretrace.trace.host import DEEPEST, summed
from foretrace.trace.intervals import Bools, Ints
from foretrace.trace.module_calls import ENGINE, PREFIX
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.families import MATMULS, role_of_op
from foretrace.work.kernel import KernelId
from foretrace.work.kernel_row import KernelRow

# A part of a hand-written kernel's name -> ops it stands for, by the authors' own naming.
_NAME_DOES = {
    "geglu": ("gelu", "mul"),
    "swiglu": ("silu", "mul"),
    "silu_and_mul": cpu_ops.OP_DOES["silu_and_mul"],
    "fused_add_rms_norm": cpu_ops.OP_DOES["fused_add_rms_norm"],
}
# Families whose one kernel is the whole attention.
_ONE_KERNEL_ATTENTION = ("flash", "mem_efficient", "cudnn_sdpa", "fmha")
_EPILOGUES = {"bias": "add", "relu": "relu", "gelu": "gelu", "silu": "silu"}
# In older names of cuBLAS and cuDNN `relu` is what a kernel can do, not what it did: AlexNet's
# convolutions are called scudnn_128x64_relu and ATen clamps after them.
_EXACT_EPILOGUES = ("nvjet", "cutlass3")
_MATRIX = ("gemm", "gemv")
_OPTIMIZER = regex(r"Optimizer\.step#(\w+)\.step")


def performed(
    ident: KernelId, role: str, callers: Iterable[str], chain: Sequence[str]
) -> frozenset[str]:
    """The ops that a kernel surely does; `callers` are ops that launched this kernel alone."""
    stated = ident.get("op")
    ops = [*cpu_ops.listed_ops(ident)[0], *map(cpu_ops.bare, callers)]
    ops += [cpu_ops.bare(stated)] if isinstance(stated, str) and "::" in stated else []
    more = [word for op in ops for word in cpu_ops.OP_DOES.get(op, ())]
    inner = [op for op in chain[-1:] if role == "other" or role_of_op(op) in (role, "other")]
    matmuls = [op for op in chain if role in _MATRIX and cpu_ops.bare(op) in MATMULS]
    for op in map(cpu_ops.bare, [*inner, *matmuls]):
        # Of several kernels below a matmul with bias, another one may add the bias.
        more += [op, *(word for word in cpu_ops.OP_DOES.get(op, ()) if word != "add")]
    more += [word for part, words in _NAME_DOES.items() if part in ident.name for word in words]
    if ident.family.startswith(_EXACT_EPILOGUES):
        words = re.findall(r"[a-z]+", str(ident.get("epilogue")).lower())
        more += [_EPILOGUES[word] for word in words if word in _EPILOGUES]
    if role == "attention" and ident.family.startswith(_ONE_KERNEL_ATTENTION):
        more += cpu_ops.ATTENTION_DOES
    return frozenset([*ops, *more, *(("matmul",) if role in _MATRIX else ())])


def possible(ident: KernelId, role: str, chain: Sequence[str]) -> frozenset[str]:
    """Ops that a kernel may do because no caller says which: a matmul in a CUDA graph is any."""
    if role not in _MATRIX or chain:
        return frozenset()
    exact = ident.family.startswith(_EXACT_EPILOGUES)
    return frozenset([*MATMULS, *(() if exact else ("add",))])


def settled_ops(
    kernels: Sequence[tuple[KernelId, str]],
) -> list[tuple[frozenset[str], frozenset[str]]]:
    """For each distinct kernel (name, role): listed ops that are proven by all, and open ones."""
    roles = {role for _, role in kernels}
    roles |= set(_MATRIX) if roles & set(_MATRIX) else set()
    # A kernel of an unknown kind may be the one that does the op.
    unclear = any(ident.family == "unknown" or role == "other" for ident, role in kernels)
    each = {ident.name: ident for ident, _ in kernels}
    counts = Counter(op for ident in each.values() for op in {*cpu_ops.listed_ops(ident)[1]})
    surely = {op for ident in each.values() for op in cpu_ops.listed_ops(ident)[0]}
    found = []
    for ident, _ in kernels:
        others = roles - set(cpu_ops.ROWWISE)
        left = {op for op in cpu_ops.listed_ops(ident)[1] if role_of_op(op) not in others}
        elsewhere = {op for op in left if counts[op] > 1 or op in surely or role_of_op(op) in roles}
        proven = set() if unclear else left - elsewhere
        found.append((frozenset(proven), frozenset(left - proven)))
    return found


def callers(trace: Trace, number: Ints, chains: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """The ops that a distinct kernel stands for, by its launches: `number` says which it is.

    The innermost op counts when it launched this kernel alone, an op around it when nothing else
    was launched below; a matmul also counts for every matmul op around it.
    """
    host, op = trace.origins.host, trace.origins.op
    kernels = trace.gpu.is_kernel & (op >= 0) & trace.origins.is_first
    direct = np.bincount(op[kernels], minlength=host.count)
    below = summed(host.op_paths.above, direct)
    found: list[list[str]] = [[] for _ in chains]
    for level, at in enumerate(islice(_climb(trace, op), DEEPEST)):
        there = at >= 0
        alone: Bools = np.ones(len(chains), bool)
        counts = direct if level == 0 else below
        np.logical_and.at(alone, number[there], counts[at[there]] <= 1)
        for place in distinct(number[there]).tolist():
            if alone[place]:
                found[place].append(chains[place][-1 - level])
    return found


def _climb(trace: Trace, ops: Ints) -> Iterable[Ints]:
    """The ops of some launches, then the ops around those, to the outermost."""
    above, at = trace.origins.host.op_paths.above, ops
    while (at >= 0).any():
        yield at
        at = np.where(at >= 0, above[np.maximum(at, 0)], -1)


@dataclass(frozen=True, slots=True)
class LaunchOps:
    """What one launch does, what it does in part, and all ops of its graph."""

    does: frozenset[str]
    begins: frozenset[str]
    others: frozenset[str]


def recorded_ops(trace: Trace, number: Ints) -> dict[int, list[LaunchOps]]:
    """For each distinct operation (`number` of every row of `trace.gpu`) what its launches do."""
    found: dict[int, dict[int, LaunchOps]] = {}
    if trace.compiled:
        for event, place in zip(trace.gpu.id.tolist(), number.tolist(), strict=True):
            launch = trace.compiled.get(event)
            if launch is not None and id(launch.call) not in found.setdefault(place, {}):
                found[place][id(launch.call)] = launch_ops(launch)
    known = {place: list(each.values()) for place, each in found.items()}
    return {place: each for place, each in known.items() if all(ops.does for ops in each)}


def launch_ops(launch: CompiledLaunch) -> LaunchOps:
    """The ops of one launch, with what they stand for."""
    ops = provenance.performed(launch)
    does = ops | {word for op in ops for word in cpu_ops.OP_DOES.get(op, ())}
    # a library's kernel may do more than its op says: the matmul of a linear layer adds the bias
    extern = launch.call.extern
    others = () if extern else provenance.dynamo_ops(launch.compilation).values()
    return LaunchOps(does, provenance.begun(launch), frozenset(others))


def with_records(
    does: frozenset[str], may_do: frozenset[str], launches: list[LaunchOps]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a kernel does and may do, by its name and by the records of its launches."""
    sure = frozenset.intersection(*(ops.does for ops in launches))
    some = frozenset().union(*(ops.does | ops.begins for ops in launches))
    others = frozenset().union(*(ops.others for ops in launches))
    return sure | (does - others - some), (some - sure) | (may_do - others - some - sure)


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
        known: dict[str, list[frozenset[str]]] = {}
        for one in found:
            if one.chain:
                ops = one.does | {cpu_ops.bare(op) for op in one.chain}
                known.setdefault(one.name, []).append(frozenset(ops))
        return [
            replace(one, does=one.does | frozenset.intersection(*known[one.name]))
            if not one.chain and one.name in known
            else one
            for one in found
        ]

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

    @property
    def has_modules(self) -> bool:
        """Whether calls of modules are marked."""
        return any(name.startswith(PREFIX) for name in self.trace.host.names)

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
    def _cases(self) -> dict[int, KernelRow]:
        """The case of each row that is a kernel."""
        order = self.trace.order
        pairs = zip(order.row.tolist(), order.case.tolist(), strict=True)
        return {row: self.trace.kernel_rows[case] for row, case in pairs}

    def is_cast(self, row: int) -> bool:
        """Whether a row is a kernel that only changes the data type."""
        return row in self._cases and bool(cast_of(self._cases[row]))

    def kernel(self, row: int) -> KernelRow | None:
        """The kernel of a row; None for memcpys and memsets."""
        return self._cases.get(row)

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
    def split_ops(self) -> set[int]:
        """Ops of matmuls whose depth is split: another kernel of the op adds the parts."""
        adds = self.where("splitk", lambda work: work.ident.get("op") == "splitk_reduce")
        return set(self.trace.origins.op[adds].tolist()) - {-1}

    def mentions(self, word: str) -> bool:
        """Whether a name has the word as a part, and no kernel is known to do it:
        `native_layer_norm` may be what is meant.
        """
        if any(word in one.does or f"aten::{word}" in one.chain for one in self.operations):
            return False
        texts = (" ".join((one.name, *one.chain, *one.does)) for one in self.operations)
        return bool(word) and any(word in text.lower() for text in texts)

    @property
    def in_engine(self) -> Bools:
        """Which rows autograd's engine launched."""
        return self.where("engine", lambda work: any(op.startswith(ENGINE) for op in work.chain))

    @cached_property
    def has_backward(self) -> bool:
        """Whether autograd's engine launched anything."""
        return bool(self.in_engine.any())

    @cached_property
    def is_forward(self) -> Bools:
        """Which rows are of a forward pass: outside autograd's engine, and the engine runs later in
        the same step. What follows it (clipping, the optimizer) is not.
        """
        gpu, groups = self.trace.gpu, self.trace.work_groups
        order, step = self.by_launch[0], self.trace.spans.step_of_work()
        engine = self.in_engine
        apart = np.isin(groups, ("optimizer", "zero_grad"))
        last: dict[int, int] = {}
        for place, row in enumerate(order.tolist()):
            if engine[row]:
                last[int(step[row])] = place
        found: Bools = np.zeros(len(gpu), bool)
        for place, row in enumerate(order.tolist()):
            found[row] = not engine[row] and place < last.get(int(step[row]), -1)
        return found & ~apart

    @cached_property
    def optimizers(self) -> set[str]:
        """The optimizers whose steps `torch.optim` marked, in lower case."""
        found = (_OPTIMIZER.match(name) for name in self.trace.host.names)
        return {each[1].lower() for each in found if each}

    @cached_property
    def roles(self) -> set[str]:
        """The roles of the kernels; without `attention`, matmuls and softmax do that."""
        return {operation.role for operation in self.operations}

    @cached_property
    def steps_an_optimizer(self) -> bool:
        """Whether it is known which kernels an optimizer's step launched."""
        return "optimizer" in {str(group) for group in self.trace.work_groups}

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile's cache lookup ran in this trace."""
        return compiled.CACHE_LOOKUP in self.trace.host.names

    @cached_property
    def runs_on_cpu(self) -> bool:
        """Whether nothing in the trace hints at a GPU."""
        return cpu_ops.runs_on_cpu(self.trace)

    @cached_property
    def computing(self) -> Bools:
        """Which events are ops that compute on the CPU."""
        return cpu_ops.computing_ops(self.trace)[0]
