"""Compile the forward pass and time several kernels for each matmul and convolution.

Compiling takes minutes on a large model, so this is only tried on request.
"""

from __future__ import annotations

from foretrace.record.tries.applied._compile import CompileSwitch
from foretrace.record.tries.session import Applied


class _CompileMaxAutotune(CompileSwitch):
    mode = "max-autotune-no-cudagraphs"


APPLIED = Applied(
    "compile_max_autotune",
    "torch.compile, autotuned",
    'model = torch.compile(model, mode="max-autotune-no-cudagraphs")',
    _CompileMaxAutotune,
    realises=("compile",),
    rare=True,
    group="compile",
    compiles=True,
)
