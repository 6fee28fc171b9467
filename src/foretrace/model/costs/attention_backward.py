"""Fused attention, backward: five matmuls over all (query, key) pairs; each tensor moved once.

The scores are recomputed, and four more matmuls follow: 2 * pairs * (3 D_qk + 2 D_v) FLOP per
head, the pairs counted as in the forward. Bytes: inputs, output, its gradient and the log-sum-exp
read, the gradients written. It often takes several kernels: the output times its gradient, summed
per row; the matmuls; the conversion of the query's gradient, which was accumulated in floats; the
sums over query heads that share a key head.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, Share, at_least, moved
from foretrace.model.costs.attention import Places, Shape, flops_of, shape_of, without

# The kernels beside the matmuls, as cuDNN (`compute_dot_do_o`, `fmha_reduce_head`) and
# FlashAttention name them.
_DOT, _CONVERT, _HEADS = "dot_do_o", "convert_dq", "reduce_head"


def _price(places: Places) -> Price:
    """The query follows the output's gradient; `saved` are the output and the log-sum-exp."""

    def price(call: OpCall) -> Cost:
        query, key, value = places.inputs(call)
        shape = shape_of(places, query, key, value)
        saved = [call.tensor(index) for index in (0, places.bias, *places.saved)]
        grads = [each.dense() for each in (query, key, value)]
        flops = flops_of(call, places, shape, 3 * shape.width + 2 * shape.value_width)
        return moved([query, key, value, *saved], grads, *flops)

    return price


class _AttentionInputs(Struct, frozen=True):
    """The tensors of one call; `read` is what the matmuls always read."""

    shape: Shape
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor | None
    output: Tensor | None
    read: tuple[Tensor | None, ...]

    def per_query_head(self, each: Tensor) -> Tensor:
        """A gradient of the key or the value before the sum over the query heads that share it."""
        shape = self.shape
        return Tensor((shape.batch, shape.heads, shape.keys, each.dims[-1]), each.type)


def _share(places: Places) -> Share:
    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        query, key, value = places.inputs(call)
        shape = shape_of(places, query, key, value)
        output, *saved = (call.tensor(index) for index in places.saved)
        read = (query, key, value, call.tensor(0), call.tensor(places.bias), *saved)
        given = _AttentionInputs(shape, query, key, value, call.tensor(0), output, read)
        helper = next((_HELPERS[mark] for mark in _HELPERS if mark in kernel.name), None)
        if helper:
            return helper(given)
        if len(without(kernels, *_HELPERS)) != 1 or kernel.role != "attention":
            return None
        helped = {mark for mark in _HELPERS for each in kernels if mark in each.name}
        return _matmuls(given, helped)

    return share


def _matmuls(given: _AttentionInputs, helped: set[str]) -> Cost:
    """The kernel with the matmuls writes its results in the form that the helpers read."""
    query = given.query.dense("float" if _CONVERT in helped else None)
    others = [
        given.per_query_head(each) if _HEADS in helped else each.dense()
        for each in (given.key, given.value)
    ]
    reads = [*given.read, given.shape.rows if _DOT in helped else None]
    note = "reads the inputs and the output's gradient, writes the gradients once"
    return at_least(reads, [query, *others], note)


def _dot(given: _AttentionInputs) -> Cost:
    note = "reads the output and its gradient, writes a float per row"
    return at_least([given.gradient, given.output], [given.shape.rows], note)


def _convert(given: _AttentionInputs) -> Cost:
    note = "reads the query's gradient as floats, writes it in its own type"
    return at_least([given.query.dense("float")], [given.query.dense()], note)


def _heads(given: _AttentionInputs) -> Cost:
    """Of the key or of the value: the name does not say which, so the smaller."""
    each = min(given.key, given.value, key=lambda tensor: tensor.elements)
    note = "reads a gradient per query head, writes one per key head"
    return at_least([given.per_query_head(each)], [each.dense()], note)


_HELPERS = {_DOT: _dot, _CONVERT: _convert, _HEADS: _heads}

_CUDNN = Places(heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14)
_OPS = {
    "_scaled_dot_product_flash_attention": Places(
        heads_first=True, query=1, saved=(4, 5), packed=6, causal=11
    ),
    "_scaled_dot_product_efficient_attention": Places(
        heads_first=True, query=1, bias=4, saved=(5, 6), causal=11
    ),
    "_scaled_dot_product_cudnn_attention": _CUDNN,
    "_flash_attention": Places(heads_first=False, query=1, saved=(4, 5), packed=6, causal=11),
    "_efficient_attention": Places(
        heads_first=False, query=1, bias=4, saved=(5, 10), packed=6, mask_type=14
    ),
    "_cudnn_attention": _CUDNN,
}
BACKWARD = {f"aten::{name}_backward": places for name, places in _OPS.items()}

KIND = CostKind(
    prices={name: _price(places) for name, places in BACKWARD.items()},
    shares={name: _share(places) for name, places in BACKWARD.items()},
)
