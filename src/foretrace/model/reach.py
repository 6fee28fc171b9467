"""Which host ops reach the GPU, and which only change how memory is seen."""

from __future__ import annotations

import numpy as np

from foretrace.model.intervals import Bools, Ints
from foretrace.model.paths import summed
from foretrace.model.recording import Recording

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


def work_below(trace: Recording) -> tuple[Ints, Ints]:
    """For every event: kernels, and GPU work of any kind, launched by it or anything it called."""
    gpu = trace.gpu
    linked = gpu.launch >= 0
    return _climbed(trace, gpu.launch[linked & gpu.is_kernel]), _climbed(trace, gpu.launch[linked])


def gpu_time_below(trace: Recording) -> Ints:
    """For every event: the durations of the GPU work launched by it or anything it called."""
    gpu = trace.gpu
    timed = (gpu.launch >= 0) & gpu.usable
    spent: Ints = np.zeros(trace.host.count, np.int64)
    np.add.at(spent, gpu.launch[timed], gpu.length[timed])
    return summed(trace.host.parent, spent)


def _climbed(trace: Recording, at: Ints) -> Ints:
    host = trace.host
    return summed(host.parent, np.bincount(at, minlength=host.count))


def reaches(trace: Recording) -> Bools:
    """Which events launched GPU work, themselves or through what they called."""
    return _climbed(trace, trace.gpu.launch[trace.gpu.launch >= 0]) > 0


def views(trace: Recording) -> Ints:
    """The calls of view ops that launched nothing."""
    host = trace.host
    return np.flatnonzero(host.is_op & host.named(is_view) & host.lasting & ~reaches(trace))
