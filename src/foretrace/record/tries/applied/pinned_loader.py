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
        self._waits = 0  # copies from pinned memory that wait all the same
        tensor: Any = torch.Tensor
        for name in ("to", "cuda"):
            setattr(tensor, name, self._without_waiting(getattr(tensor, name)))

    def why_not(self) -> str:
        if not self.made and not self._waits:
            return "no DataLoader"
        pinned = all(loader.pin_memory for loader, _ in self.made)
        return "batches are pinned, and no copy waits" if pinned and not self._waits else ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"pin_memory": True}

    def _without_waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def moved(tensor: Any, *arguments: Any, **options: Any) -> Any:
            # a bool in its place is `non_blocking`, too
            said = "non_blocking" in options or any(isinstance(each, bool) for each in arguments)
            here = not said and tensor.device.type == "cpu" and self.session.device == "cuda"
            waits = here and tensor.is_pinned()
            if waits and self.on:
                options["non_blocking"] = True
            result = original(tensor, *arguments, **options)
            self._waits += waits and result.is_cuda
            return result

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
