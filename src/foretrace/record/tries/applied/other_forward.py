"""Another forward pass for modules of a known kind: what such fixes share, and Liger's kernels.

A module is known by its attributes. What its class computes is not read: both forward passes run
once on random numbers, and only a module whose outputs agree is changed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from foretrace.record.tries.session import GPU, Switch

Forward = Callable[[Any], Any]
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
ROWS = 64  # of the input that both forward passes get
# how far outputs may differ, as a share: those of bf16 have 8 bits
SAME = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}
# gates of this size tell one activation from another: near zero all of them are lines
SPREAD = 2.0


class ModuleSwitch(Switch):
    """Gives each module that matches another forward pass, and its own back."""

    unused = "no module matches"
    _reason = ""
    _found: list[tuple[Any, Forward]] | None = None
    _before: Sequence[Any] = ()

    def others(self, module: Any) -> Sequence[Forward] | str:
        """Forward passes that may compute what the module's does, or why not; () for others."""
        raise NotImplementedError

    def why_not(self) -> str:
        """Why no module matches."""
        return "" if self.matching() else self._reason or self.unused

    def turn(self, on: bool) -> None:
        """Replace the forward passes, or put back what was there."""
        if self.session.outermost is None or on == self.on:
            return
        super().turn(on)
        if on:
            self._before = [vars(module).get("forward") for module, _ in self.matching()]
        for (module, forward), before in zip(self.matching(), self._before, strict=True):
            if on or before is not None:
                module.forward = forward if on else before
            else:
                del module.forward

    def matching(self) -> list[tuple[Any, Forward]]:
        """The modules that match, each with its other forward pass."""
        if self._found is None:
            fits = [(each, self._fitting(each)) for each in self.session.modules(torch.nn.Module)]
            self._found = [(each, fit) for each, fit in fits if fit is not None]
        return self._found

    def _fitting(self, module: Any) -> Forward | None:
        """The forward pass that computes what the module's does."""
        others = self.others(module)
        if isinstance(others, str):
            self._reason = others
        if isinstance(others, str) or not others:
            return None
        try:
            apart = [_difference(module, each) for each in others]
        except Exception as problem:  # noqa: BLE001 - a module that takes more than one tensor
            self._reason = f"{type(module).__name__}: {type(problem).__name__} on random numbers"
            return None
        if min(apart) <= SAME[module_dtype(module)]:
            return others[apart.index(min(apart))]
        self._reason = f"{type(module).__name__} computes something else: {min(apart):.1e} apart"
        return None


def projections(module: Any) -> list[Any]:
    """The three linear layers of a gated MLP; empty where the module is none."""
    parts = [getattr(module, name, None) for name in PROJECTIONS]
    return parts if all(isinstance(each, torch.nn.Linear) for each in parts) else []


def module_dtype(module: Any) -> torch.dtype:
    """The type of its first parameter."""
    dtype: torch.dtype = next(module.parameters()).dtype
    return dtype


def _difference(module: Any, other: Forward) -> float:
    """How far the outputs of both forward passes differ, as a share."""
    with torch.no_grad():
        x = _sample(module)
        # a module that draws random numbers must leave those of the script alone
        with torch.random.fork_rng([x.device] if x.is_cuda else []):
            first, second = module.forward(x).float(), other(x).float()
        return float((first - second).norm() / first.norm())


def _sample(module: Any) -> Any:
    """Random numbers as the module's input, the same each time."""
    weight = next(module.parameters())
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(1, ROWS, weight.shape[-1], generator=numbers).to(weight.device, weight.dtype)
    parts = projections(module)
    return x if not parts else x * (SPREAD / parts[0](x).float().std().clamp(1e-6)).to(x.dtype)


MISSING = object()
Change = tuple[Any, str, Any, Any]  # where, which name, and its values before and after


class _Liger(ModuleSwitch):
    """Let Liger's kernels compute what matches: in a Transformers model that Liger knows all.

    Elsewhere they compute gated MLPs with SiLU or GELU's tanh form and RMSNorms, in modules whose
    outputs agree. In a Transformers model the loss comes without logits while it trains; a script
    that reads them then fails.
    """

    name, title, tolerance, devices = "liger", "Liger's kernels", 1e-2, GPU
    write = "AutoLigerKernelForCausalLM, or LigerSwiGLUMLP and LigerRMSNorm"
    unused = "no gated MLP and no RMSNorm"
    _changes: list[Change] | None = None

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
            value = after if on else before
            if value is not MISSING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)

    def others(self, module: Any) -> Sequence[Forward] | str:
        if parts := projections(module):
            from liger_kernel.ops import LigerGELUMulFunction, LigerSiLUMulFunction

            gate, up, down = parts

            def through(kind: Any) -> Forward:
                return lambda x: down(kind.apply(gate(x), up(x)))

            return [through(LigerSiLUMulFunction), through(LigerGELUMulFunction)]
        is_norm = type(module).__name__.endswith("RMSNorm") and module.weight is not None
        if is_norm and module.weight.dim() == 1:
            from liger_kernel.ops import LigerRMSNormFunction

            eps = getattr(module, "variance_epsilon", None) or getattr(module, "eps", None) or 1e-6

            def normed(offset: float, casting: str) -> Forward:
                # not in place: a gradient may be used twice
                rest = (eps, offset, casting, False)
                return lambda x: LigerRMSNormFunction.apply(x, module.weight, *rest)

            # the weight as it is, and as Gemma's, which is the distance from one
            return [normed(0.0, "llama"), normed(1.0, "gemma")]
        return []

    def _model(self) -> Any:
        """The first Transformers model for which Liger has a recipe."""
        for each in self.session.modules(torch.nn.Module):
            kind = getattr(getattr(each, "config", None), "model_type", None)
            if isinstance(kind, str) and hasattr(each, "base_model_prefix"):
                from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

                return each if kind in MODEL_TYPE_TO_APPLY_LIGER_FN else None
        return None


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
