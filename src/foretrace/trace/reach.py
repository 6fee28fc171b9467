"""Which host ops reach the GPU, which only change how memory is seen, and averages by name."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.trace.host import summed
from foretrace.trace.intervals import Ints
from foretrace.trace.recording import Recording

# Ops whose result is another view of their input's memory. `contiguous`, `to`, `reshape` and their
# like are views only when there is nothing to copy, which is why a call must also be seen to launch
# nothing.
_VIEWS = """
    T _conj _neg_view _reshape_alias _unsafe_view adjoint alias as_strided as_strided_
    broadcast_to chunk conj contiguous detach detach_ diagonal dsplit expand expand_as flatten
    hsplit imag lift_fresh mH mT matrix_H moveaxis movedim narrow numpy_T permute positive ravel
    real reshape reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze
    squeeze_ swapaxes swapdims t t_ tensor_split to transpose transpose_ type_as unbind
    unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ view
    view_as view_as_complex view_as_real vsplit
"""
VIEWS = frozenset(_VIEWS.split())


def is_view(name: str) -> bool:
    """Whether an op of this name only changes shape and strides, as long as it launches nothing."""
    return name.removeprefix("aten::") in VIEWS


def work_below(trace: Recording, *, kernels: bool = False) -> Ints:
    """For every event: how much GPU work it launched, itself or through what it called."""
    host, gpu = trace.host, trace.gpu
    chosen = (gpu.launch >= 0) & (gpu.is_kernel | (not kernels))
    return summed(host.parent, np.bincount(gpu.launch[chosen], minlength=host.count))


def gpu_time_below(trace: Recording) -> Ints:
    """For every event: the durations of the GPU work launched by it or anything it called."""
    gpu = trace.gpu
    timed = (gpu.launch >= 0) & gpu.usable
    spent: Ints = np.zeros(trace.host.count, np.int64)
    np.add.at(spent, gpu.launch[timed], gpu.length[timed])
    return summed(trace.host.parent, spent)


class AverageRow(Struct, frozen=True):
    """One row of the profiler's table, summed over the recording. Host times are profiled ones."""

    name: str
    calls: int
    self_cpu_ns: int
    cpu_ns: int
    self_gpu_ns: int
    gpu_ns: int


def average(trace: Recording, name: str) -> AverageRow:
    """The row of an op, a range, a runtime call or a kernel; all zero where there is none.

    The time of a GPU operation is the self time of the innermost op that launched it, and never of
    the call: what a graph launch ran has rows of its own.
    """

    host, gpu = trace.host, trace.gpu
    same = host.named(lambda text: text == name)
    chosen = (host.is_op | host.is_call | host.is_region) & host.lasting & same
    if not chosen.any():
        rows = gpu.usable & same[gpu.id]
        time = int(gpu.length[rows].sum())
        return AverageRow(name, int(rows.sum()), 0, 0, time, time)
    linked = gpu.usable & (gpu.op >= 0)
    own = np.zeros(host.count, np.int64)
    np.add.at(own, gpu.op[linked], gpu.length[linked])
    columns = (host.self_length, host.length, own, summed(host.parent, own))
    return AverageRow(name, int(chosen.sum()), *(int(each[chosen].sum()) for each in columns))
