"""Finds the steps of a program that marks none itself.

The rule: a step begins when the program calls its outermost module. Once an optimizer has stepped,
a step begins at the first sign of the next iteration after each of its steps: that module's call,
or `zero_grad`.

- The outermost module is the first `nn.Module` that is called. A global hook finds it, removes
  itself, and leaves one hook on that module, so that inner modules run at full speed and compiled
  ones are traced as before.
- Only the first optimizer that steps counts: a second one (as in a GAN) is in the same iteration.
- `optimizer.step` itself cannot end a step: its range in the trace is still open in its hooks.
- Other threads and forked workers never mark steps: the profiler belongs to the main thread.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

KINDS = ("auto", "forward", "optimizer", "none")


class StepFinder:
    """Calls `mark()` at the start of every step that it finds inside its `with` block.

    `kind`: `auto` is the rule above; `forward` marks every call of the outermost module,
    `optimizer` only what follows an optimizer's step, `none` nothing.
    """

    def __init__(self, mark: Callable[[], None], kind: str = "auto") -> None:
        self.kind = kind
        self._mark = mark
        self._home = (os.getpid(), threading.get_ident())
        self._optimizer: int | None = None  # the id of the first optimizer that stepped
        self._pending = False  # it has stepped, and the next iteration has not begun
        self._handles: list[Any] = []
        self._zero_grad = torch.optim.Optimizer.zero_grad

    def __enter__(self) -> StepFinder:
        if self.kind != "none":
            # Our own hook would cause it, and is gone before the module runs.
            message = "Using `torch.compile.module.` when there are global hooks"
            warnings.filterwarnings("ignore", message=message)
            self._handles = [register_module_forward_pre_hook(self._outermost)]
        if self.kind in ("auto", "optimizer"):
            self._handles.append(register_optimizer_step_post_hook(self._stepped))
            torch.optim.Optimizer.zero_grad = self._watched_zero_grad()
        return self

    def __exit__(self, *problem: object) -> None:
        torch.optim.Optimizer.zero_grad = self._zero_grad
        for handle in self._handles:
            handle.remove()

    def _outermost(self, module: Any, arguments: Any) -> None:
        # Inside a traced function this hook would be traced too; there it must do nothing at all.
        if torch.compiler.is_compiling() or not self._at_home():
            return
        self._handles[0].remove()
        self._handles[0] = module.register_forward_pre_hook(self._called)
        self._called(module, arguments)

    def _called(self, module: Any, arguments: Any) -> None:
        if torch.compiler.is_compiling() or not self._at_home():
            return
        every_call = self.kind == "forward" or (self.kind == "auto" and self._optimizer is None)
        if every_call or self._pending:
            self._begin()

    def _stepped(self, optimizer: Any, arguments: Any, options: Any) -> None:
        if torch.compiler.is_compiling() or not self._at_home():
            return
        if self._optimizer in (None, id(optimizer)):
            self._optimizer, self._pending = id(optimizer), True

    def _watched_zero_grad(self) -> Callable[..., Any]:
        original = self._zero_grad

        def zero_grad(optimizer: Any, *arguments: Any, **options: Any) -> Any:
            if self._pending and self._at_home():
                self._begin()
            return original(optimizer, *arguments, **options)

        return zero_grad

    def _begin(self) -> None:
        self._pending = False
        self._mark()

    def _at_home(self) -> bool:
        return self._home == (os.getpid(), threading.get_ident())
