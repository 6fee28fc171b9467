"""vLLM's own kernels, whose arguments say less than they touch: outputs come first, caches are
written in part.

A cache that another kernel writes holds every request; only the rows of the new tokens count here.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, at_least, moved, table


def _rms_norm(call: OpCall) -> Cost:
    """_C::rms_norm (out, input, weight, eps)."""
    return moved([call.need(1), call.tensor(2)], [call.need(0)])


def added_norm(call: OpCall) -> Cost:
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


def cache_write(call: OpCall) -> Cost:
    """reshape_and_cache_flash (key, value, key_cache, value_cache, slot_mapping, ...).

    Only the new tokens are written.
    """
    key, value, cache = call.need(0), call.need(1), call.need(2)
    writes = [key.dense(cache.type), value.dense(cache.type)]
    return moved([key, value, call.tensor(4)], writes, 0)


def _latent_write(call: OpCall) -> Cost | None:
    """concat_and_cache_mla (kv_c, k_pe, kv_cache, slot_mapping, ...): one row per new token."""
    latent, rope, cache = call.need(0), call.need(1), call.need(2)
    writes = [latent.dense(cache.type), rope.dense(cache.type)]
    return moved([latent, rope, call.tensor(3)], writes, 0)


def _norm_rope(call: OpCall) -> Cost | None:
    """fused_qk_norm_rope (qkv, heads of q, k, v, head size, eps, q_weight, k_weight, cos_sin, ...,
    positions): the values stay as they are.
    """
    qkv, table_, heads = call.need(0), call.need(8), [call.integer(place) for place in (1, 2, 3, 4)]
    if None in heads or len(qkv.dims) != 2 or not table_.dims:
        return None
    queries, keys, _, width = (size or 0 for size in heads)
    turned = Tensor((qkv.dims[0], (queries + keys) * width), qkv.type)
    rows = Tensor((qkv.dims[0], table_.dims[-1]), table_.type)
    weights = [call.tensor(6), call.tensor(7), call.tensor(10)]
    return moved([turned, rows, *weights], [turned])


def _merged(call: OpCall) -> Cost:
    """merge_attn_states (output, output_lse, prefix, prefix_lse, suffix, suffix_lse)."""
    reads = [call.need(place) for place in (2, 3, 4, 5)]
    return moved(reads, [call.need(0), call.tensor(1)])


def _penalties(call: OpCall) -> Cost:
    """apply_repetition_penalties_ (logits, prompt_mask, output_mask, penalties), in place."""
    reads = [call.need(place) for place in range(4)]
    return at_least(reads, [], "scores that a penalty changes are written too")


_ACTIVATIONS = (
    "silu_and_mul gelu_and_mul gelu_tanh_and_mul mul_and_silu fatrelu_and_mul swigluoai_and_mul "
    "silu_and_mul_with_clamp gelu_new gelu_fast gelu_quick"
)

KIND = CostKind(
    {
        "_C::rms_norm": _rms_norm,
        "_C::fused_add_rms_norm": added_norm,
        "_C::rotary_embedding": rotary,
        "_C::fused_qk_norm_rope": _norm_rope,
        "_C::merge_attn_states": _merged,
        "_C::apply_repetition_penalties_": _penalties,
        **table(_ACTIVATIONS, gated, "_C::"),
        **table("reshape_and_cache_flash reshape_and_cache", cache_write, "_C_cache_ops::"),
        "_C_cache_ops::concat_and_cache_mla": _latent_write,
    }
)
