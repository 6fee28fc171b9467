"""Random numbers and dropout: numbers are made on chip, so only results move. FLOP of the generator
are not stated.

Dropout writes a mask of one byte per element beside its output. `multinomial` and `randperm` sort
or search inside, in a number of passes that is not stated; what they must move at least is counted.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, moved


def _in_place(call: OpCall) -> Cost | None:
    """normal_, uniform_, random_, ... (self, ...): written, not read, save for probabilities given
    as a tensor.
    """
    target = call.tensor(0)
    return None if target is None else moved([call.tensor(1)], [target])


def _bernoulli(call: OpCall) -> Cost | None:
    """bernoulli (self): a draw per probability."""
    source = call.tensor(0)
    return None if source is None else moved([source], [Tensor(source.dims, source.type)])


def _dropout(call: OpCall) -> Cost | None:
    """native_dropout, _fused_dropout (input, p, ...): output and mask."""
    source = call.tensor(0)
    if source is None:
        return None
    return moved(
        [source], [Tensor(source.dims, source.type), Tensor(source.dims, "bool")], source.elements
    )


def _multinomial(call: OpCall) -> Cost | None:
    """multinomial (self, num_samples, ...): `num_samples` 64-bit indices per row."""
    source, samples = call.tensor(0), call.integer(1)
    if source is None or samples is None or not source.dims:
        return None
    return moved([source], [Tensor((*source.dims[:-1], samples), "long int")])


KIND = Kind(
    prices={
        **{
            f"aten::{name}_": _in_place
            for name in (
                "normal",
                "uniform",
                "random",
                "exponential",
                "geometric",
                "log_normal",
                "cauchy",
                "bernoulli",
            )
        },
        "aten::bernoulli": _bernoulli,
        "aten::poisson": _bernoulli,
        "aten::native_dropout": _dropout,
        "aten::_fused_dropout": _dropout,
        "aten::multinomial": _multinomial,
    },
    examples=(
        (
            OpCall("aten::normal_", [[10, 4], [], []], ["float", "Scalar", "Scalar"]),
            Cost(None, 0, 160),
        ),
        (OpCall("aten::native_dropout", [[8, 16]], ["c10::BFloat16"]), Cost(128, 256, 256 + 128)),
        (
            OpCall(
                "aten::multinomial",
                [[4, 100], [], []],
                ["float", "Scalar", "Scalar"],
                concrete=["", "1", "False"],
            ),
            Cost(None, 1600, 32),
        ),
    ),
)
