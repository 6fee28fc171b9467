"""Activations that stand alone, by name."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup

_NAMES = {
    "gelu": "GELU",
    "relu": "ReLU",
    "threshold": "ReLU",
    "clamp_min": "ReLU",
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
    known = {plain_forward(op) for op in (*work.ops, *work.origins)} & {*_NAMES}
    pointwise = work.role == "pointwise"
    return _NAMES[known.pop()] if pointwise and len(known) == 1 else ""


def plain_forward(op: str) -> str:
    """`gelu_backward` -> `gelu`."""
    return op.removesuffix("_backward")


GROUP = WorkGroup(
    "activation",
    75,
    _name,
    weak=True,
)
