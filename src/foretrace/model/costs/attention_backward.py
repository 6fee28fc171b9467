"""Fused attention, backward: five products over all (query, key) pairs; each tensor moved once.

The scores are recomputed, and four more products follow: 2 * pairs * (3 D_qk + 2 D_v) FLOP per
head, the pairs counted as in the forward. Bytes: inputs, output, its gradient and the log-sum-exp
read, the gradients written. It often takes several kernels: the output times its gradient, summed
per row; the products; the conversion of the query's gradient, which was added up in floats; the
sums over query heads that share a key head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    dense,
    moved,
    part,
)
from foretrace.model.costs.attention import HALF, Places, Shape, flops_of, shape_of, without

# The kernels beside the products, as cuDNN (`compute_dot_do_o`, `fmha_reduce_head`) and
# FlashAttention name them.
_DOT, _CONVERT, _HEADS = "dot_do_o", "convert_dq", "reduce_head"


def _price(places: Places) -> Price:
    """The query follows the output's gradient; `saved` are the output and the log-sum-exp."""

    def price(call: OpCall) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        shape = shape_of(places, query, key, value)
        if shape is None or query is None or key is None or value is None:
            return None
        saved = [
            call.tensor(0),
            call.tensor(places.bias),
            *(call.tensor(index) for index in places.saved),
        ]
        grads = [dense(each) for each in (query, key, value)]
        flops, note = flops_of(call, places, shape, 3 * shape.width + 2 * shape.value_width)
        return moved([query, key, value, *saved], grads, flops, note)

    return price


@dataclass(frozen=True, slots=True)
class _Given:
    """The tensors of one call; `read` is what the products read in any case."""

    shape: Shape
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor | None
    output: Tensor | None
    read: tuple[Tensor | None, ...]

    @property
    def rows(self) -> Tensor:
        return Tensor((self.shape.batch, self.shape.heads, self.shape.queries), "float")

    def per_query_head(self, each: Tensor) -> Tensor:
        """A gradient of the key or the value before the query heads that share it are added up."""
        return Tensor(
            (self.shape.batch, self.shape.heads, self.shape.keys, each.dims[-1]), each.type
        )


def _share(places: Places) -> Share:
    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        shape = shape_of(places, query, key, value)
        if shape is None or query is None or key is None or value is None:
            return None
        output, *saved = (call.tensor(index) for index in places.saved)
        read = (query, key, value, call.tensor(0), call.tensor(places.bias), *saved)
        given = _Given(shape, query, key, value, call.tensor(0), output, read)
        help_with = next((_HELPERS[mark] for mark in _HELPERS if mark in kernel.name), None)
        if help_with:
            return help_with(given)
        if len(without(kernels, *_HELPERS)) != 1 or kernel.role != "attention":
            return None
        return _products(
            given, {mark for mark in _HELPERS for each in kernels if mark in each.name}
        )

    return share


def _products(given: _Given, helped: set[str]) -> Cost:
    """The kernel that makes the products hands its results to the helpers there are, in the form
    that they take.
    """
    query = Tensor(given.query.dims, "float" if _CONVERT in helped else given.query.type)
    others = [
        given.per_query_head(each) if _HEADS in helped else dense(each)
        for each in (given.key, given.value)
    ]
    reads = [*given.read, given.rows if _DOT in helped else None]
    return part(
        reads, [query, *others], "inputs and the output's gradient read, the gradients written once"
    )


def _dot(given: _Given) -> Cost:
    reads = [given.gradient, given.output]
    return part(reads, [given.rows], "the output and its gradient read, a float per row written")


def _convert(given: _Given) -> Cost:
    floats = Tensor(given.query.dims, "float")
    return part(
        [floats],
        [dense(given.query)],
        "the query's gradient read as floats and written in its own type",
    )


def _heads(given: _Given) -> Cost:
    """Of the key or of the value: the name does not say which, so the smaller."""
    each = min(given.key, given.value, key=lambda tensor: tensor.elements)
    what = "a gradient per query head read, one per key head written"
    return part([given.per_query_head(each)], [dense(each)], what)


_HELPERS = {_DOT: _dot, _CONVERT: _convert, _HEADS: _heads}

_OPS = {
    "aten::_scaled_dot_product_flash_attention_backward": Places(
        heads_first=True, query=1, saved=(4, 5), packed=6, causal=11
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": Places(
        heads_first=True, query=1, bias=4, saved=(5, 6), causal=11
    ),
    "aten::_scaled_dot_product_cudnn_attention_backward": Places(
        heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14
    ),
    "aten::_flash_attention_backward": Places(
        heads_first=False, query=1, saved=(4, 5), packed=6, causal=11
    ),
    "aten::_efficient_attention_backward": Places(
        heads_first=False, query=1, bias=4, saved=(5, 10), packed=6, mask_type=14
    ),
    "aten::_cudnn_attention_backward": Places(
        heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14
    ),
}

_Q = "c10::BFloat16"
_WIDE, _NARROW = [4, 16, 1024, 64], [4, 4, 1024, 64]

KIND = Kind(
    prices={name: _price(places) for name, places in _OPS.items()},
    shares={name: _share(places) for name, places in _OPS.items()},
    examples=(
        (
            OpCall(
                "aten::_flash_attention_backward",
                [[2, 32, 4, 16]] * 5 + [[2, 4, 32]],
                [_Q] * 5 + ["float"],
                concrete=[""] * 8 + ["32", "32", "0.", "True"],
            ),
            Cost(5 * 2 * 4 * 32 * 32 * 16, 5 * 8192 + 1024, 3 * 8192, HALF),
        ),
    ),
    split=(
        (
            OpCall(
                "aten::_cudnn_attention_backward",
                [_WIDE, _WIDE, _NARROW, _NARROW, _WIDE, [4, 16, 1024, 1]],
                [_Q] * 5 + ["float"],
                concrete=[""] * 14 + ["True"],
            ),
            {
                Launch("cudnn::fusion::compute_dot_do_o_specialized<true, 64>", "attention"): Cost(
                    None,
                    2 * 8_388_608,
                    262_144,
                    "at least: the output and its gradient read, a float per row written",
                ),
                Launch("cudnn_generated_fort_native_sdpa_sm90_flash_bprop", "attention"): Cost(
                    21_474_836_480,
                    2 * 8_388_608 + 2 * 2_097_152 + 2 * 262_144,
                    16_777_216 + 2 * 8_388_608,
                    "at least: inputs and the output's gradient read, the gradients written "
                    f"once; {HALF}",
                ),
                Launch("cudnn::fusion::convert_dq_to_16bits<true>", "attention"): Cost(
                    None,
                    16_777_216,
                    8_388_608,
                    "at least: the query's gradient read as floats and written in its own type",
                ),
                Launch("cudnn::fusion::fmha_reduce_head<true>", "attention"): Cost(
                    None,
                    8_388_608,
                    2_097_152,
                    "at least: a gradient per query head read, one per key head written",
                ),
            },
        ),
    ),
)
