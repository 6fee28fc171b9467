"""Let the allocator grow its segments: fewer cudaMalloc and cudaFree where sizes change."""

from __future__ import annotations

from foretrace.record.tries.session import Applied, Switch

_NAME = "PYTORCH_CUDA_ALLOC_CONF"
_VALUE = "expandable_segments:True"

APPLIED = Applied(
    "expandable_segments",
    "expandable segments",
    f"{_NAME}={_VALUE}",
    Switch,  # the environment of the process has it
    realises=("allocator",),
    devices=("cuda",),
    fresh=True,
    environment={_NAME: _VALUE},
)
