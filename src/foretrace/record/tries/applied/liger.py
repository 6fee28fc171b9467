"""Let Liger's kernels compute what matches: in a Transformers model that Liger knows all of them.

Elsewhere they compute gated MLPs with SiLU or GELU's tanh form and RMSNorms, in modules whose
outputs agree. In a Transformers model the loss comes without logits while it trains; a script that
reads them then fails.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from foretrace.record.tries.applied._modules import Forward, ModuleSwitch, projections
from foretrace.record.tries.session import Applied, Session

MISSING = object()
Change = tuple[Any, str, Any, Any]  # where, which name, and its values before and after


class _Liger(ModuleSwitch):
    none = "no gated MLP and no RMSNorm"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._changes: list[Change] | None = None

    def why_not(self) -> str:
        if importlib.util.find_spec("liger_kernel") is None:
            return "Liger is not installed: pip install liger-kernel"
        found = self.session.modules(torch.nn.Module)
        if any(each.forward.__module__.startswith("liger_kernel.") for each in found):
            return "the model has Liger's kernels already"
        return "" if self._model() is not None else super().why_not()

    def turn(self, on: bool) -> None:
        if self.session.outermost is None:
            return
        if self._changes is None:
            model = self._model()
            self._changes = [] if model is None else _changes(model)
        if not self._changes:
            super().turn(on)
        for owner, name, before, after in self._changes:
            _put(owner, name, after if on else before)

    def others(self, module: Any) -> Sequence[Forward] | str:
        if parts := projections(module):
            return _gated(*parts)
        is_norm = type(module).__name__.endswith("RMSNorm") and module.weight is not None
        return _norms(module) if is_norm and module.weight.dim() == 1 else []

    def _model(self) -> Any:
        """The first Transformers model for which Liger has a recipe."""
        for each in self.session.modules(torch.nn.Module):
            kind = getattr(getattr(each, "config", None), "model_type", None)
            if isinstance(kind, str) and hasattr(each, "base_model_prefix"):
                from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

                return each if kind in MODEL_TYPE_TO_APPLY_LIGER_FN else None
        return None


def _gated(gate: Any, up: Any, down: Any) -> list[Forward]:
    from liger_kernel.ops import LigerGELUMulFunction, LigerSiLUMulFunction

    def through(kind: Any) -> Forward:
        return lambda x: down(kind.apply(gate(x), up(x)))

    return [through(LigerSiLUMulFunction), through(LigerGELUMulFunction)]


def _norms(module: Any) -> list[Forward]:
    """With the weight as it is, and as Gemma's, which is the distance from one."""
    from liger_kernel.ops import LigerRMSNormFunction

    eps = getattr(module, "variance_epsilon", None) or getattr(module, "eps", None) or 1e-6

    def normed(offset: float, casting: str) -> Forward:
        # not in place: a gradient may be used twice
        rest = (eps, offset, casting, False)
        return lambda x: LigerRMSNormFunction.apply(x, module.weight, *rest)

    return [normed(0.0, "llama"), normed(1.0, "gemma")]


def _changes(model: Any) -> list[Change]:
    """Apply Liger's recipe to the model, and note each name that it changes anywhere."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    owners = list(_owners(model))
    before = [dict(vars(owner)) for owner in owners]
    # a forward pass that somebody has wrapped (autocast, a compiler) stays as it is
    _apply_liger_kernel_to_instance(model, fused_linear_cross_entropy="forward" not in vars(model))
    return [
        (owner, name, old.get(name, MISSING), vars(owner).get(name, MISSING))
        for owner, old in zip(owners, before, strict=True)
        for name in {**old, **vars(owner)}
        if old.get(name, MISSING) is not vars(owner).get(name, MISSING)
    ]


def _owners(model: Any) -> Iterable[Any]:
    """All that a recipe writes to: modules of the model, their files, and torch.nn."""
    modules = list(model.modules())
    files = {type(each).__module__: None for each in modules}
    yield from modules
    yield from (sys.modules[name] for name in files if name in sys.modules)
    yield from (torch.nn, torch.nn.functional)


def _put(owner: Any, name: str, value: Any) -> None:
    if value is not MISSING:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)


APPLIED = Applied(
    "liger",
    "Liger's kernels",
    "AutoLigerKernelForCausalLM, or LigerSwiGLUMLP and LigerRMSNorm",
    _Liger,
    tolerance=1e-2,
    devices=("cuda",),
)
