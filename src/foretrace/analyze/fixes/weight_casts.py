"""Weights in the type that they are used in.

What it looks for: inference that converts float32 weights to bf16 or fp16 in every step: with
`.to()`, or under `torch.autocast`.

What must hold: the converted tensors have the shapes of weights and biases of the step's matmuls
and convolutions, and of no input. There is no backward pass in the recording: training keeps its
weights in float32.

What changes: the conversions go, with their host time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import outermost_move, with_gaps
from foretrace.analyze.fixes._gpu import rows_where
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import distinct
from foretrace.model.costs import OpCall
from foretrace.model.replay import GraphChange

TAKERS = (
    "aten::linear",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::matmul",
    "aten::mm",
)
NARROW = frozenset({"c10::BFloat16", "c10::Half"})
FEW = 4


def _find(step: Step) -> Iterator[Proposal]:
    if step.nodes.is_node.any():
        return
    weights = _weights(step)
    rows = rows_where(step, lambda case: _cast(case.call) in weights)
    makers = step.makers(step.trace.gpu.launch[rows])
    ops = distinct(np.array([outermost_move(step, op) for op in makers.tolist()], np.int64))
    if len(ops) >= FEW:
        yield Proposal(
            "load the weights in 16 bit: model.to(torch.bfloat16)",
            f"{len(ops)} conversions of float32 weights per step",
            GraphChange(with_gaps(step, ops), gone=frozenset(rows.tolist())),
            risk="weights in bf16 have 8 bits of precision: compare an output",
            events=step.events(rows),
        )


def _weights(step: Step) -> set[tuple[int, ...]]:
    """The shapes of weights and biases that no input has."""
    calls = [call for op in step.ops(*TAKERS).tolist() if (call := step.call(op))]
    taken = {
        each.dims for call in calls for at in (1, 2) if (each := call.tensor(at)) and each.dims
    }
    return taken - {first.dims for call in calls if (first := call.tensor(0))}


def _cast(call: OpCall | None) -> tuple[int, ...] | None:
    """The shape of a tensor that this copy turns from float32 into 16 bit."""
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    is_cast = source and target and source.type == "float" and target.type in NARROW
    return source.dims if source and is_cast else None


FIX = Fix("weight_casts", "Weights in the type of their matmuls", _find, ("gpu", "shapes"))
