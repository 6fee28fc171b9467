"""Keep convolution weights and inputs in channels_last, the layout that tensor cores read."""

from __future__ import annotations

from typing import Any

import torch

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Applied, Switch

_KINDS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)


class _ChannelsLast(Switch):
    def why_not(self) -> str:
        found = self.session.modules(*_KINDS)
        if not found:
            return "no convolutions"
        wide = [each.weight for each in found if min(each.weight.shape[:2]) > 1]
        if wide and all(each.is_contiguous(memory_format=torch.channels_last) for each in wide):
            return "the weights are in channels_last already"
        return ""

    def turn(self, on: bool) -> None:
        module = self.session.outermost
        if on and module is not None:
            module.to(memory_format=torch.channels_last)
            module.register_forward_pre_hook(_converted)

    def edits(self) -> list[Edit]:
        return self.after("{name}.to(memory_format=torch.channels_last)")


def _converted(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        each.contiguous(memory_format=torch.channels_last)
        if isinstance(each, torch.Tensor) and each.dim() == 4
        else each
        for each in inputs
    )


APPLIED = Applied(
    "channels_last",
    "channels_last",
    "model.to(memory_format=torch.channels_last)",
    _ChannelsLast,
    realises=("channels_last",),
    fresh=True,
)
