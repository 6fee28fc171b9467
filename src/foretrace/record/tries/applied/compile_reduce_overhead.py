"""Compile the forward pass and replay it as CUDA graphs.

This takes the host's launches away. Inputs must keep their shapes, and outputs of one step are
overwritten by the next. A module that is compiled without CUDA graphs is compiled again with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.record.tries.applied._compile import CompileSwitch
from foretrace.record.tries.session import Applied


class _CompileReduceOverhead(CompileSwitch):
    mode = "reduce-overhead"

    def recompiles(self, subject: Any) -> bool:
        options: Mapping[str, Any] = getattr(subject, "get_compiler_config", dict)() or {}
        return hasattr(subject, "_orig_mod") and not options.get("triton.cudagraphs")


APPLIED = Applied(
    "compile_reduce_overhead",
    "torch.compile, CUDA graphs",
    'model = torch.compile(model, mode="reduce-overhead")',
    _CompileReduceOverhead,
    realises=("cuda_graph", "compile"),
    devices=("cuda",),
    group="compile",
    compiles=True,
)
