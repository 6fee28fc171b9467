"""Activations that stand alone, by name."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, Pattern, WorkGroup

_NAMES = {
    "gelu": "GELU",
    "relu": "ReLU",
    "threshold": "ReLU",
    "silu": "SiLU",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "hardswish": "Hardswish",
    "mish": "Mish",
    "softplus": "softplus",
}


def _name(work: GpuWork) -> str:
    """By op, by its backward op, or by the only such op that an Inductor kernel comes from."""
    forward = (op.removesuffix("_backward") for op in (*work.ops, *work.origins))
    known = {_NAMES[op] for op in forward if op in _NAMES}
    return known.pop() if work.role == "pointwise" and len(known) == 1 else ""


# GPT-2's GELU by hand: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
_BY_HAND = Pattern("mul pow mul add mul tanh add mul", same_size=True)
GROUP = WorkGroup("GELU", 75, _name, (_BY_HAND,), weak=True)
