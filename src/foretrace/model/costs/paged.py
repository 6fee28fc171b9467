"""Attention over a paged or ragged key-value cache, from the lengths of the requests.

The arguments hold the whole cache, or only the name of the layer that owns it. How much of it a
call reads depends on the requests of the step, which the engine's annotation states (`Context`):
every cached key and value once, 2 * pairs * (D_qk + D_v) FLOP per query head, where a new token is
paired with itself and all that precede it. This holds for decoding, for prefill and for chunks of
it. A latent cache (MLA) has one row of D_c + D_rope values per token, which all heads share.

Only FlashAttention's ops record a sliding window. A decoding request then reads at most the window;
elsewhere the bytes are an estimate. What is certain is the queries, the outputs, and the keys and
values of the new tokens. That is all that is stated without lengths, and where a kernel's name says
that it has a window.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.costs._call import Context, OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, Share, at_least
from foretrace.model.costs._types import SIZES
from foretrace.schema.cost import Certainty

WHOLE = "keys and values of the whole context once; a sliding window, if there is one, reads less"
NO_LENGTHS = "queries, outputs and new tokens alone; the lengths of the requests are not recorded"
WINDOW = "queries, outputs and new tokens alone; the size of the sliding window is not recorded"
NONE = -1
_SECOND = ("reduce", "combine", "merge")  # kernels that put the parts of split keys together


class CachePlaces(Struct, frozen=True):
    """Where an op keeps its arguments, and which dimension of the keys counts their heads.

    `window` is the number of tokens before a query that it looks at, -1 for all of them.
    """

    query: int
    key: int
    out: int
    heads: int = -2
    window: int = NONE


def _price(places: CachePlaces) -> Price:
    def price(call: OpCall) -> Cost | None:
        query, key = call.need(places.query), call.need(places.key)
        out = call.tensor(places.out) or query.dense()
        if len(query.dims) != 3 or len(key.dims) < 3:
            return None
        tokens, heads, width = query.dims
        per_key = Tensor((key.dims[places.heads], 2 * width), cached_type(call, key.type))
        # the flag before it says that the arguments are in the order that is known here
        known = places.window != NONE and call.flag(places.window - 1) is not None
        window = call.integer(places.window) if known else None
        seen = replace(call, context=_seen(call.context, window))
        return _read(seen, [query], out, per_key, (tokens, 2 * heads * width))

    return price


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
    return replace(cost, certainty=Certainty.ESTIMATE, least=least.bytes)


def cached_type(call: OpCall, stated: str) -> str:
    """The element type of the cache: 8 bits where the kernel's name says so."""
    narrow = any(mark in call.kernel for mark in ("QkvE4m3", "KvE4m3", "fp8_e4m3", "Float8_e4m3"))
    return "fp8" if narrow and SIZES.get(stated, 0) > 1 else stated


def _share(price: Price, out_at: int) -> Share:
    """Split keys: one kernel reads the cache, another puts the outputs of the splits together."""

    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        out = call.tensor(out_at) or call.need(0).dense()
        first = [each for each in kernels if not _is_second(each)]
        if _is_second(kernel):
            return at_least([out], [out], "reads the output of one split, writes the output")
        if len(first) != 1:
            return None
        return price(replace(call, kernel=kernel.name))

    return share


def _is_second(kernel: Launch) -> bool:
    return any(mark in kernel.name[:120] for mark in _SECOND)


_OPS = {
    "vllm::unified_attention_with_output": CachePlaces(0, 1, 3),
    "sglang::unified_attention_with_output": CachePlaces(0, 1, 3),
    # AITER's (out, workspace, query, key_cache, value_cache, ...), as SGLang's profiler names it
    "sglang_profiler::attention_paged_attention_ragged_*": CachePlaces(2, 3, 0),
    "aiter::paged_attention_ragged": CachePlaces(2, 3, 0),
    "aiter::mha_batch_prefill": CachePlaces(0, 1, NONE, window=13),
    "_vllm_fa2_C::varlen_fwd": CachePlaces(0, 1, 3, window=16),
    "_vllm_fa3_C::fwd": CachePlaces(0, 1, 6, window=25),
    "sgl_kernel::fwd": CachePlaces(0, 1, 6, window=25),
    # [pages, heads, ...] caches
    "_C::paged_attention_v1": CachePlaces(1, 2, 0, heads=1),
    "_C::paged_attention_v2": CachePlaces(4, 5, 0, heads=1),
    "_rocm_C::paged_attention": CachePlaces(4, 5, 0, heads=1),
}
_PRICES: dict[str, tuple[Price, int]] = {
    **{name: (_price(places), places.out) for name, places in _OPS.items()},
    "vllm::unified_mla_attention_with_output": (_latent, 3),
}

KIND = CostKind(
    prices={name: price for name, (price, _) in _PRICES.items()},
    shares={name: _share(price, out) for name, (price, out) in _PRICES.items()},
    with_context=True,
)
