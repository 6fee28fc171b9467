"""Let our gated-MLP kernels compute `down_proj(act(gate_proj(x)) * up_proj(x))` where it is found.

Llama's MLP, Gemma's and those written like them, forward and backward, in bf16 or fp16. Weights of
gate and up are put one below the other in memory, which changes no value. This file is no part of
the kernels' own package: importing that loads Triton, which would take seconds in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretrace.record.tries.applied.other_forward import (
    Forward,
    ModuleSwitch,
    module_dtype,
    projections,
)
from foretrace.record.tries.session import GPU


class _GatedMlp(ModuleSwitch):
    name, title, tolerance, devices = "gated_mlp", "our gated-MLP kernels", 1e-2, GPU
    write = "foretrace.kernels.swap(model)"
    unused = "no gated MLP with gate_proj, up_proj and down_proj"
    _stacked = False

    def others(self, module: Any) -> Sequence[Forward] | str:
        parts = projections(module)
        if not parts:
            return []
        if any(each.bias is not None for each in parts):
            return "the projections have biases"
        dtype = module_dtype(module)
        if (name := str(dtype).removeprefix("torch.")) not in ("bfloat16", "float16"):
            return f"the MLPs are {name}, not bfloat16 or float16"
        from foretrace.kernels.glu import ACTIVATIONS
        from foretrace.kernels.support import why_not

        reason = why_not(parts[0].weight.device, dtype)
        return reason or [_forward(parts, each) for each in ACTIVATIONS]

    def turn(self, on: bool) -> None:
        if on and not self._stacked and self.session.outermost is not None:
            from foretrace.kernels.module import stack

            self._stacked = True
            for module, _ in self.matching():
                stack(*projections(module)[:2])
        super().turn(on)


def _forward(parts: Sequence[Any], activation: str) -> Forward:
    from foretrace.kernels.mlp import gated_mlp

    def forward(x: Any) -> Any:
        gate, up, down = (each.weight for each in parts)
        return gated_mlp(x, gate, up, down, activation)

    return forward
