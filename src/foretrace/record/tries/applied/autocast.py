"""Run the forward pass under bf16 autocast; its outputs are float32 again, so the loss is too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.applied._forward import ForwardSwitch
from foretrace.record.tries.session import Applied


class _Autocast(ForwardSwitch):
    def why_not(self) -> str:
        kinds = {each.dtype for each in self.session.parameters}
        if kinds and torch.float32 not in kinds:
            return "the parameters are not float32"
        return "the script uses autocast already" if self.session.counts["autocast"] else ""

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        device = self.session.device

        def cast(*arguments: Any, **options: Any) -> Any:
            with torch.autocast(device, torch.bfloat16):
                return _whole(forward(*arguments, **options))

        return cast


def _whole(result: Any) -> Any:
    """The same with float32 in the place of bf16."""
    if isinstance(result, torch.Tensor):
        return result.float() if result.dtype == torch.bfloat16 else result
    if isinstance(result, dict):
        for key in result:
            result[key] = _whole(result[key])
        return result
    if type(result) in (list, tuple):
        return type(result)(_whole(each) for each in result)
    return result


APPLIED = Applied(
    "autocast",
    "bf16 autocast",
    'with torch.autocast("cuda", torch.bfloat16): out = model(x)',
    _Autocast,
    realises=("autocast", "attention_dtype"),
    tolerance=1e-2,
)
