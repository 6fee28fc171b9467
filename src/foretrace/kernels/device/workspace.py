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

_sums: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
_rows: dict[tuple[int, int, int, torch.dtype], Tensor] = {}


def memory_for_sums(like: Tensor, sums: int, tiles: int) -> tuple[Tensor, Tensor]:
    """Memory for `sums` partial sums, and `tiles` zero counters, which the kernel leaves zero."""
    if not like.is_cuda or torch.cuda.is_current_stream_capturing():
        return _new_sums(like, sums, tiles)
    device = like.get_device()
    key = (device, torch._C._cuda_getCurrentRawStream(device))
    kept = _sums.get(key)
    if kept is None or kept[0].numel() < sums or kept[1].numel() < tiles:
        kept = _sums[key] = _new_sums(like, max(sums, _SMALL), max(tiles, 4096))
    return kept


def _new_sums(like: Tensor, sums: int, tiles: int) -> tuple[Tensor, Tensor]:
    return like.new_empty(sums, dtype=torch.float32), like.new_zeros(tiles, dtype=torch.int32)


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
