"""What the fixes share that compile the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.applied._forward import ForwardSwitch
from foretrace.record.tries.rounds import Edit


class CompileSwitch(ForwardSwitch):
    """torch.compile around the outermost forward pass, in one mode."""

    mode: str | None = None

    def why_not(self) -> str:
        """Nothing is compiled twice."""
        subject = self.session.outermost or self.session.call
        if subject is None:
            return "the script calls no module"
        # by name: importing Dynamo to ask takes seconds
        marks = ("_orig_mod", "_torchdynamo_orig_callable", "_compiled_call_impl")
        compiled = any(getattr(subject, mark, None) is not None for mark in marks)
        return "it is compiled already" if compiled else ""

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled forward pass."""
        compiled: Callable[..., Any] = torch.compile(forward, mode=self.mode)
        return compiled

    def edits(self) -> list[Edit]:
        """Below the statement that makes the model."""
        line = self.session.made_at.get(id(self.session.outermost), 0)
        mode = "" if self.mode is None else f'mode="{self.mode}"'
        return [Edit("after", f"{{name}}.compile({mode})", line)] if line else []
