"""Fused attention, forward: two products over all (query, key) pairs; each tensor moved once.

Scores = QK^T and output = PV, 2 * pairs * (D_qk + D_v) FLOP per head. The softmax between them is
not counted, as is the custom. What follows holds for the backward too, which has a file of its own.
A causal mask halves the pairs when queries and keys are equally many; with unequal numbers the
pairs are counted whole and the note says so, because backends differ in how they align such a mask.
A local window is not deducted either. Sequences packed into one row (`cum_seq`) have lengths that
the trace does not record: no FLOP, and only if packed. Bytes: Q, K, V (and a bias) read, the output
written, and one float of log-sum-exp per query and head where it is kept. Shared key heads (GQA)
are read once, at the size they have. Few queries over many keys may be cut along the keys: every
split makes an output, and a second kernel combines them.
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
    moved,
    part,
)

NONE = -1
HALF = "causal: half of the query-key pairs"
_COMBINE = "splitkv_combine"  # FlashAttention's name for the second kernel


@dataclass(frozen=True, slots=True)
class Places:
    """Where an op keeps its arguments. `heads_first`: [B, H, S, D] rather than [B, S, H, D].

    `lse`: the place of the flag that asks for the log-sum-exp; NONE where it is always kept.
    `mask_type`: causal masks given as a number (0 is none) instead of a flag.
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
class Shape:
    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    value_width: int


def _forward(places: Places) -> Price:
    def price(call: OpCall) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        shape = shape_of(places, query, key, value)
        if shape is None or query is None:
            return None
        out = Tensor((*query.dims[:-1], shape.value_width), query.type)
        keeps = places.lse == NONE or bool(call.flag(places.lse))
        sums = Tensor((shape.batch, shape.heads, shape.queries), "float") if keeps else None
        flops, note = flops_of(call, places, shape, shape.width + shape.value_width)
        return moved([query, key, value, call.tensor(places.bias)], [out, sums], flops, note)

    return price


def _forward_share(places: Places) -> Share:
    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        query, key, value = (call.tensor(places.query + offset) for offset in range(3))
        if (
            query is None
            or value is None
            or len(without(kernels, _COMBINE)) != 1
            or kernel.role != "attention"
        ):
            return None
        out = Tensor((*query.dims[:-1], value.dims[-1] if value.dims else 0), query.type)
        if _COMBINE in kernel.name:
            return part([out], [out], "one split's output read, the output written")
        reads = [query, key, value, call.tensor(places.bias)]
        return part(reads, [out], "query, key and value read, one split's output written")

    return share


def without(kernels: Sequence[Launch], *marks: str) -> list[Launch]:
    """The kernels whose names have none of the marks."""
    return [kernel for kernel in kernels if not any(mark in kernel.name for mark in marks)]


def shape_of(
    places: Places, query: Tensor | None, key: Tensor | None, value: Tensor | None
) -> Shape | None:
    """Sizes from three 4-D tensors; packed 3-D ones [tokens, heads, D] count as one batch."""
    if query is None or key is None or value is None:
        return None
    dims = [(1, *each.dims) if len(each.dims) == 3 else each.dims for each in (query, key, value)]
    if any(len(each) != 4 for each in dims):
        return None
    head, row = (1, 2) if places.heads_first and len(query.dims) == 4 else (2, 1)
    q, k, v = dims
    return Shape(q[0], q[head], q[row], k[row], q[3], v[3])


def flops_of(call: OpCall, places: Places, shape: Shape, width: int) -> tuple[int | None, str]:
    if places.packed != NONE and call.tensor(places.packed) is not None:
        return None, "sequences are packed and their lengths are not recorded"
    flops = 2 * shape.batch * shape.heads * shape.queries * shape.keys * width
    if not places.is_causal(call):
        return flops, ""
    if shape.queries != shape.keys:
        return flops, "at most: causal with unequal lengths, the mask is not deducted"
    return flops // 2, HALF


_FORWARD = {
    "aten::_scaled_dot_product_flash_attention": Places(heads_first=True, causal=4),
    "aten::_scaled_dot_product_efficient_attention": Places(
        heads_first=True, bias=3, lse=4, causal=6
    ),
    "aten::_scaled_dot_product_cudnn_attention": Places(heads_first=True, bias=3, lse=4, causal=6),
    "aten::_flash_attention_forward": Places(heads_first=False, packed=3, causal=8),
    "aten::_efficient_attention_forward": Places(
        heads_first=False, bias=3, packed=4, mask_type=9, lse=10
    ),
    "aten::_cudnn_attention_forward": Places(heads_first=True, bias=3, packed=4, lse=8, causal=10),
}

_Q = "c10::BFloat16"

KIND = Kind(
    prices={name: _forward(places) for name, places in _FORWARD.items()},
    shares={name: _forward_share(places) for name, places in _FORWARD.items()},
    examples=(
        (
            OpCall(
                "aten::_cudnn_attention_forward",
                [[4, 16, 1024, 64], [4, 4, 1024, 64], [4, 4, 1024, 64]],
                [_Q] * 3,
                concrete=[
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "1024",
                    "1024",
                    "True",
                    "0.",
                    "True",
                    "False",
                    "0.125",
                ],
            ),
            Cost(8_589_934_592, 8_388_608 + 2 * 2_097_152, 8_388_608 + 4 * 65_536, HALF),
        ),
        (
            OpCall(
                "aten::_flash_attention_forward",
                [[1, 141, 8, 64]] * 3,
                [_Q] * 3,
                concrete=["", "", "", "", "", "141", "141", "0.", "False", "False", "0.125"],
            ),
            Cost(4 * 8 * 141 * 141 * 64, 3 * 144_384, 144_384 + 4 * 8 * 141),
        ),
        (
            OpCall(
                "aten::_flash_attention_forward",
                [[100, 8, 64]] * 3 + [[5], [5]],
                [_Q] * 3 + ["int"] * 2,
                concrete=["", "", "", "", "", "40", "40", "0.", "True", "False"],
            ),
            Cost(
                None,
                3 * 102_400,
                102_400 + 3200,
                "sequences are packed and their lengths are not recorded",
            ),
        ),
    ),
    split=(
        (
            OpCall(
                "aten::_flash_attention_forward",
                [[1, 1, 8, 64], [1, 4096, 8, 64], [1, 4096, 8, 64]],
                [_Q] * 3,
                concrete=["", "", "", "", "", "1", "4096", "0.", "False", "False", "0.125"],
            ),
            {
                Launch("flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", "attention"): Cost(
                    4 * 8 * 4096 * 64,
                    1024 + 2 * 4_194_304,
                    1024,
                    "at least: query, key and value read, one split's output written",
                ),
                Launch(
                    "flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>", "attention"
                ): Cost(None, 1024, 1024, "at least: one split's output read, the output written"),
            },
        ),
    ),
)
