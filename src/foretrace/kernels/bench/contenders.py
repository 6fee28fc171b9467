"""Who computes a subject: each contender turns inputs into a call that returns a tuple of results.

Peers run at their best setting. `autotuned` is `torch.compile(mode="max-autotune")` with CUDA
graphs. `autotuned_tma` also lets the autotuner choose persistent TMA matmuls, which torch
leaves off by default, and runs without CUDA graphs, which copy their inputs: it is the strongest
compiled peer at large sizes. Liger's kernel sits between three linear layers, as in its modules.
Quack's gated MLP runs tuned, on gate and up weights interleaved beforehand, as it wants them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.kernels import steps
from foretrace.kernels.bench.subjects import BenchSubject, Tensors
from foretrace.kernels.case import CallCase
from foretrace.kernels.glu import gated
from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.routes import plan

Call = Callable[[], Tensors]
Function = Callable[..., Tensor]

AUTOTUNED = ("autotuned", "autotuned_tma")
NAMES = ("eager", "compiled", *AUTOTUNED, "liger", "quack", "ours")
TUNED = (*AUTOTUNED, "quack")  # what tries several kernels at a new size
_PACKAGES = {"liger": "liger_kernel", "quack": "quack"}
# What a first call would import: seconds of every process, where it is not imported before. Quack
# starts CUDA when it is imported, so that no process could be forked after that.
_MODULES = {"compiled": "torch._inductor.compile_fx", "liger": "liger_kernel.ops"}
# Activations of the peers, under their own names.
_PEERS = {
    "liger": {"gelu_tanh": "geglu", "silu": "swiglu"},
    "quack": {"gelu_tanh": "geglu", "silu": "swiglu", "relu": "reglu"},
}


def call_for(name: str, subject: BenchSubject, inputs: Tensors) -> Call:
    """The call by which contender `name` computes `subject` on these inputs."""
    if name == "quack":
        return _quack_mlp(subject, inputs)
    if name == "liger" and subject.trains:  # Liger's backward overwrites its forward's inputs
        inputs = tuple(tensor.clone() for tensor in inputs)
    liger, ours = _functions(subject)
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


def import_for(names: Iterable[str]) -> None:
    """Import what these contenders need, where it is installed."""
    for name in names:
        package = _PACKAGES.get(name)
        if name in _MODULES and (package is None or importlib.util.find_spec(package)):
            importlib.import_module(_MODULES[name])


def why_left_out(name: str, subject: BenchSubject) -> str | None:
    """Why a contender cannot compute a subject here; None where it can."""
    if name in _PACKAGES and importlib.util.find_spec(_PACKAGES[name]) is None:
        return "not installed"
    if name == "quack" and not subject.name.startswith("MLP"):
        return "has no such kernel"
    if name == "quack" and (subject.d | subject.h) % 8:
        return "takes multiples of eight only"
    if name in _PACKAGES and subject.activation not in _PEERS[name]:
        return f"has no {subject.activation}"
    return None


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


def _quack_mlp(subject: BenchSubject, inputs: Tensors) -> Call:
    from quack.mlp import mlp_func

    x, gate, up, down = inputs[:4]
    both = torch.stack((gate, up), dim=1).view(2 * gate.shape[0], -1)
    leaves = tuple(tensor.detach().requires_grad_() for tensor in (x, both, down))
    named = _PEERS["quack"][subject.activation]

    def forward() -> Tensors:
        with torch.no_grad():
            return (mlp_func(x, both, down, activation=named),)

    def training() -> Tensors:
        y = mlp_func(*leaves, activation=named)
        dx, d_both, d_down = torch.autograd.grad(y, leaves, inputs[-1])
        return y, dx, d_both[0::2], d_both[1::2], d_down

    return training if subject.trains else forward


def _liger_glu(gate: Tensor, up: Tensor, activation: str = "gelu_tanh") -> Tensor:
    if activation == "silu":
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction

        return LigerSiLUMulFunction.apply(gate, up)
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return LigerGELUMulFunction.apply(gate, up)


def _liger_gate_up(x: Tensor, gate: Tensor, up: Tensor, activation: str = "gelu_tanh") -> Tensor:
    return _liger_glu(F.linear(x, gate), F.linear(x, up), activation)


def _liger_mlp(
    x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str = "gelu_tanh"
) -> Tensor:
    return F.linear(_liger_gate_up(x, gate, up, activation), down)


def _our_gate_up(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    case = CallCase.of(x, gate, up, gate, "gelu_tanh")
    return _gate_up_part(case)(x, gate, up)[0]


@lru_cache
def _gate_up_part(case: CallCase) -> Callable[..., steps.Pair]:
    return steps.gate_up_part(case, plan(case.device, case.dtype, case.size).gate_up)


def _functions(subject: BenchSubject) -> tuple[Function, Function]:
    """Liger's function for a subject, and this package's."""
    if subject.name.startswith("glu"):
        return _liger_glu, gated
    if subject.name.startswith("gate"):
        return _liger_gate_up, _our_gate_up
    act = {"activation": subject.activation}
    return partial(_liger_mlp, **act), partial(gated_mlp, **act)
