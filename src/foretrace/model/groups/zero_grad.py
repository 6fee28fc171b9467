"""Gradients set to zero between steps; `set_to_none=True` launches nothing."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "zero_grad",
    21,
    named(
        "zero_grad",
        lambda work: any(name.startswith("Optimizer.zero_grad#") for name in work.path),
    ),
    with_backward=False,
)
