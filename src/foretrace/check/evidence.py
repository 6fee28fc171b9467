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
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.check.language import Unknown
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.trace import cpu_ops
from foretrace.trace.bounds import measured_spans
from foretrace.trace.host import DEEPEST, summed
from foretrace.trace.intervals import Bools, Ints
from foretrace.trace.module_calls import ENGINE, PREFIX
from foretrace.trace.recording import op_call
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs._cost import short_type
from foretrace.work.costs.attention import BACKWARD, FORWARD, described
from foretrace.work.families import MATMULS, role_of_op
from foretrace.work.kernel import KernelId
from foretrace.work.kernel_row import KernelRow, facts

if TYPE_CHECKING:
    from foretrace.look.fixes import Predicted
    from foretrace.look.measured_step import MeasuredStep

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
    from foretrace.trace.compiled import provenance

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
        self._shown: dict[str, dict[str, str]] = {}
        self.measured: dict[
            str, MeasuredStep | None
        ] = {}  # the step of the first screen, by region
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
        """Which events are launches without a GPU event; what a graph captures runs nothing."""
        host = self.trace.host
        silent = host.is_launch & ~host.captures.holds(host.start)
        silent[self.trace.gpu.launch[self.trace.gpu.launch >= 0]] = False
        return silent

    def groups(self, region: str) -> dict[str, str]:
        """The groups as the first screen names them, `GEMM, M=2048`, and as `trace` does."""
        if region not in self._shown:
            trace = self.trace
            spans = trace.spans.region_groups().get(region) or measured_spans(trace)[1]
            names = {name: name for name in trace.grouped.names}
            from foretrace.look.groups import shown_groups

            self._shown[region] = names | shown_groups(trace) | shown_groups(trace, spans)
        return self._shown[region]

    @cached_property
    def stray(self) -> Ints:
        """Start times of GPU operations that lack their launch in the trace, in order.

        What was launched before the recording belongs to no step and lacks nothing.
        """
        gpu = self.trace.gpu
        return np.sort(gpu.start[(gpu.launch < 0) & ~gpu.before_recording])

    @cached_property
    def main_region(self) -> str:
        """The region whose calls the first screen is about, where a trace has no steps."""
        per, spans = measured_spans(self.trace)
        return spans[0].name if per.startswith("per call of ") else ""

    @cached_property
    def replayed(self) -> Predicted | None:
        """The typical step, call or recording with its fixes; None where it cannot be replayed."""
        from foretrace.look.fixes import predicted

        return predicted(self.trace)

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
        from foretrace.look.rules import cast_of

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
    def split_ops(self) -> set[int]:
        """Ops of matmuls whose depth is split: another kernel of the op adds the parts."""
        adds = self.where("splitk", lambda work: work.ident.get("op") == "splitk_reduce")
        return set(self.trace.origins.op[adds].tolist()) - {-1}

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
    def roles(self) -> set[str]:
        """The roles of the kernels; without `attention`, matmuls and softmax do that."""
        return {operation.role for operation in self.operations}

    @cached_property
    def runs_on_cpu(self) -> bool:
        """Whether nothing in the trace hints at a GPU."""
        return cpu_ops.runs_on_cpu(self.trace)

    @cached_property
    def computing(self) -> Bools:
        """Which events are ops that compute on the CPU."""
        return cpu_ops.computing_ops(self.trace)[0]

    def is_type(self, row: int, wanted: str) -> bool | None:
        """Whether a kernel computes in this type; None where the trace does not say."""
        stated = self.fact(row, "dtype")
        if isinstance(stated, str) and "|" in stated:  # one of two halves, and nothing says which
            return None if wanted in stated.split("|") else False
        if stated is None:
            types = self.input_types(row)
            return None if types is None or wanted in types or wanted == "tf32" else False
        return str(stated) == wanted

    def input_types(self, row: int) -> list[str] | None:
        """The types of the tensors that the op of a kernel took; None if not recorded."""
        arguments = self.trace.origins.arguments.of(int(self.trace.origins.op[row]))
        if arguments is None or "TensorList" in arguments.types:
            return None
        return [short_type(each) for each in arguments.types if each not in _NO_TENSOR] or None

    def is_library(self, row: int, word: str) -> bool | None:
        """Whether a kernel comes from a library; None where its name does not say."""
        library = self.fact(row, "library")
        family = self.operation(row).ident.family
        if library is None:
            return None
        return word in family or word == library

    def source(self, row: int) -> str | None:
        """`model.py:41`: the line of Python that launched a kernel, where stacks were recorded."""
        event = int(self.trace.origins.launch_or_op[row])
        host = self.trace.origins.host
        while event >= 0:
            from foretrace.trace.flame import line_of

            line = line_of(host.names[host.name[event]])
            if line:
                return line
            event = int(host.parent[event])
        return None

    def fact(self, row: int, name: str) -> Any:
        """What is known of one kernel: from its name, its launch, its op; None where it is not."""
        work = self.operation(row)
        if name == "name":
            return work.name
        if name == "launcher":
            return self.launch_name(row) or None
        if name == "caller":
            return work.chain[-1] if work.chain else None
        if name in ("registers", "shared_memory", "occupancy", "grid", "block"):
            value = self.footprint(row, name)
            return [*value] if name in ("grid", "block") and value is not None else value
        if name == "roof":
            return self.roof(row)
        if name == "limited":
            bound = str(self.trace.work_bounds[row])
            return None if bound == "unknown" else bound
        if name == "family":
            return None if work.ident.family == "unknown" else work.ident.family
        if name == "library":
            return self._library(work)
        if name == "dtype":
            return self._dtype(row, work)
        if name in facts():  # a column that the table of kernels works out itself
            return getattr(self._cases.get(row), name, None)
        if name == "splitk" and int(self.trace.origins.op[row]) in self.split_ops:
            return True
        if name in ("causal", "head_dim") and (
            call := op_call(self.trace, int(self.trace.origins.op[row]))
        ):
            places = _ATTENTION.get(call.name)
            if places and (said := getattr(described(call, places), name)) is not None:
                return said
        stated = _stated(work.ident, name)
        if work.kind == "kernel" and work.role not in _OF_ROLES.get(name, (work.role,)):
            return "none"  # a GELU has no layout
        if stated is None and name in _MARKS and name in _states(work.ident.family):
            return False if name == "splitk" else "none"
        return stated

    def _library(self, work: GpuOperation) -> str | None:
        family = work.ident.family
        if family == "unknown":
            return None
        called = " ".join(work.chain)
        if work.role == "conv" and "cudnn" in called:
            return "cudnn"
        if work.role == "gemm" and family.startswith(("nvjet", "cublas", "xmma")):
            return "cublas"
        return next((word for word in _LIBRARIES if word in family), family)

    def _dtype(self, row: int, work: GpuOperation) -> Any:
        stated = _stated(work.ident, "dtype")
        types = self.input_types(row)
        if stated is not None and stated == work.ident.get("dtype_class"):  # f16 or bf16
            halves = {"f16", "bf16"} & {*(types or ())}
            return halves.pop() if len(halves) == 1 else "bf16|f16"
        if stated is not None or types is None or "triton" in work.name:
            return stated  # Triton widens to float32 inside
        kinds = set(types)
        if work.role in ("gemm", "conv") and kinds == {"f32"}:
            return None  # a matmul of float32 may run in tf32
        return kinds.pop() if len(kinds) == 1 else None

    def peak_bytes(self, begin: int | None, end: int | None, *, reserved: bool) -> int:
        """The most GPU memory in use between two times, of any GPU; None: of the recording."""
        from foretrace.trace.modules import CPU

        column = "total_reserved" if reserved else "total_allocated"
        table = self.trace.tables["memory"].filter(pl.col("device_type") != CPU, pl.col(column) > 0)
        most = []
        for _, part in table.group_by("device_id"):
            times, values = self.trace.host.start[part["event"].to_numpy()], part[column].to_numpy()
            order = np.argsort(times, kind="stable")
            first, last = 0, len(order)
            if begin is not None and end is not None:
                first, last = np.searchsorted(times[order], (begin, end))
            most += values[order][max(first - 1, 0) : last].tolist()
        view = self.trace.memory_view
        if not most and (view is None or begin is not None):
            needs = ": record with profile_memory=True or --memory"
            if self.trace.tables["memory"].height:
                needs = ", only those of a CPU: `foretrace memory TRACE` reads them"
            raise Unknown(f"no GPU memory events in this trace{needs}")
        if most or view is None:
            return int(max(most))
        from foretrace.check.memory import view_peak

        return view_peak(view, reserved=reserved)


_NO_TENSOR = ("", "Scalar", "ScalarList", "GenericList", "None", "Device")
_ATTENTION = FORWARD | BACKWARD
_LIBRARIES = [
    "cutlass",
    "cudnn",
    "nccl",
    "flash",
    "liger",
    "triton",
    "inductor",
    "cub",
    "aten",
    "vllm",
    "tensile",
    "miopen",
]
# What families of names call a field, the more exact first.
_KEYS = {
    "dtype": ("math_dtype", "dtype_in", "dtype", "dtype_a", "dtype_class"),
    "tile": ("tile", "tile_mnk", "tile_mn"),
    "splitk": ("splitk", "split_k"),
}
_MATRIX_ROLES = ("gemm", "conv", "attention")
_OF_ROLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("tile", "stages", "epilogue", "splitk"), _MATRIX_ROLES),
    "layout": ("gemm", "conv"),
    "causal": ("attention",),
    "head_dim": ("attention",),
}
_MARKS = ("splitk", "epilogue")  # a name that can state them states their absence too


def _stated(ident: KernelId, name: str) -> Any:
    values = map(ident.get, _KEYS.get(name, (name,)))
    return next((value for value in values if value is not None), None)


@cache
def _states(family: str) -> frozenset[str]:
    """The fields that names of this family can state."""
    return frozenset(key for each in families.every() if each.name == family for key in each.states)
