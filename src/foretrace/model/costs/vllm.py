"""vLLM's own kernels, whose arguments say less than they touch: outputs come first, caches are
written in part.

`moe_forward` and `unified_attention_with_output` reach their weights and their key-value cache
through the layer's name: nothing that they move most of is among the arguments, so nothing is
claimed.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, moved, unknown

HIDDEN = "weights and caches are not among the arguments"


def _rms_norm(call: OpCall) -> Cost | None:
    """_C::rms_norm (out, input, weight, eps)."""
    out, source = call.tensor(0), call.tensor(1)
    return None if out is None or source is None else moved([source, call.tensor(2)], [out])


def _fused_add_rms_norm(call: OpCall) -> Cost | None:
    """_C::fused_add_rms_norm (input, residual, weight, eps): input and residual are replaced by
    norm and sum.
    """
    source, residual = call.tensor(0), call.tensor(1)
    if source is None or residual is None:
        return None
    return moved([source, residual, call.tensor(2)], [source, residual])


def _rotary(call: OpCall) -> Cost | None:
    """_C::rotary_embedding (positions, query, key, head_size, cos_sin_cache, is_neox): rotates in
    place.

    One row of the cache per position; heads wider than the rotary width are counted whole.
    """
    positions, query, key, cache = call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4)
    if positions is None or query is None or cache is None or not cache.dims:
        return None
    rows = Tensor((*positions.dims, cache.dims[-1]), cache.type)
    return moved([positions, query, key, rows], [query, key])


def _quantize(call: OpCall) -> Cost | None:
    """_C::static_scaled_fp8_quant (out, input, scale)."""
    out, source = call.tensor(0), call.tensor(1)
    return (
        None
        if out is None or source is None
        else moved([source, call.tensor(2)], [out], source.elements)
    )


def _cache_write(call: OpCall) -> Cost | None:
    """reshape_and_cache_flash (key, value, key_cache, value_cache, slot_mapping, ...): one slot per
    token.
    """
    key, value, cache, slots = call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4)
    if key is None or value is None or cache is None:
        return None
    return moved(
        [key, value, slots], [Tensor(key.dims, cache.type), Tensor(value.dims, cache.type)], 0
    )


def _hidden(call: OpCall) -> Cost:
    return unknown(HIDDEN)


KIND = Kind(
    prices={
        "_C::rms_norm": _rms_norm,
        "_C::fused_add_rms_norm": _fused_add_rms_norm,
        "_C::rotary_embedding": _rotary,
        "_C::static_scaled_fp8_quant": _quantize,
        "_C_cache_ops::reshape_and_cache_flash": _cache_write,
        "_C_cache_ops::reshape_and_cache": _cache_write,
        "vllm::moe_forward": _hidden,
        "vllm::unified_attention": _hidden,
        "vllm::unified_attention_with_output": _hidden,
    },
    examples=(
        (
            OpCall(
                "_C::fused_add_rms_norm",
                [[888, 2880], [888, 2880], [2880], []],
                ["c10::BFloat16"] * 3 + ["Scalar"],
            ),
            Cost(None, 2 * (2 * 2_557_440 + 2880), 2 * 2 * 2_557_440),
        ),
        (
            OpCall(
                "_C_cache_ops::reshape_and_cache_flash",
                [[888, 1, 64], [888, 1, 64], [4213816, 16, 1, 64], [4213816, 16, 1, 64], [888]],
                ["c10::BFloat16"] * 2 + ["unsigned char"] * 2 + ["long int"],
            ),
            Cost(0, 2 * 113_664 + 7104, 2 * 56_832),
        ),
        (
            OpCall(
                "vllm::moe_forward", [[888, 3072], [888, 128], []], ["c10::BFloat16"] * 2 + [""]
            ),
            Cost(None, None, None, HIDDEN),
        ),
    ),
)
