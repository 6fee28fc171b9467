"""Who computes a subject: each contender turns inputs into a call that returns the results as a
tuple.

Peers run at their best setting. `autotuned` is `torch.compile(mode="max-autotune")`, CUDA graphs
and all; `autotuned_tma` lets the autotuner choose persistent TMA matrix products too, which torch
leaves off by default, and launches without graphs, which copy their inputs: the strongest compiled
peer at large sizes. Liger's kernel sits between three linear layers, as its modules have it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.kernels import steps
from foretrace.kernels.activations import gated_reference
from foretrace.kernels.bench.subjects import Subject, Tensors
from foretrace.kernels.glu import gated
from foretrace.kernels.mlp import gated_mlp, mlp_reference
from foretrace.kernels.routes import plan

Call = Callable[[], Tensors]
Function = Callable[..., Tensor]

AUTOTUNED = ("autotuned", "autotuned_tma")
NAMES = ("eager", "compiled", *AUTOTUNED, "liger", "ours")


def call_for(name: str, subject: Subject, inputs: Tensors) -> Call:
    """The call by which contender `name` computes `subject` on these inputs."""
    makers: dict[str, Callable[[Function], Function]] = {
        "eager": lambda function: function,
        "compiled": lambda function: torch.compile(function, dynamic=False),
        "autotuned": lambda function: torch.compile(function, dynamic=False, mode="max-autotune"),
        "autotuned_tma": _autotuned_with_tma,
    }
    if name in makers:
        return _bound(
            subject, makers[name](_PLAIN[subject.name]), inputs, fresh_graph=name == "autotuned"
        )
    return _bound(subject, {"liger": _LIGER, "ours": _OURS}[name][subject.name], inputs)


def available(name: str) -> bool:
    """Whether a contender is installed."""
    return name != "liger" or importlib.util.find_spec("liger_kernel") is not None


def _bound(
    subject: Subject, function: Function, inputs: Tensors, fresh_graph: bool = False
) -> Call:
    """A call of `function` on `inputs`; with gradients where the subject's last input is the
    result's gradient.
    """

    def forward() -> Tensors:
        if fresh_graph:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return (function(*inputs),)

    if not subject.name.endswith("backward"):
        return forward
    if function in _LIGER.values():  # its backward writes over what its forward was given
        inputs = tuple(tensor.clone() for tensor in inputs)
    leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs[:-1])

    def training() -> Tensors:
        if fresh_graph:
            torch.compiler.cudagraph_mark_step_begin()
        y = function(*leaves)
        return (y, *torch.autograd.grad(y, leaves, inputs[-1]))

    return training


def _autotuned_with_tma(function: Function) -> Function:
    from torch._inductor import config

    compiled = torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
    done = False

    def run(*inputs: Tensor) -> Tensor:
        nonlocal done
        if done:
            return compiled(*inputs)
        done = True
        # Read while compiling, which is on the first call; later calls need not pay for the
        # context.
        with config.patch({"triton.enable_persistent_tma_matmul": True}):
            return compiled(*inputs)

    return run


def _plain_gate_up(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return gated_reference(F.linear(x, gate), F.linear(x, up))


def _liger_glu(gate: Tensor, up: Tensor) -> Tensor:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return LigerGELUMulFunction.apply(gate, up)


def _liger_gate_up(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return _liger_glu(F.linear(x, gate), F.linear(x, up))


def _liger_mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.linear(_liger_gate_up(x, gate, up), down)


def _our_gate_up(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    (m, d), h = x.shape, gate.shape[0]
    out = x.new_empty((m, h))
    size = (m, d, h)
    route = plan(x.get_device(), x.dtype, size).gate_up
    steps.gate_up_part(x, steps.Weights(gate, up, gate), out, None, "gelu_tanh", size, route)
    return out


_PLAIN: dict[str, Function] = {
    "glu forward": gated_reference,
    "glu forward and backward": gated_reference,
    "gate, up and activation": _plain_gate_up,
    "MLP forward": mlp_reference,
    "MLP forward and backward": mlp_reference,
}
_LIGER: dict[str, Function] = {
    "glu forward": _liger_glu,
    "glu forward and backward": _liger_glu,
    "gate, up and activation": _liger_gate_up,
    "MLP forward": _liger_mlp,
    "MLP forward and backward": _liger_mlp,
}
_OURS: dict[str, Function] = {
    "glu forward": gated,
    "glu forward and backward": gated,
    "gate, up and activation": _our_gate_up,
    "MLP forward": gated_mlp,
    "MLP forward and backward": gated_mlp,
}
