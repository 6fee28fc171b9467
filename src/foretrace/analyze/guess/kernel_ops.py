"""Which ops a kernel performs: what its name and its callers prove, and what they leave open.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.model.compiled import program_ops
from foretrace.model.cpu_ops import ATTENTION_DOES, OP_DOES, ROWWISE, bare, listed_ops
from foretrace.model.intervals import Bools, Ints
from foretrace.model.trace import Trace
from foretrace.model.tree import DEEPEST, summed
from foretrace.names.families import MATMULS, role_of_op
from foretrace.schema.compiler import CompiledLaunch
from foretrace.schema.kernel import KernelId

# A part of a hand-written kernel's name -> ops it stands for, by the authors' own naming.
_NAME_DOES = {
    "geglu": ("gelu", "mul"),
    "swiglu": ("silu", "mul"),
    "silu_and_mul": OP_DOES["silu_and_mul"],
    "fused_add_rms_norm": OP_DOES["fused_add_rms_norm"],
}
# Families whose one kernel is the whole attention.
_ONE_KERNEL_ATTENTION = ("flash", "mem_efficient", "cudnn_sdpa", "fmha")
_EPILOGUES = {"bias": "add", "relu": "relu", "gelu": "gelu", "silu": "silu"}
# In older names of cuBLAS and cuDNN `relu` is what a kernel can do, not what it did: AlexNet's
# convolutions are called scudnn_128x64_relu and ATen clamps after them.
_EXACT_EPILOGUES = ("nvjet", "cutlass3")
_MATRIX = ("gemm", "gemv")


def performed(
    ident: KernelId, role: str, callers: Iterable[str], chain: Sequence[str]
) -> frozenset[str]:
    """The ops that a kernel surely does; `callers` are ops that launched this kernel alone."""
    stated = ident.get("op")
    ops = [*listed_ops(ident)[0], *map(bare, callers)]
    ops += [bare(stated)] if isinstance(stated, str) and "::" in stated else []
    more = [word for op in ops for word in OP_DOES.get(op, ())]
    for op in map(bare, _by_role(role, chain)):
        # Of several kernels below a matmul with bias, another one may add the bias.
        more += [op, *(word for word in OP_DOES.get(op, ()) if word != "add")]
    more += [word for part, words in _NAME_DOES.items() if part in ident.name for word in words]
    if ident.family.startswith(_EXACT_EPILOGUES):
        more += [_EPILOGUES[word] for word in _words(ident.get("epilogue")) if word in _EPILOGUES]
    if role == "attention" and ident.family.startswith(_ONE_KERNEL_ATTENTION):
        more += ATTENTION_DOES
    return frozenset([*ops, *more, *(("matmul",) if role in _MATRIX else ())])


def possible(ident: KernelId, role: str, chain: Sequence[str]) -> frozenset[str]:
    """Ops that a kernel may do because no caller says which: a matmul in a CUDA graph is any."""
    if role not in _MATRIX or chain:
        return frozenset()
    exact = ident.family.startswith(_EXACT_EPILOGUES)
    return frozenset([*MATMULS, *(() if exact else ("add",))])


def _words(value: object) -> list[str]:
    return re.findall(r"[a-z]+", str(value).lower()) if value else []


def settled_ops(
    kernels: Sequence[tuple[KernelId, str]],
) -> list[tuple[frozenset[str], frozenset[str]]]:
    """For each distinct kernel (name, role): listed ops that are proven by all, and open ones."""
    roles = {role for _, role in kernels}
    roles |= set(_MATRIX) if roles & set(_MATRIX) else set()
    # A kernel of an unknown kind may be the one that does the op.
    unclear = any(ident.family == "unknown" or role == "other" for ident, role in kernels)
    each = {ident.name: ident for ident, _ in kernels}
    counts = Counter(op for ident in each.values() for op in {*listed_ops(ident)[1]})
    surely = {op for ident in each.values() for op in listed_ops(ident)[0]}
    found = []
    for ident, _ in kernels:
        left = {op for op in listed_ops(ident)[1] if role_of_op(op) not in roles - set(ROWWISE)}
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


def _by_role(role: str, chain: Sequence[str]) -> list[str]:
    """Ops of a chain that a kernel does by its role: the innermost, and matmuls around one."""
    inner = [op for op in chain[-1:] if role == "other" or role_of_op(op) in (role, "other")]
    matmuls = [op for op in chain if role in _MATRIX and bare(op) in MATMULS]
    return [*inner, *matmuls]


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
    ops = program_ops.performed(launch)
    does = ops | {word for op in ops for word in OP_DOES.get(op, ())}
    # a library's kernel may do more than its op says: the matmul of a linear layer adds the bias
    extern = launch.call.extern
    others = () if extern else program_ops.dynamo_ops(launch.compilation).values()
    return LaunchOps(does, program_ops.begun(launch), frozenset(others))


def with_records(
    does: frozenset[str], may_do: frozenset[str], launches: list[LaunchOps]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a kernel does and may do, by its name and by the records of its launches."""
    sure = frozenset.intersection(*(ops.does for ops in launches))
    some = frozenset().union(*(ops.does | ops.begins for ops in launches))
    others = frozenset().union(*(ops.others for ops in launches))
    return sure | (does - others - some), (some - sure) | (may_do - others - some - sure)
