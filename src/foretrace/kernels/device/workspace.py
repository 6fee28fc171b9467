"""Memory that calls share, so that a small call needs no allocation.

It belongs to a stream: kernels on one stream run one after the other, so each finds it free. A CUDA
graph under capture gets memory of its own, since its replays may run beside other work.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

# Elements above which a call is long enough to afford an allocation.
_SMALL = 1 << 20

# Zero counters set aside for CUDA graphs: a graph keeps its own for good, and none needs to be set
# to zero in each replay. A call takes a few hundred.
_SET_ASIDE, _FEW, _UNIT = 1 << 20, 1 << 16, 128

_sums: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
_counters: dict[tuple[int, int], Tensor] = {}
_set_aside: dict[int, Tensor] = {}
_for_good: list[Tensor] = []  # a graph knows the addresses alone, and may be replayed at any time
_rows: dict[tuple[int, int, int, torch.dtype], Tensor] = {}


def memory_for_sums(like: Tensor, sums: int, tiles: int) -> tuple[Tensor, Tensor]:
    """Memory for `sums` partial sums, and zero counters for `tiles`."""
    if not like.is_cuda or torch.cuda.is_current_stream_capturing():
        return like.new_empty(sums, dtype=torch.float32), counters(like, tiles)
    key = _stream(like)
    kept = _sums.get(key)
    if kept is None or kept[0].numel() < sums or kept[1].numel() < tiles:
        memory = like.new_empty(max(sums, _SMALL), dtype=torch.float32)
        kept = _sums[key] = memory, counters(like, tiles)
    return kept


def counters(like: Tensor, count: int) -> Tensor:
    """At least `count` zeros, which the kernel leaves zero."""
    if not like.is_cuda:
        return like.new_zeros(count, dtype=torch.int32)
    if torch.cuda.is_current_stream_capturing():
        return _counters_of_a_graph(like, count)
    device, _ = key = _stream(like)
    if device not in _set_aside or _set_aside[device].numel() < _FEW:
        _set_aside[device] = like.new_zeros(_SET_ASIDE, dtype=torch.int32)
        _for_good.append(_set_aside[device])
    kept = _counters.get(key)
    if kept is None or kept.numel() < count:
        kept = _counters[key] = like.new_zeros(max(count, 4096), dtype=torch.int32)
    return kept


def _counters_of_a_graph(like: Tensor, count: int) -> Tensor:
    """Some of those set aside. If none are, or too few, the graph sets new ones to zero."""
    device = like.get_device()
    rest = _set_aside.get(device)
    taken = count + -count % _UNIT
    if rest is None or rest.numel() < taken:
        return like.new_zeros(count, dtype=torch.int32)
    _set_aside[device] = rest[taken:]
    return rest[:taken]


def _stream(like: Tensor) -> tuple[int, int]:
    device = like.get_device()
    return device, torch._C._cuda_getCurrentRawStream(device)


def memory_between(like: Tensor, m: int, h: int) -> Tensor:
    """Memory for (m, h) elements or more that one kernel writes and the next one reads.

    Kernels of two threads may interleave on a stream, so it is kept per thread as well.
    """
    if m * h > _SMALL or not like.is_cuda or torch.cuda.is_current_stream_capturing():
        return like.new_empty((m, h))
    device = like.get_device()
    key = (device, torch._C._cuda_getCurrentRawStream(device), threading.get_ident(), like.dtype)
    kept = _rows.get(key)
    if kept is None:
        kept = _rows[key] = like.new_empty(_SMALL)
    return kept
