"""Which times belong to the recording: an event stamped by another clock must not stretch it.

Host events lie around their median, however long the pauses between them. GPU events lie in the
host's stretch of time, or follow from there without a long gap: a queue may outlast its host. Where
hardly any of them do, the GPU has a clock of its own, which the model notes; then its events lie
around their own median.

All durations together take less than 2^62 ns, and so do the stretches of time of all threads and
streams laid end to end: no sum that is derived from them leaves 64 bits.
"""

from __future__ import annotations

import numpy as np

from foretrace.read.kineto.joined import Joined, is_one_of
from foretrace.schema.gaps import Bools, Ints
from foretrace.schema.tables import KIND, WORK_KINDS

_DAY, _MINUTE = 86_400 * 10**9, 60 * 10**9
_MOST_TOGETHER = 1 << 62
_MOST_APART = 1 << 58  # GPU work may lie as far again beside the host's, and trees double it
_SPREADS = 10  # a recording reaches no further than this many times where nine tenths of it lie
_SAME_CLOCK = 0.1  # the share of GPU events near the host's that proves one clock
_GPU_CLOCK = (*WORK_KINDS, "gpu_user_annotation", "cuda_sync", "cuda_event")


def outliers(joined: Joined, start: Ints, length: Ints, timed: Bools) -> Bools:
    """The events whose time cannot be that of this recording."""
    seen = timed & (joined.ranged | (joined.kind == KIND["memory"]))
    own_clock = is_one_of(joined.kind, tuple(KIND[name] for name in _GPU_CLOCK))
    host, gpu = np.flatnonzero(seen & ~own_clock), np.flatnonzero(seen & own_clock)
    odd = np.zeros(len(start), np.bool_)
    most = _MOST_APART // max(joined.lanes, 1)
    odd[host] = _far(start[host], length[host], most)
    kept = host[~odd[host]]
    far = _far(start[gpu], length[gpu], most)
    odd[gpu] = _beside(start[kept], length[kept], start[gpu], length[gpu], far)
    rows = np.flatnonzero(seen & ~odd)
    if length[rows].sum(dtype=np.float64) >= _MOST_TOGETHER:
        odd[rows] |= length[rows] > _MOST_TOGETHER // len(rows)
    return odd


def _far(start: Ints, length: Ints, most: int) -> Bools:
    """What lies far from the median; a day is not far, unless it is beyond `most`."""
    day = min(_DAY, most)
    if not len(start) or (int(start.max() - start.min()) <= day and int(length.max()) <= day):
        return np.zeros(len(start), np.bool_)
    low, middle, high = (int(at) for at in np.quantile(start, (0.05, 0.5, 0.95), method="lower"))
    reach = min(max(_DAY, _SPREADS * (high - low)), most)
    return (np.abs(start - middle) > reach) | (length > reach)


def _beside(host: Ints, host_length: Ints, start: Ints, length: Ints, far: Bools) -> Bools:
    """The GPU events that are not beside the host's; without host events, those far from others."""
    if not len(host) or not len(start):
        return far
    low, high = int(host.min()), int((host + host_length).max())
    slack = max(high - low, _MINUTE)
    late = np.flatnonzero((start > high) & ~far)
    late = late[np.argsort(start[late], kind="stable")]
    ends = (start + np.minimum(length, slack))[late]
    gap = start[late] - np.maximum.accumulate(np.concatenate(([high], ends[:-1])))[: len(late)]
    following = late[np.cumsum(gap > slack) == 0]
    near = (start >= low - slack) & (start <= high) & ~far
    near[following] = True
    return far if near.sum() < _SAME_CLOCK * len(start) else ~near
