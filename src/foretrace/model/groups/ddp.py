"""DistributedDataParallel: gradients divided, and copied to and from the buckets it reduces."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test

_REDUCER = word_test(r"torch\.distributed\.ddp\.reducer|torch::distributed::reducer")


def _test(work: GpuWork) -> bool:
    return any(_REDUCER(name) for name in work.path)


GROUP = WorkGroup("DDP buckets", 21, named("DDP buckets", _test), with_backward=False)
