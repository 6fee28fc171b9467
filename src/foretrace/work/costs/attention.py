"""Fused attention, forward and backward, and attention over a paged key-value cache.

`docs/costs.md` has the FLOP. A causal mask halves the pairs when queries and keys are equally many;
otherwise all pairs count and the note says so, because backends align such a mask differently. A
recorded local window is deducted likewise. The lengths of sequences packed into one row (`cum_seq`)
are not recorded: no FLOP. Q, K, V and a bias are read, the output is written, and one float of
log-sum-exp per query and head where it is kept. Shared key heads (GQA) are read once. Few queries
over many keys may be split along the keys: every split writes an output, and a second kernel
combines them. The backward recomputes the scores, and often takes several kernels: the output times
its gradient, summed per row; the matmuls; the conversion of the query's gradient, which was
accumulated in floats; the sums over query heads that share a key head.

The arguments over a cache hold all of it, or only the name of the layer that owns it. How much a
call reads depends on the requests of the step, which the engine's annotation states (`Context`):
every cached key and value once. A latent cache (MLA) has one row of D_c + D_rope values per token,
which all heads share. Only FlashAttention's ops record a sliding window. A decoding request then
reads at most the window; elsewhere bytes and FLOP are an upper bound. What is certain is the
queries, the outputs, and the keys and values of the new tokens. That is all that is stated without
lengths, and where a kernel's name says that it has a window.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.work.costs._cost import (
    SIZES,
    Context,
    Cost,
    CostKind,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    Unpriced,
    at_least,
    moved,
)
from foretrace.work.kernel import Certainty

NONE = -1
HALF = "causal: half of the query-key pairs"
_COMBINE = ("splitkv_combine", "lean_reduction")  # the second kernel, FlashAttention's and cuDNN's


class Places(Struct, frozen=True):
    """Where an op keeps its arguments. `heads_first`: [B, H, S, D] rather than [B, S, H, D].

    `lse` is the flag for the log-sum-exp, NONE where it is always kept; `mask_type` is a causal
    mask given as a number (0 for no mask) instead of a flag. `window` is the number of keys before
    a query that it looks at; the number of those after it follows. Both are below 0 for all keys.
    """

    heads_first: bool
    query: int = 0
    bias: int = NONE
    causal: int = NONE
    mask_type: int = NONE
    packed: int = NONE
    lse: int = NONE
    saved: tuple[int, ...] = ()
    window: int = NONE

    def inputs(self, call: OpCall) -> tuple[Tensor, Tensor, Tensor, Shape]:
        """Query, key and value, and their sizes.

        Packed 3-D ones [tokens, heads, D] count as one batch.
        """
        tensors = query, key, value = [call.need(self.query + at) for at in range(3)]
        q, k, v = ((1, *e.dims) if len(e.dims) == 3 else e.dims for e in tensors)
        if not len(q) == len(k) == len(v) == 4:
            raise Unpriced("attention needs tensors of 3 or 4 dimensions")
        head, row = (1, 2) if self.heads_first and len(query.dims) == 4 else (2, 1)
        return query, key, value, Shape(q[0], q[head], q[row], k[row], q[3], v[3])

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


def flops_of(
    call: OpCall, places: Places, shape: Shape, width: int
) -> tuple[int | None, str, Certainty]:
    """FLOP, note and certainty of `width` multiply-adds for each (query, key) pair."""
    if places.packed != NONE and call.tensor(places.packed) is not None:
        return None, "sequences are packed and their lengths are not recorded", Certainty.EXACT
    flops = 2 * shape.batch * shape.heads * shape.queries * shape.keys * width
    causal, sides = places.is_causal(call), _sides(call, places)
    if not causal and sides is None:
        return flops, "", Certainty.EXACT
    if shape.queries != shape.keys:
        what = "causal mask" if sides is None else "window"
        return flops, f"the {what} over unequal lengths is not deducted", Certainty.AT_MOST
    if sides is None:
        return flops // 2, HALF, Certainty.EXACT
    before, after = sides
    seen = _paired(shape.keys, before) + _paired(shape.keys, 0 if causal else after) + shape.keys
    share = f"window: {seen:,} of {shape.keys**2:,} query-key pairs"
    return flops // max(shape.keys, 1) ** 2 * seen, share, Certainty.EXACT


def _sides(call: OpCall, places: Places) -> tuple[int, int] | None:
    """How many keys before and after it a query looks at; None without a recorded window."""
    if places.window == NONE:
        return None
    before, after = (call.integer(places.window + at) for at in (0, 1))
    sides = NONE if before is None else before, NONE if after is None else after
    return sides if max(sides) >= 0 else None


def _paired(keys: int, reach: int) -> int:
    """Pairs of a query with one of up to `reach` keys on one side of it; below 0, with all."""
    most = keys - 1 if reach < 0 else min(reach, keys - 1)
    return most * keys - most * (most + 1) // 2


def _forward(places: Places) -> Price:
    def price(call: OpCall) -> Cost:
        query, key, value, shape = places.inputs(call)
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
    "aten::_flash_attention_forward": Places(heads_first=False, packed=3, causal=8, window=11),
    "aten::_efficient_attention_forward": Places(
        heads_first=False, bias=3, packed=4, mask_type=9, lse=10
    ),
    "aten::_cudnn_attention_forward": Places(heads_first=True, bias=3, packed=4, lse=8, causal=10),
    "flash_attn::_flash_attn_forward": Places(heads_first=False, causal=5, window=6),
    "flash_attn::_flash_attn_varlen_forward": Places(
        heads_first=False, packed=3, causal=9, window=10
    ),
    "aiter::_flash_attn_forward": Places(heads_first=False, causal=5, window=6),
    "aiter::fmha_v3_fwd": Places(heads_first=False, causal=5, window=6),
    "aiter::mha_fwd": Places(heads_first=False, causal=5, window=6),
}


def described(call: OpCall, places: Places) -> AttentionCall | None:
    """Head size and mask of a call; None without recorded shapes."""
    query = call.tensor(places.query)
    if query is None or not query.dims:
        return None
    flag = call.flag(places.causal) if places.causal != NONE else call.integer(places.mask_type)
    return AttentionCall(query.dims[-1], None if flag is None else bool(flag))


ATTENTION = CostKind(
    prices={name: _forward(places) for name, places in FORWARD.items()},
    shares={name: _forward_share(places) for name, places in FORWARD.items()},
)


# The kernels beside the matmuls, as cuDNN (`compute_dot_do_o`, `fmha_reduce_head`) and
# FlashAttention name them.
_DOT, _CONVERT, _HEADS = _HELPERS = ("dot_do_o", "convert_dq", "reduce_head")


def _price(places: Places) -> Price:
    """The query follows the output's gradient; `saved` are the output and the log-sum-exp."""

    def price(call: OpCall) -> Cost:
        query, key, value, shape = places.inputs(call)
        saved = [call.tensor(index) for index in (0, places.bias, *places.saved)]
        grads = [each.dense() for each in (query, key, value)]
        flops = flops_of(call, places, shape, 3 * shape.width + 2 * shape.value_width)
        return moved([query, key, value, *saved], grads, *flops)

    return price


def _share(places: Places) -> Share:
    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        query, key, value, shape = places.inputs(call)
        gradient, (output, *saved) = call.tensor(0), [call.tensor(at) for at in places.saved]

        def per_query_head(each: Tensor) -> Tensor:
            """A gradient before the sum over the query heads that share a key head."""
            return Tensor((shape.batch, shape.heads, shape.keys, each.dims[-1]), each.type)

        if _DOT in kernel.name:
            note = "reads the output and its gradient, writes a float per row"
            return at_least([gradient, output], [shape.rows], note)
        if _CONVERT in kernel.name:
            note = "reads the query's gradient as floats, writes it in its own type"
            return at_least([query.dense("float")], [query.dense()], note)
        if _HEADS in kernel.name:  # of the key or of the value, which the name does not say
            least = min(key, value, key=lambda tensor: tensor.elements)
            note = "reads a gradient per query head, writes one per key head"
            return at_least([per_query_head(least)], [least.dense()], note)
        if len(without(kernels, *_HELPERS)) != 1 or kernel.role != "attention":
            return None
        helped = {mark for mark in _HELPERS for each in kernels if mark in each.name}
        # the kernel with the matmuls writes its results in the form that the helpers read
        made = [query.dense("float" if _CONVERT in helped else None)]
        made += [per_query_head(e) if _HEADS in helped else e.dense() for e in (key, value)]
        reads = [query, key, value, gradient, call.tensor(places.bias), *saved]
        note = "reads the inputs and the output's gradient, writes the gradients once"
        return at_least([*reads, shape.rows if _DOT in helped else None], made, note)

    return share


_CUDNN = Places(heads_first=True, query=1, saved=(4, 5), bias=8, packed=9, causal=14)
_OPS = {
    "_scaled_dot_product_flash_attention": Places(
        heads_first=True, query=1, saved=(4, 5), packed=6, causal=11
    ),
    "_scaled_dot_product_efficient_attention": Places(
        heads_first=True, query=1, bias=4, saved=(5, 6), causal=11
    ),
    "_scaled_dot_product_cudnn_attention": _CUDNN,
    "_flash_attention": Places(
        heads_first=False, query=1, saved=(4, 5), packed=6, causal=11, window=15
    ),
    "_efficient_attention": Places(
        heads_first=False, query=1, bias=4, saved=(5, 10), packed=6, mask_type=14
    ),
    "_cudnn_attention": _CUDNN,
}
BACKWARD = {f"aten::{name}_backward": places for name, places in _OPS.items()}

ATTENTION_BACKWARD = CostKind(
    prices={name: _price(places) for name, places in BACKWARD.items()},
    shares={name: _share(places) for name, places in BACKWARD.items()},
)


WHOLE = "keys and values of the whole context once; a sliding window, if there is one, reads less"
NO_LENGTHS = "queries, outputs and new tokens alone; the lengths of the requests are not recorded"
WINDOW = "queries, outputs and new tokens alone; the size of the sliding window is not recorded"
_SECOND = ("reduce", "combine", "merge")  # kernels that put the parts of split keys together


def _paged(
    query_at: int, key_at: int, out_at: int, *, key_heads: int = -2, window_at: int = NONE
) -> tuple[Price, int]:
    """The price by the places of the arguments, and the place of the output.

    `key_heads` is the dimension of the keys that counts their heads. At `window_at` is the number
    of tokens before a query that it looks at, -1 for all of them.
    """

    def price(call: OpCall) -> Cost | None:
        query, key = call.need(query_at), call.need(key_at)
        out = call.tensor(out_at) or query.dense()
        if len(query.dims) != 3 or len(key.dims) < 3:
            return None
        tokens, heads, width = query.dims
        per_key = Tensor((key.dims[key_heads], 2 * width), cached_type(call, key.type))
        # the flag before it says that the arguments are in the order that is known here
        known = window_at != NONE and call.flag(window_at - 1) is not None
        window = call.integer(window_at) if known else None
        seen = replace(call, context=_seen(call.context, window))
        return _read(seen, [query], out, per_key, (tokens, 2 * heads * width))

    return price, out_at


def _seen(context: Context | None, window: int | None) -> Context | None:
    """What is left of the requests behind a window; None where that depends on single lengths."""
    if context is None or window is None or window < 0:
        return context
    if context.queries != context.requests:
        return None
    keys = min(context.keys, context.requests * (window + 1))
    return replace(context, keys=keys, pairs=keys)


def _latent(call: OpCall) -> Cost | None:
    """unified_mla_attention (query, kv_c, k_pe, output, layer): decoding takes latent queries."""
    query, latent, rope = call.need(0), call.need(1), call.need(2)
    if len(query.dims) != 3 or not latent.dims or not rope.dims:
        return None
    tokens, heads, _ = query.dims
    inner, outer = latent.dims[-1] + rope.dims[-1], latent.dims[-1]
    asked, given = (Tensor((tokens, heads, each), query.type) for each in (inner, outer))
    context = call.context
    decodes = context is not None and context.queries == context.requests
    per_key = Tensor((inner,), cached_type(call, latent.type))
    known = call if decodes else replace(call, context=None)
    return _read(known, [asked], given, per_key, (tokens, heads * (inner + outer)))


def _read(
    call: OpCall, reads: list[Tensor], out: Tensor, per_key: Tensor, work: tuple[int, int]
) -> Cost:
    """`work`: the new tokens of the call, and the multiply-adds for a pair of tokens."""
    tokens, width = work
    new = Tensor((tokens, *per_key.dims), per_key.type)
    least = at_least([*reads, new], [out], NO_LENGTHS)
    context = call.context
    if context is None or context.queries > tokens or context.keys < context.queries:
        return least
    if "Sliding" in call.kernel:
        return replace(least, note=WINDOW)
    held = Tensor((context.keys, *per_key.dims), per_key.type)
    cost = at_least([*reads, held], [out], WHOLE, 2 * context.causal_pairs * width)
    return replace(cost, certainty=Certainty.AT_MOST, least=least.bytes)


def cached_type(call: OpCall, stated: str) -> str:
    """The element type of the cache: 8 bits where the kernel's name says so."""
    narrow = any(mark in call.kernel for mark in ("QkvE4m3", "KvE4m3", "fp8_e4m3", "Float8_e4m3"))
    return "fp8" if narrow and SIZES.get(stated, 0) > 1 else stated


def _paged_share(price: Price, out_at: int) -> Share:
    """Split keys: one kernel reads the cache, another puts the outputs of the splits together."""

    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        out = call.tensor(out_at) or call.need(0).dense()
        first = [each for each in kernels if not _is_second(each)]
        if _is_second(kernel):
            return at_least([out], [out], "reads the output of one split, writes the output")
        return price(replace(call, kernel=kernel.name)) if len(first) == 1 else None

    return share


def _is_second(kernel: Launch) -> bool:
    return any(mark in kernel.name[:120] for mark in _SECOND)


_PRICES: dict[str, tuple[Price, int]] = {
    "vllm::unified_attention_with_output": _paged(0, 1, 3),
    "sglang::unified_attention_with_output": _paged(0, 1, 3),
    # AITER's (out, workspace, query, key_cache, value_cache, ...), as SGLang's profiler names it
    "sglang_profiler::attention_paged_attention_ragged_*": _paged(2, 3, 0),
    "aiter::paged_attention_ragged": _paged(2, 3, 0),
    "aiter::mha_batch_prefill": _paged(0, 1, NONE, window_at=13),
    "_vllm_fa2_C::varlen_fwd": _paged(0, 1, 3, window_at=16),
    "_vllm_fa3_C::fwd": _paged(0, 1, 6, window_at=25),
    "sgl_kernel::fwd": _paged(0, 1, 6, window_at=25),
    # [pages, heads, ...] caches
    "_C::paged_attention_v1": _paged(1, 2, 0, key_heads=1),
    "_C::paged_attention_v2": _paged(4, 5, 0, key_heads=1),
    "_rocm_C::paged_attention": _paged(4, 5, 0, key_heads=1),
    "vllm::unified_mla_attention_with_output": (_latent, 3),
}

PAGED = CostKind(
    prices={name: price for name, (price, _) in _PRICES.items()},
    shares={name: _paged_share(price, out) for name, (price, out) in _PRICES.items()},
    with_context=True,
)


KINDS = (ATTENTION, ATTENTION_BACKWARD, PAGED)
