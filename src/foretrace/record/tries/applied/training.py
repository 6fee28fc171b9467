"""What a training step does besides its model: optimizers, gradients, recomputation, checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint as checkpoints

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import GPU, ForwardSwitch, Session, Switch


class _FusedOptimizer(Switch):
    """Give the optimizer `fused=True`: one kernel for many parameters.

    torch has it for Adam, AdamW, SGD and Adagrad. Gradients must be dense and floating point.
    """

    name, title, write = "fused_optimizer", "fused optimizer", "AdamW(..., fused=True)"
    realises, group = ("fused_optimizer",), "optimizer"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before: dict[int, tuple[Any, Any]] = {}

    def why_not(self) -> str:
        able = self._able()
        if not self.session.optimizers:
            return "no optimizer"
        if not able:
            return f"{type(self.session.optimizers[0]).__name__} has no fused form"
        if all(group["fused"] for each in able for group in each.param_groups):
            return "the optimizer is fused already"
        grads = [p.grad for each in able for group in each.param_groups for p in group["params"]]
        sparse = any(grad is not None and grad.is_sparse for grad in grads)
        return "gradients are sparse" if sparse else ""

    def turn(self, on: bool) -> None:
        for optimizer in self._able():
            for group in optimizer.param_groups:
                before = self._before.setdefault(id(group), (group["fused"], group["foreach"]))
                group["fused"], group["foreach"] = (True, False) if on else before
                # A fused step counts on the device; counting there makes the other kinds wait.
                on_device = bool(group["fused"] or group.get("capturable"))
                for parameter in group["params"]:
                    count = optimizer.state.get(parameter, {}).get("step")
                    if isinstance(count, torch.Tensor):
                        where = parameter.device if on_device else "cpu"
                        optimizer.state[parameter]["step"] = count.to(where)

    def edits(self) -> list[Edit]:
        return self.added("fused=True", self._able())

    def _able(self) -> list[Any]:
        return [
            each
            for each in self.session.optimizers
            if "fused" in each.defaults
            and not each.defaults.get("differentiable")
            and all(torch.is_floating_point(p) for g in each.param_groups for p in g["params"])
        ]


class _ForeachOptimizer(Switch):
    """Let the optimizer handle many parameters at once, where the script turned that off.

    `foreach=False` runs a loop over the parameters with several kernels for each.
    """

    name, title, write = "foreach_optimizer", "foreach optimizer", "AdamW(..., foreach=True)"
    realises, devices, group = ("fused_optimizer", "foreach_loop"), GPU, "optimizer"

    def why_not(self) -> str:
        if not self.session.optimizers:
            return "no optimizer"
        groups = [g for each in self.session.optimizers for g in each.param_groups]
        loops = any(g.get("foreach", True) is False and not g.get("fused") for g in groups)
        return "" if loops else "the optimizer does not loop over its parameters"

    def turn(self, on: bool) -> None:
        for each in self._looping():
            if not each.defaults.get("fused"):
                for group in each.param_groups:
                    group["foreach"] = on

    def edits(self) -> list[Edit]:
        return self.added("foreach=True", self._looping())

    def _looping(self) -> list[Any]:
        every = self.session.optimizers
        return [each for each in every if each.defaults.get("foreach", True) is False]


class _SetToNone(Switch):
    """Drop gradients in `zero_grad` in the place of writing zeros into them."""

    name, title, write = "set_to_none", "zero_grad drops gradients", "optimizer.zero_grad()"
    unused = "gradients are dropped already"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._dropping(owner.zero_grad)

    def _dropping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(owner: Any, set_to_none: bool = True) -> Any:
            self.calls += not set_to_none
            return original(owner, set_to_none or self.on)

        return zero_grad


class _NoAnomaly(Switch):
    """Turn autograd's anomaly mode off.

    It checks every gradient for NaN and keeps a stack per op.
    """

    name, title, realises = "no_anomaly", "anomaly mode off", ("anomaly_mode",)
    write, unused = "remove torch.autograd.set_detect_anomaly(True)", "anomaly mode is off"
    _checks = True  # for NaN

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._set = torch.set_anomaly_enabled
        torch.set_anomaly_enabled = self._enabled

    def turn(self, on: bool) -> None:
        super().turn(on)
        self._enabled(bool(self.calls), self._checks)

    def _enabled(self, mode: bool, check_nan: bool = True) -> None:
        self.calls += mode
        self._checks = check_nan
        self._set(mode and not self.on, check_nan)


class _NoCheckpoint(Switch):
    """Keep activations in the place of recomputing them, where the memory allows."""

    name, title, realises = "no_checkpoint", "no checkpointing", ("checkpoint",)
    write = "call the block directly: checkpoint(block, x) is block(x)"
    unused = "nothing is recomputed"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        original = checkpoints.checkpoint
        own = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop")

        def checkpoint(function: Any, *arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if not self.on:
                return original(function, *arguments, **options)
            for name in ("preserve_rng_state", *own):
                options.pop(name, None)
            return function(*arguments, **options)

        checkpoints.checkpoint = checkpoint


class _NoGrad(ForwardSwitch):
    """Run the forward pass without autograd, where nothing is ever differentiated."""

    name, title = "no_grad", "inference without autograd"
    write = "with torch.inference_mode(): out = model(x)"

    def why_not(self) -> str:
        if self.session.backwards or self.session.optimizers:
            return "the script trains"
        if not any(each.requires_grad for each in self.session.parameters):
            return "no parameter needs a gradient"
        return "" if self.session.counts["tracked"] else "autograd is off already"

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        without: Callable[..., Any] = torch.no_grad()(forward)
        return without
