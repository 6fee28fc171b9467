"""Fused attention, forward: two matmuls over all (query, key) pairs; each tensor moved once.

Scores = QK^T and output = PV, 2 * pairs * (D_qk + D_v) FLOP per head. The softmax between them is
not counted, by convention. What follows holds for the backward too. A causal mask halves the pairs
when queries and keys are equally many; otherwise all pairs count and the note says so, because
backends align such a mask differently. A local window is not deducted. The lengths of sequences
packed into one row (`cum_seq`) are not recorded: no FLOP. Bytes: Q, K, V (and a bias) read, the
output written, and one float of log-sum-exp per query and head where it is kept. Shared key heads
(GQA) are read once. Few queries over many keys may be split along the keys: every split writes an
output, and a second kernel combines them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from foretrace.model.costs._call import OpCall, Tensor, Unpriced
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, Share, at_least, moved
from foretrace.schema.cost import Certainty

NONE = -1
HALF = "causal: half of the query-key pairs"
_COMBINE = ("splitkv_combine", "lean_reduction")  # the second kernel, FlashAttention's and cuDNN's


class Places(Struct, frozen=True):
    """Where an op keeps its arguments. `heads_first`: [B, H, S, D] rather than [B, S, H, D].

    `lse` is the flag for the log-sum-exp, NONE where it is always kept; `mask_type` is a causal
    mask given as a number (0 for no mask) instead of a flag.
    """

    heads_first: bool
    query: int = 0
    bias: int = NONE
    causal: int = NONE
    mask_type: int = NONE
    packed: int = NONE
    lse: int = NONE
    saved: tuple[int, ...] = ()

    def inputs(self, call: OpCall) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value."""
        return call.need(self.query), call.need(self.query + 1), call.need(self.query + 2)

    def is_causal(self, call: OpCall) -> bool:
        """Whether the call masks keys that follow the query."""
        return bool(call.flag(self.causal)) or bool(call.integer(self.mask_type))


class AttentionCall(Struct, frozen=True):
    """What a call says about itself; `causal` is None where the argument was not recorded."""

    head_dim: int
    causal: bool | None


class Shape(Struct, frozen=True):
    """Sizes of one attention; `width` is that of queries and keys."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    value_width: int

    @property
    def rows(self) -> Tensor:
        """One float per query and head."""
        return Tensor((self.batch, self.heads, self.queries), "float")


def shape_of(places: Places, query: Tensor, key: Tensor, value: Tensor) -> Shape:
    """Sizes from three 4-D tensors; packed 3-D ones [tokens, heads, D] count as one batch."""
    q, k, v = (
        (1, *each.dims) if len(each.dims) == 3 else each.dims for each in (query, key, value)
    )
    if not len(q) == len(k) == len(v) == 4:
        raise Unpriced("attention needs tensors of 3 or 4 dimensions")
    head, row = (1, 2) if places.heads_first and len(query.dims) == 4 else (2, 1)
    return Shape(q[0], q[head], q[row], k[row], q[3], v[3])


def flops_of(
    call: OpCall, places: Places, shape: Shape, width: int
) -> tuple[int | None, str, Certainty]:
    """FLOP, note and certainty of `width` multiply-adds for each (query, key) pair."""
    if places.packed != NONE and call.tensor(places.packed) is not None:
        return None, "sequences are packed and their lengths are not recorded", Certainty.EXACT
    flops = 2 * shape.batch * shape.heads * shape.queries * shape.keys * width
    if not places.is_causal(call):
        return flops, "", Certainty.EXACT
    if shape.queries == shape.keys:
        return flops // 2, HALF, Certainty.EXACT
    note = "FLOP at most: the causal mask over unequal lengths is not deducted"
    return flops, note, Certainty.ESTIMATE


def _forward(places: Places) -> Price:
    def price(call: OpCall) -> Cost:
        query, key, value = places.inputs(call)
        shape = shape_of(places, query, key, value)
        out = Tensor((*query.dims[:-1], shape.value_width), query.type)
        sums = shape.rows if places.lse == NONE or call.flag(places.lse) else None
        reads = [query, key, value, call.tensor(places.bias)]
        width = shape.width + shape.value_width
        return moved(reads, [out, sums], *flops_of(call, places, shape, width))

    return price


def _forward_share(places: Places) -> Share:
    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        query, value = call.need(places.query), call.need(places.query + 2)
        first = without(kernels, *_COMBINE)
        if len(first) != 1 or first[0].role != "attention":
            return None
        out = Tensor((*query.dims[:-1], value.dims[-1] if value.dims else 0), query.type)
        if kernel not in first:
            return at_least([out], [out], "reads the output of one split, writes the output")
        reads = [query, call.tensor(places.query + 1), value, call.tensor(places.bias)]
        return at_least(reads, [out], "reads query, key and value, writes the output of one split")

    return share


def without(kernels: Sequence[Launch], *marks: str) -> list[Launch]:
    """The kernels whose names have none of the marks."""
    return [kernel for kernel in kernels if not any(mark in kernel.name for mark in marks)]


_SDPA = "aten::_scaled_dot_product_"
FORWARD = {
    f"{_SDPA}flash_attention": Places(heads_first=True, causal=4),
    f"{_SDPA}efficient_attention": Places(heads_first=True, bias=3, lse=4, causal=6),
    f"{_SDPA}cudnn_attention": Places(heads_first=True, bias=3, lse=4, causal=6),
    "aten::_flash_attention_forward": Places(heads_first=False, packed=3, causal=8),
    "aten::_efficient_attention_forward": Places(
        heads_first=False, bias=3, packed=4, mask_type=9, lse=10
    ),
    "aten::_cudnn_attention_forward": Places(heads_first=True, bias=3, packed=4, lse=8, causal=10),
    "flash_attn::_flash_attn_forward": Places(heads_first=False, causal=5),
    "flash_attn::_flash_attn_varlen_forward": Places(heads_first=False, packed=3, causal=9),
    "aiter::_flash_attn_forward": Places(heads_first=False, causal=5),
    "aiter::fmha_v3_fwd": Places(heads_first=False, causal=5),
    "aiter::mha_fwd": Places(heads_first=False, causal=5),
}


def described(call: OpCall, places: Places) -> AttentionCall | None:
    """Head size and mask of a call; None without recorded shapes."""
    query = call.tensor(places.query)
    if query is None or not query.dims:
        return None
    flag = call.flag(places.causal) if places.causal != NONE else call.integer(places.mask_type)
    return AttentionCall(query.dims[-1], None if flag is None else bool(flag))


KIND = CostKind(
    prices={name: _forward(places) for name, places in FORWARD.items()},
    shares={name: _forward_share(places) for name, places in FORWARD.items()},
)
