"""Load batches into pinned memory, and copy them to the GPU without waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from foretrace.record.tries.applied._loaders import LoaderSwitch
from foretrace.record.tries.session import Applied, Session


class _PinnedLoader(LoaderSwitch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        tensor: Any = torch.Tensor
        for name in ("to", "cuda"):
            setattr(tensor, name, self._without_waiting(getattr(tensor, name)))

    def why_not(self) -> str:
        if not self.made:
            return "no DataLoader"
        pinned = all(loader.pin_memory for loader, _ in self.made)
        return "the loader pins its memory already" if pinned else ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"pin_memory": True}

    def _without_waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def moved(tensor: Any, *arguments: Any, **options: Any) -> Any:
            if self._on and tensor.device.type == "cpu" and tensor.is_pinned():
                options.setdefault("non_blocking", True)
            return original(tensor, *arguments, **options)

        return moved


APPLIED = Applied(
    "pinned_loader",
    "pinned batches",
    "DataLoader(..., pin_memory=True), x.to(device, non_blocking=True)",
    _PinnedLoader,
    realises=("pinned_copies", "data_loader"),
    devices=("cuda",),
    fresh=True,
)
