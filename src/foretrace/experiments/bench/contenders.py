"""Who computes a subject: each contender turns inputs into a call that returns a tuple of results.

Peers run at their best setting. `autotuned` is `torch.compile(mode="max-autotune")` with CUDA
graphs. `autotuned_tma` also lets the autotuner choose persistent TMA matrix products, which torch
leaves off by default, and runs without CUDA graphs, which copy their inputs: it is the strongest
compiled peer at large sizes. Liger's kernel sits between three linear layers, as in its modules.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.experiments.bench.subjects import BenchSubject, Tensors
from foretrace.kernels import steps
from foretrace.kernels.glu import gated
from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.routes import plan

Call = Callable[[], Tensors]
Function = Callable[..., Tensor]

AUTOTUNED = ("autotuned", "autotuned_tma")
NAMES = ("eager", "compiled", *AUTOTUNED, "liger", "ours")


def call_for(name: str, subject: BenchSubject, inputs: Tensors) -> Call:
    """The call by which contender `name` computes `subject` on these inputs."""
    if name == "liger" and subject.trains:  # Liger's backward overwrites its forward's inputs
        inputs = tuple(tensor.clone() for tensor in inputs)
    liger, ours = _FUNCTIONS[subject.name]
    makers: dict[str, Callable[[Function], Function]] = {
        "eager": lambda plain: plain,
        "compiled": lambda plain: torch.compile(plain, dynamic=False),
        "autotuned": lambda plain: torch.compile(plain, dynamic=False, mode="max-autotune"),
        "autotuned_tma": _autotuned_with_tma,
        "liger": lambda plain: liger,
        "ours": lambda plain: ours,
    }
    function = makers[name](subject.function)
    # a backward takes the last input as the gradient of the result
    leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs[:-1])

    def forward() -> Tensors:
        if name == "autotuned":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return (function(*inputs),)

    def training() -> Tensors:
        if name == "autotuned":
            torch.compiler.cudagraph_mark_step_begin()
        y = function(*leaves)
        return (y, *torch.autograd.grad(y, leaves, inputs[-1]))

    return training if subject.trains else forward


def available(name: str) -> bool:
    """Whether a contender is installed."""
    return name != "liger" or importlib.util.find_spec("liger_kernel") is not None


def _autotuned_with_tma(function: Function) -> Function:
    from torch._inductor import config

    compiled = torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
    done = False

    def run(*inputs: Tensor) -> Tensor:
        nonlocal done
        if done:
            return compiled(*inputs)
        done = True
        # Read during compilation, in the first call; later calls need no context.
        with config.patch({"triton.enable_persistent_tma_matmul": True}):
            return compiled(*inputs)

    return run


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


# By subject: Liger, and this package.
_FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "glu forward": (_liger_glu, gated),
    "glu forward and backward": (_liger_glu, gated),
    "gate, up and activation": (_liger_gate_up, _our_gate_up),
    "MLP forward": (_liger_mlp, gated_mlp),
    "MLP forward and backward": (_liger_mlp, gated_mlp),
}
