"""Causal attention six ways: written out, with the mask in place, and through each SDPA backend.

Written out it is six GPU operations; one is the copy that an out-of-place mask makes. A fused
backend is one kernel. The `math` backend is SDPA's own written-out form; it rebuilds the mask on
every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.base.errors import MissingError
from foretrace.schema.rung import Built, Option, Rung, Setup

_BACKENDS = ("math", "efficient", "flash", "cudnn")
_NEED_GPU = ("efficient", "cudnn")


def build(setup: Setup) -> Built:
    """One forward over (batch, heads, seq, head_dim) queries, keys and values."""
    import torch

    from foretrace.learn.ladder.modules import place

    if setup.device == "cpu" and setup.variant in _NEED_GPU:
        choices = "choose naive, inplace, math, flash"
        raise MissingError(f"the {setup.variant} backend has no CPU form: {choices}")
    shape = (setup["batch"], setup["heads"], setup["seq"], setup["head_dim"])
    qkv = [torch.randn(shape, **place(setup)) for _ in range(3)]
    if setup.variant in _BACKENDS:
        return Built(_pinned(setup, *qkv), region="sdpa_fwd")
    return Built(_written_out(setup, *qkv), region="attn_fwd")


def _written_out(setup: Setup, query: Any, key: Any, value: Any) -> Callable[[], object]:
    import torch

    from foretrace.learn.ladder.modules import forward_only

    seq, scale, in_place = setup["seq"], setup["head_dim"] ** -0.5, setup.variant == "inplace"
    # built once, outside the step
    hidden = torch.ones(seq, seq, device=setup.device, dtype=torch.bool).triu(1)

    def attend(query: Any, key: Any, value: Any, hidden: Any) -> Any:
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        fill = scores.masked_fill_ if in_place else scores.masked_fill
        weights = torch.softmax(fill(hidden, float("-inf")), dim=-1)
        return torch.matmul(weights, value)

    return forward_only(setup.compile(attend), query, key, value, hidden)


def _pinned(setup: Setup, query: Any, key: Any, value: Any) -> Callable[[], object]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    name = setup.variant.upper()
    backend = getattr(SDPBackend, name if name == "MATH" else f"{name}_ATTENTION")

    def attend(query: Any, key: Any, value: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    function = setup.compile(attend)

    def call() -> object:
        try:
            with torch.no_grad(), sdpa_kernel(backend):
                return function(query, key, value)
        except RuntimeError as problem:
            if "No available kernel" not in str(problem):
                raise
            message = f"SDPA's {setup.variant} backend does not run this shape and dtype here"
            raise MissingError(message) from problem

    return call


RUNG = Rung(
    name="attention",
    title="causal attention: written out, and through each SDPA backend",
    options=(
        Option("batch", 8, "sequences", small=1),
        Option("heads", 16, "heads", small=4),
        Option("seq", 1024, "tokens per sequence", small=128),
        Option("head_dim", 64, "features per head", small=32),
    ),
    variants={
        "naive": "written out; the mask makes a copy",
        "inplace": "written out; the mask is applied in place",
        "math": "SDPA, math backend",
        "efficient": "SDPA, memory-efficient backend (needs a GPU)",
        "flash": "SDPA, flash backend",
        "cudnn": "SDPA, cuDNN backend (needs a GPU)",
    },
    build=build,
)
