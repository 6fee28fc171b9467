"""Compile the forward pass and replay it as CUDA graphs.

This takes the host's launches away. Inputs must keep their shapes, and outputs of one step are
overwritten by the next.
"""

from __future__ import annotations

from foretrace.record.tries.applied._compile import CompileSwitch
from foretrace.record.tries.session import Applied


class _CompileReduceOverhead(CompileSwitch):
    mode = "reduce-overhead"


APPLIED = Applied(
    "compile_reduce_overhead",
    "torch.compile, CUDA graphs",
    'model.compile(mode="reduce-overhead")',
    _CompileReduceOverhead,
    realises=("cuda_graph", "compile"),
    devices=("cuda",),
    group="compile",
)
