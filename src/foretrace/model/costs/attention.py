"""Fused attention: two products forward, five backward, over all (query, key) pairs; each tensor moved once.

Forward: scores = QK^T and output = PV, 2 * pairs * (D_qk + D_v) FLOP per head. Backward recomputes the scores and makes
four more products: 2 * pairs * (3 D_qk + 2 D_v). The softmax between them is not counted, as is the custom.
A causal mask halves the pairs when queries and keys are equally many; with unequal numbers the pairs are counted whole
and the note says so, because backends differ in how they align such a mask. A local window is not deducted either.
Sequences packed into one row (`cum_seq`) have lengths that the trace does not record: no FLOP, and only if packed.
Bytes: Q, K, V (and a bias) read, the output written, and one float of log-sum-exp per query and head where it is kept.
Shared key heads (GQA) are read once, at the size they have.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, moved

NONE = -1
_HALF = "causal: half of the query-key pairs"


@dataclass(frozen=True, slots=True)
class _Places:
    """Where an op keeps its arguments. `heads_first`: [B, H, S, D] rather than [B, S, H, D].

    `lse`: the place of the flag that asks for the log-sum-exp; NONE where it is always kept. `mask_type`: causal masks
    given as a number (0 is none) instead of a flag.
    """

    heads_first: bool
    query: int = 0
    bias: int = NONE
    causal: int = NONE
    mask_type: int = NONE
    packed: int = NONE
    lse: int = NONE
    saved: tuple[int, ...] = ()

    def is_causal(self, call: OpCall) -> bool:
        return bool(call.flag(self.causal)) or bool(call.integer(self.mask_type))


@dataclass(frozen=True, slots=True)
class _Shape:
    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    value_width: int


def _forward(places: _Places) -> Price:
    def price(call: OpCall) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        shape = _shape(places, query, key, value)
        if shape is None or query is None:
            return None
        out = Tensor((*query.dims[:-1], shape.value_width), query.type)
        keeps = places.lse == NONE or bool(call.flag(places.lse))
        sums = Tensor((shape.batch, shape.heads, shape.queries), "float") if keeps else None
        flops, note = _flops(call, places, shape, shape.width + shape.value_width)
        return moved([query, key, value, call.tensor(places.bias)], [out, sums], flops, note)

    return price


def _backward(places: _Places) -> Price:
    """The query follows the output's gradient; `saved` are the output and the log-sum-exp."""

    def price(call: OpCall) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        shape = _shape(places, query, key, value)
        if shape is None or query is None or key is None or value is None:
            return None
        saved = [call.tensor(0), call.tensor(places.bias), *(call.tensor(index) for index in places.saved)]
        grads = [Tensor(each.dims, each.type) for each in (query, key, value)]
        flops, note = _flops(call, places, shape, 3 * shape.width + 2 * shape.value_width)
        return moved([query, key, value, *saved], grads, flops, note)

    return price


def _shape(places: _Places, query: Tensor | None, key: Tensor | None, value: Tensor | None) -> _Shape | None:
    """Sizes from three 4-D tensors; packed 3-D ones [tokens, heads, D] count as one batch."""
    if query is None or key is None or value is None:
        return None
    dims = [(1, *each.dims) if len(each.dims) == 3 else each.dims for each in (query, key, value)]
    if any(len(each) != 4 for each in dims):
        return None
    head, row = (1, 2) if places.heads_first and len(query.dims) == 4 else (2, 1)
    q, k, v = dims
    return _Shape(q[0], q[head], q[row], k[row], q[3], v[3])


def _flops(call: OpCall, places: _Places, shape: _Shape, width: int) -> tuple[int | None, str]:
    if places.packed != NONE and call.tensor(places.packed) is not None:
        return None, "sequences are packed and their lengths are not recorded"
    flops = 2 * shape.batch * shape.heads * shape.queries * shape.keys * width
    if not places.is_causal(call):
        return flops, ""
    if shape.queries != shape.keys:
        return flops, "at most: causal with unequal lengths, the mask is not deducted"
    return flops // 2, _HALF


_Q = "c10::BFloat16"

KIND = Kind(
    prices={
        "aten::_scaled_dot_product_flash_attention": _forward(_Places(heads_first=True, causal=4)),
        "aten::_scaled_dot_product_efficient_attention": _forward(_Places(heads_first=True, bias=3, lse=4, causal=6)),
        "aten::_scaled_dot_product_cudnn_attention": _forward(_Places(heads_first=True, bias=3, lse=4, causal=6)),
        "aten::_flash_attention_forward": _forward(_Places(heads_first=False, packed=3, causal=8)),
        "aten::_efficient_attention_forward": _forward(
            _Places(heads_first=False, bias=3, packed=4, mask_type=9, lse=10)
        ),
        "aten::_cudnn_attention_forward": _forward(_Places(heads_first=True, bias=3, packed=4, lse=8, causal=10)),
        "aten::_scaled_dot_product_flash_attention_backward": _backward(
            _Places(heads_first=True, query=1, saved=(4, 5), packed=6, causal=11)
        ),
        "aten::_scaled_dot_product_efficient_attention_backward": _backward(
            _Places(heads_first=True, query=1, bias=4, saved=(5, 6), causal=11)
        ),
        "aten::_scaled_dot_product_cudnn_attention_backward": _backward(
            _Places(heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14)
        ),
        "aten::_flash_attention_backward": _backward(
            _Places(heads_first=False, query=1, saved=(4, 5), packed=6, causal=11)
        ),
        "aten::_efficient_attention_backward": _backward(
            _Places(heads_first=False, query=1, bias=4, saved=(5, 10), packed=6, mask_type=14)
        ),
        "aten::_cudnn_attention_backward": _backward(
            _Places(heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14)
        ),
    },
    examples=(
        (
            OpCall("aten::_cudnn_attention_forward", [[4, 16, 1024, 64], [4, 4, 1024, 64], [4, 4, 1024, 64]], [_Q] * 3,
                   concrete=["", "", "", "", "", "", "1024", "1024", "True", "0.", "True", "False", "0.125"]),
            Cost(8_589_934_592, 8_388_608 + 2 * 2_097_152, 8_388_608 + 4 * 65_536, _HALF),
        ),
        (
            OpCall("aten::_flash_attention_forward", [[1, 141, 8, 64]] * 3, [_Q] * 3,
                   concrete=["", "", "", "", "", "141", "141", "0.", "False", "False", "0.125"]),
            Cost(4 * 8 * 141 * 141 * 64, 3 * 144_384, 144_384 + 4 * 8 * 141),
        ),
        (
            OpCall("aten::_flash_attention_backward", [[2, 32, 4, 16]] * 5 + [[2, 4, 32]], [_Q] * 5 + ["float"],
                   concrete=[""] * 8 + ["32", "32", "0.", "True"]),
            Cost(5 * 2 * 4 * 32 * 32 * 16, 5 * 8192 + 1024, 3 * 8192, _HALF),
        ),
        (
            OpCall("aten::_flash_attention_forward", [[100, 8, 64]] * 3 + [[5], [5]], [_Q] * 3 + ["int"] * 2,
                   concrete=["", "", "", "", "", "40", "40", "0.", "True", "False"]),
            Cost(None, 3 * 102_400, 102_400 + 3200, "sequences are packed and their lengths are not recorded"),
        ),
    ),
)
