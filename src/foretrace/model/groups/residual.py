"""The sum of a layer's input and output, where a norm or an activation follows.

It comes right after the last matmul (or its dropout) and before a norm; in a ResNet, between a
batch norm and a ReLU. Both operands have one size.
"""

from __future__ import annotations

from foretrace.model.groups._group import Pattern, WorkGroup

_NORM = "cast? (pow|square) mean|mean sub|layer_norm|native_layer_norm|rms_norm"
GROUP = WorkGroup(
    "residual add",
    73,
    lambda work: "",
    (
        Pattern(f"(?<=gemm|dropout|native_dropout) add (?={_NORM})", one_size=True),
        Pattern("(?<=batch_norm) add (?=relu)", one_size=True),
    ),
    with_backward=False,
)
