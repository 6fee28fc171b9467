"""Compile the forward pass of the outermost module, and with it its backward pass.

Inductor rounds differently where it fuses. A model with dropout draws other random
numbers: it is held to what another seed changes.
"""

from __future__ import annotations

from foretrace.record.tries.applied._compile import CompileSwitch
from foretrace.record.tries.session import Applied

APPLIED = Applied(
    "compile",
    "torch.compile",
    "model = torch.compile(model)",
    CompileSwitch,
    realises=("compile",),
    group="compile",
    compiles=True,
)
