"""Ops of libraries: vLLM, SGLang, AITER, Liger and FBGEMM.

vLLM's own kernels, whose arguments say less than they touch: outputs come first, caches are
written in part.

A cache that another kernel writes holds every request; only the rows of the new tokens count here.

SGLang's own kernels, whose outputs come first and whose caches are written in part.

A gated activation reads gate and value from one tensor. Writing to the key-value cache moves the
new tokens alone. The rotary embedding works in place, as vLLM's does, from which it stems.

AITER's ops, which serving engines call on AMD GPUs: a matmul with the weight stored by rows,
and RMS norms that take their outputs as arguments.

The norms with an added residual write the sum beside the norm. Its attention and its mixtures of
experts are priced with those of the other libraries.

Liger kernels, recorded under the name of their autograd function. FLOP are not counted.

A backward's record shows the incoming gradients alone; what the forward saved has the shapes that
the function implies (for gelu-mul and silu-mul: both inputs, read, and overwritten by their
gradients). `ensure_contiguous` copies a strided input first, in a kernel of its own.

FBGEMM's ops for recommendation models: jagged features, and rows quantized to 8 bits.

A jagged feature is a matrix of lengths and one list of values. The lengths are known. How many
values a permutation moves depends on the data. The lookups of an embedding keep weights, indices
and states out of their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import (
    Cost,
    CostKind,
    Launch,
    Price,
    at_least,
    cub_part,
    moved,
    table,
    unstated,
)
from foretrace.model.costs.matmul import linear


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

VLLM = CostKind(
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

SGLANG = CostKind(
    {
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", gated, "sgl_kernel::"),
        **table("rmsnorm gemma_rmsnorm", _norm, "sgl_kernel::"),
        **table("fused_add_rmsnorm gemma_fused_add_rmsnorm", added_norm, "sgl_kernel::"),
        "sgl_kernel::rotary_embedding": rotary,
        "sglang::store_cache": cache_write,
        **table(_SAMPLING, _picked, "sgl_kernel::"),
    }
)


def _aiter_norm(call: OpCall) -> Cost:
    """rmsnorm (out, input, weight, eps)."""
    return moved([call.need(1), call.need(2)], [call.need(0)])


def _new_norm(call: OpCall) -> Cost:
    """rms_norm (input, weight, eps, ...): the result is new."""
    return moved([call.need(0), call.need(1)], [call.need(0).dense()])


def _added_norm(call: OpCall) -> Cost:
    """add_rmsnorm (out, input, residual_in, residual_out, weight, eps)."""
    reads = [call.need(1), call.need(2), call.need(4)]
    return moved(reads, [call.need(0), call.need(3)])


AITER = CostKind(
    {
        **table("gemm_a16w16 rocm_unquantized_gemm", linear, "aiter::"),
        "vllm::rocm_unquantized_gemm": linear,
        **table("rmsnorm rmsnorm2d_fwd_ck", _aiter_norm, "aiter::"),
        "aiter::rms_norm": _new_norm,
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", gated, "aiter::"),
        **table("reshape_and_cache reshape_and_cache_flash", cache_write, "aiter::"),
        **table("add_rmsnorm rmsnorm2d_fwd_with_add_ck", _added_norm, "aiter::"),
    }
)


def _gate(call: OpCall) -> Cost:
    """LigerGELUMulFunction, LigerSiLUMulFunction (a, b): one output of their shape."""
    return moved([call.need(0), call.need(1)], [call.need(0).dense()])


def _gate_backward(call: OpCall) -> Cost:
    """(dc): reads the gradient and both saved inputs, writes both gradients."""
    gradient = call.need(0)
    return moved([gradient] * 3, [gradient.dense()] * 2)


def _rows(statistics: int) -> Price:
    """LigerRMSNormFunction, LigerLayerNormFunction (X, W, ...): output and statistics per row."""

    def price(call: OpCall) -> Cost | None:
        source = call.need(0)
        if not source.dims:
            return None
        kept = Tensor((statistics, *source.dims[:-1]), "float")
        params = [each for index in (1, 2) if (each := call.tensor(index)) and each.dims]
        return moved([source, *params], [source.dense(), kept])

    return price


def _rms_norm_backward(call: OpCall) -> Cost:
    """(dY): reads the gradient and the saved input, writes the input's gradient."""
    gradient = call.need(0)
    note = "leaves out the scale, its partial gradients and the statistics"
    return at_least([gradient] * 2, [gradient.dense()], note)


def _rope(call: OpCall) -> Cost:
    """LigerRopeFunction (q, k, cos, sin): q and k are rotated in place."""
    rotated = [call.need(0), call.need(1)]
    return moved([*rotated, call.tensor(2), call.tensor(3)], rotated)


def _cross_entropy(call: OpCall) -> Cost:
    """LigerCrossEntropyFunction (input, target, ...)."""
    note = "logits are overwritten by their gradient only when one is needed"
    return at_least([call.need(0), call.need(1)], None, note)


LIGER = CostKind(
    {
        "LigerGELUMulFunction": _gate,
        "LigerSiLUMulFunction": _gate,
        "LigerGELUMulFunctionBackward": _gate_backward,
        "LigerSiLUMulFunctionBackward": _gate_backward,
        "LigerRMSNormFunction": _rows(statistics=1),
        "LigerRMSNormFunctionBackward": _rms_norm_backward,
        "LigerLayerNormFunction": _rows(statistics=2),
        "LigerRopeFunction": _rope,
        "LigerCrossEntropyFunction": _cross_entropy,
    }
)


HIDDEN = "weights, indices and states are not among the arguments"
VALUES = "how many values the chosen rows hold depends on the data"


def _quantize(call: OpCall) -> Cost:
    """FloatToFP8RowwiseQuantized (input, ...): a byte per element, and a scale per padded row."""
    source = call.need(0)
    note = "leaves out the scales and the padding of the rows"
    return at_least([source], [source.dense("unsigned char")], note)


def _quantize_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source = call.need(0)
    if not source.dims:
        return None
    scales = Tensor(source.dims[:-1], "float")
    if "get_FP8_qparam" in kernel.name:
        return at_least([source], [scales], "reads the input, writes a scale per row")
    if "compute_FP8_quantize" in kernel.name:
        note = "reads the input and its scales, writes a byte per element"
        return at_least([source, scales], [source.dense("unsigned char")], note)
    return None


def _offsets(call: OpCall) -> Cost | None:
    """asynchronous_complete_cumsum (lengths): one sum more than there are lengths."""
    lengths = call.need(0)
    if len(lengths.dims) != 1:
        return None
    return moved([lengths], [Tensor((lengths.dims[0] + 1,), lengths.type)])


def _offsets_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    lengths = call.need(0)
    if len(lengths.dims) != 1 or "DeviceScanKernel" not in kernel.name:
        return None
    return at_least([lengths], [lengths.dense()], "reads the lengths, writes their sums")


def _permute(call: OpCall) -> Cost | None:
    """permute_2D_sparse_data (permute, lengths [features, batch], values, ...)."""
    lengths = _chosen(call)
    if lengths is None:
        return None
    return at_least([call.tensor(0), lengths, lengths], None, VALUES)


def _permute_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    lengths = _chosen(call)
    if lengths is None or "permute_2D_lengths" not in kernel.name:
        return cub_part(kernel)
    note = "reads and writes the lengths of the chosen rows"
    return at_least([call.tensor(0), lengths], [lengths], note)


def _chosen(call: OpCall) -> Tensor | None:
    permute, lengths = call.tensor(0), call.tensor(1)
    if permute is None or lengths is None or len(lengths.dims) != 2:
        return None
    return Tensor((permute.elements, lengths.dims[1]), lengths.type)


_PERMUTES = "permute_2D_sparse_data permute_sparse_features"

FBGEMM = CostKind(
    prices={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize,
        "fbgemm::asynchronous_complete_cumsum": _offsets,
        **table(_PERMUTES, _permute, "fbgemm::"),
        "torch::autograd::CppNode<SplitLookupFunction*": unstated(HIDDEN),
    },
    shares={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize_share,
        "fbgemm::asynchronous_complete_cumsum": _offsets_share,
        **table(_PERMUTES, _permute_share, "fbgemm::"),
    },
)


KINDS = (VLLM, SGLANG, AITER, LIGER, FBGEMM)
