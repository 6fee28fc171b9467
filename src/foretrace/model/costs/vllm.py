"""vLLM's own kernels, whose arguments say less than they touch: outputs come first, caches are
written in part.

`moe_forward` and `unified_attention_with_output` reach their weights and their key-value cache
through the layer's name. Most of what they move is not among the arguments, so no bytes are stated.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, moved, table, unstated

HIDDEN = "weights and caches are not among the arguments"


def _rms_norm(call: OpCall) -> Cost:
    """_C::rms_norm (out, input, weight, eps)."""
    return moved([call.need(1), call.tensor(2)], [call.need(0)])


def _fused_add_rms_norm(call: OpCall) -> Cost:
    """_C::fused_add_rms_norm (input, residual, weight, eps): norm and sum replace the inputs."""
    replaced = [call.need(0), call.need(1)]
    return moved([*replaced, call.tensor(2)], replaced)


def rotary(call: OpCall) -> Cost | None:
    """_C::rotary_embedding (positions, query, key, head_size, cos_sin_cache, is_neox), in place.

    One row of the cache per position; heads wider than the rotary width count whole.
    """
    positions, query, key, cache = call.need(0), call.need(1), call.tensor(2), call.need(4)
    if not cache.dims:
        return None
    rows = Tensor((*positions.dims, cache.dims[-1]), cache.type)
    return moved([positions, query, key, rows], [query, key])


def gated(call: OpCall) -> Cost:
    """_C::silu_and_mul (out, input): the input holds gate and value side by side."""
    return moved([call.need(1)], [call.need(0)])


def _quantize(call: OpCall) -> Cost:
    """_C::static_scaled_fp8_quant (out, input, scale)."""
    source = call.need(1)
    return moved([source, call.tensor(2)], [call.need(0)], source.elements)


def cache_write(call: OpCall) -> Cost:
    """reshape_and_cache_flash (key, value, key_cache, value_cache, slot_mapping, ...).

    Only the new tokens are written.
    """
    key, value, cache = call.need(0), call.need(1), call.need(2)
    writes = [key.dense(cache.type), value.dense(cache.type)]
    return moved([key, value, call.tensor(4)], writes, 0)


KIND = CostKind(
    {
        "_C::rms_norm": _rms_norm,
        "_C::fused_add_rms_norm": _fused_add_rms_norm,
        "_C::rotary_embedding": rotary,
        "_C::static_scaled_fp8_quant": _quantize,
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", gated, "_C::"),
        **table("reshape_and_cache_flash reshape_and_cache", cache_write, "_C_cache_ops::"),
        **table(
            "moe_forward unified_attention unified_attention_with_output",
            unstated(HIDDEN),
            "vllm::",
        ),
    }
)
