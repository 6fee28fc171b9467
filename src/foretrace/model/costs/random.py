"""Random numbers and dropout: numbers are made on chip, so only results move. FLOP of the generator
are not counted.

Dropout writes a mask of one byte per element beside its output. `multinomial` sorts or searches
inside, in passes that are not counted.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, moved, table


def _in_place(call: OpCall) -> Cost:
    """normal_, uniform_, ... (self, ...): only probabilities given as a tensor are read."""
    return moved([call.tensor(1)], [call.need(0)])


def _bernoulli(call: OpCall) -> Cost:
    """bernoulli (self): a draw per probability."""
    return moved([call.need(0)], [call.need(0).dense()])


def _dropout(call: OpCall) -> Cost:
    """native_dropout, _fused_dropout (input, p, ...): output and mask."""
    source = call.need(0)
    return moved([source], [source.dense(), source.dense("bool")], source.elements)


def _multinomial(call: OpCall) -> Cost | None:
    """multinomial (self, num_samples, ...): `num_samples` 64-bit indices per row."""
    source, samples = call.need(0), call.integer(1)
    if samples is None or not source.dims:
        return None
    return moved([source], [Tensor((*source.dims[:-1], samples), "long int")])


_IN_PLACE = "normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli_"

KIND = CostKind(
    {
        **table(_IN_PLACE, _in_place),
        **table("bernoulli poisson", _bernoulli),
        **table("native_dropout _fused_dropout", _dropout),
        "aten::multinomial": _multinomial,
    }
)
