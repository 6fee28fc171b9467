"""Compile the loss function that the script calls beside the model, each with its backward pass.

Seen are the functions of `torch.nn.functional` and the loss modules, which call them. What a
function of the script computes around them stays as it is: nothing shows where it begins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from foretrace.record.tries.applied._compile import compile_line
from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Applied, Session, Switch, tensors

NAMES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
LOSSES = (*NAMES, *(name for name in dir(F) if name.endswith("_loss")))
# The passes over fewer values take some 10 us on a GPU, less than a compiled function's guards.
LEAST = 1_000_000


class _CompileLoss(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._most = 0
        self._compiled_runs = False
        self._lines: dict[int, str] = {}  # where the script makes its loss modules: what to add
        for name in LOSSES:
            setattr(F, name, self._switched(getattr(F, name)))

    def why_not(self) -> str:
        if not self._most:
            return "no loss function of torch is called beside the model"
        return "" if self._most >= LEAST else f"the loss reads no more than {self._most:,} values"

    def edits(self) -> list[Edit]:
        found = sorted(self._lines.items())
        return [Edit("after", words, line) for line, words in found] if all(self._lines) else []

    def _switched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        made: list[Callable[..., Any]] = []  # when it is first used: Dynamo takes seconds to load

        def compiled(*arguments: Any, **options: Any) -> Any:
            made.extend([] if made else [torch.compile(original)])
            self._compiled_runs = True  # Inductor calls losses itself, to trace its patterns
            try:
                return made[0](*arguments, **options)
            finally:
                self._compiled_runs = False

        def loss(*arguments: Any, **options: Any) -> Any:
            is_torchs = torch.compiler.is_compiling() or self._compiled_runs
            if is_torchs or not self._is_beside():
                return original(*arguments, **options)
            sizes = [each.numel() for each in tensors((arguments, options))]
            self._most = max([self._most, *sizes])
            return (compiled if self.on else original)(*arguments, **options)

        return loss

    def _is_beside(self) -> bool:
        """Whether the outermost module is not on the stack; the line of a loss module is kept."""
        frame: Any = sys._getframe(2)
        criterion: Any = frame.f_locals.get("self")
        while frame is not None:
            is_call = frame.f_code.co_name == "_call_impl"
            if is_call and frame.f_locals.get("self") is self.session.outermost:
                return False
            frame = frame.f_back
        is_module = isinstance(criterion, torch.nn.modules.loss._Loss)
        line = self.session.made_at.get(id(criterion), 0) if is_module else 0
        self._lines[line] = compile_line(criterion) if is_module else ""
        return True


APPLIED = Applied(
    "compile_loss",
    "torch.compile of the loss",
    "criterion = torch.compile(criterion), or torch.compile(F.cross_entropy)",
    _CompileLoss,
    compiles=True,
)
