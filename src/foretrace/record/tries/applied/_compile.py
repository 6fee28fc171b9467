"""What the fixes share that compile a module."""

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
        subject = self.session.outermost
        if subject is None:  # asking a compiled module whether it is true raises
            subject = self.session.call
        if subject is None:
            return "the script calls no module"
        # by name: importing Dynamo to ask takes seconds
        marks = ("_orig_mod", "_torchdynamo_orig_callable", "_compiled_call_impl")
        compiled = any(getattr(subject, mark, None) is not None for mark in marks)
        return "it is compiled already" if compiled and not self.recompiles(subject) else ""

    def recompiles(self, subject: Any) -> bool:
        """Whether what is compiled already is compiled again, in this mode."""
        return False

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled forward pass; of a compiled module, that of the module inside."""
        inside = getattr(self.session.outermost, "_orig_mod", None)
        plain = forward if inside is None else inside.forward
        compiled: Callable[..., Any] = torch.compile(plain, mode=self.mode)
        return compiled

    def edits(self) -> list[Edit]:
        """Below the statement that makes the model."""
        module = self.session.outermost
        if module is None or getattr(module, "_orig_mod", None) is not None:
            return []  # a function, or the script's own torch.compile is the line to change
        mode = "" if self.mode is None else f'mode="{self.mode}"'
        return self.after(compile_line(module, mode))


def compile_line(module: Any, options: str = "") -> str:
    """The line that compiles a module, with its name left open.

    `Module.compile` keeps the type and the names in the state dict. It compiles nothing where
    torch defines the forward pass, as that of `nn.Sequential`: Dynamo skips torch's own files.
    """
    if not type(module).forward.__module__.startswith("torch."):
        return f"{{name}}.compile({options})"
    return f"{{name}} = torch.compile({', '.join(filter(None, ['{name}', options]))})"
