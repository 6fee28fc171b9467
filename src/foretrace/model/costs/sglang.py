"""SGLang's own kernels, whose outputs come first and whose caches are written in part.

A gated activation reads gate and value from one tensor. Writing to the key-value cache moves the
new tokens alone. The rotary embedding works in place, as vLLM's does, from which it stems.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall
from foretrace.model.costs._cost import Cost, CostKind, at_least, moved, table
from foretrace.model.costs.vllm import added_norm, cache_write, gated, rotary


def _norm(call: OpCall) -> Cost:
    """rmsnorm (out, input, weight, eps, ...)."""
    return moved([call.need(1), call.need(2)], [call.need(0)])


def _picked(call: OpCall) -> Cost:
    """top_p_sampling_from_probs, top_k_renorm_probs (probs, out, ...)."""
    return at_least([call.need(0)], [call.need(1)], "the scores once; picking takes more passes")


_SAMPLING = (
    "top_k_renorm_probs top_p_renorm_probs top_p_sampling_from_probs min_p_sampling_from_probs "
    "top_k_top_p_sampling_from_probs"
)

KIND = CostKind(
    {
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", gated, "sgl_kernel::"),
        **table("rmsnorm gemma_rmsnorm", _norm, "sgl_kernel::"),
        **table("fused_add_rmsnorm gemma_fused_add_rmsnorm", added_norm, "sgl_kernel::"),
        "sgl_kernel::rotary_embedding": rotary,
        "sglang::store_cache": cache_write,
        **table(_SAMPLING, _picked, "sgl_kernel::"),
    }
)
