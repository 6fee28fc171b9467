"""Ops of libraries (vLLM, SGLang, AITER, Liger, FBGEMM) and Inductor's Triton kernels.

Serving engines pass outputs first, and caches that hold every request: only the rows of the new
tokens count. A gated activation reads gate and value from one tensor. AITER's norms with an added
residual write the sum beside the norm. Liger's backward records the incoming gradients alone; what
the forward saved has the shapes that the function implies.

Inductor's launcher records the arguments of a Triton kernel, not which of them are inputs or
outputs: each tensor counts once. Where the name says gelu or silu and mul and there are two
tensors, both are read and one is written (`docs/costs.md`): an estimate, as the mul may be by a
number. A kernel reaches at most one element of an argument for each point of its grid, whose sizes
follow the tensors among the arguments. The count is a lower bound where every argument covers the
grid or one of its sizes. Elsewhere it is an estimate: an index may pick rows of a table. A matmul
from a template writes its last argument, [M, N]; where two others are [M, K] and [K, N] or [N, K],
that is 2*M*N*K FLOP. A kernel that a person wrote has no cost: it may take a cache or a table of
which it uses little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.base.patterns import regex
from foretrace.work.costs._call import OpCall, Tensor, total
from foretrace.work.costs._cost import (
    Cost,
    CostKind,
    Launch,
    Price,
    at_least,
    cub_part,
    moved,
    table,
    takes,
    unknown,
    unstated,
)
from foretrace.work.costs.matmul import linear
from foretrace.work.traffic import Certainty


def _rotary(call: OpCall) -> Cost | None:
    """_C::rotary_embedding (positions, query, key, head_size, cos_sin_cache, is_neox), in place.

    One row of the cache per position; heads wider than the rotary width count whole.
    """
    positions, query, key, cache = call.need(0), call.need(1), call.tensor(2), call.need(4)
    if not cache.dims:
        return None
    rows = Tensor((*positions.dims, cache.dims[-1]), cache.type)
    return moved([positions, query, key, rows], [query, key])


def _cache_write(slots: int) -> Price:
    """reshape_and_cache_flash (key, value, key_cache, value_cache, slot_mapping, ...), and
    concat_and_cache_mla (kv_c, k_pe, kv_cache, slot_mapping, ...): only the new tokens are written.
    """

    def price(call: OpCall) -> Cost:
        new, cache = [call.need(0), call.need(1)], call.need(2)
        return moved([*new, call.tensor(slots)], [each.dense(cache.type) for each in new], 0)

    return price


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


def _penalties(call: OpCall) -> Cost:
    """apply_repetition_penalties_ (logits, prompt_mask, output_mask, penalties), in place."""
    reads = [call.need(place) for place in range(4)]
    return at_least(reads, [], "scores that a penalty changes are written too")


_GATED = takes("out in")  # gate and value lie side by side in the input
_ADDED_NORM = takes("both both in?")  # norm and sum replace input and residual
_PAGED = _cache_write(slots=4)
_ACTIVATIONS = (
    "silu_and_mul gelu_and_mul gelu_tanh_and_mul mul_and_silu fatrelu_and_mul swigluoai_and_mul "
    "silu_and_mul_with_clamp gelu_new gelu_fast gelu_quick"
)

VLLM = CostKind(
    {
        "_C::rms_norm": takes("out in in?"),
        "_C::fused_add_rms_norm": _ADDED_NORM,
        "_C::rotary_embedding": _rotary,
        "_C::fused_qk_norm_rope": _norm_rope,
        "_C::merge_attn_states": takes("out out? in in in in"),
        "_C::apply_repetition_penalties_": _penalties,
        **table(_ACTIVATIONS, _GATED, "_C::"),
        **table("reshape_and_cache_flash reshape_and_cache", _PAGED, "_C_cache_ops::"),
        "_C_cache_ops::concat_and_cache_mla": _cache_write(slots=3),
    }
)


PICKED = "the scores once; picking takes more passes"
_SAMPLING = (
    "top_k_renorm_probs top_p_renorm_probs top_p_sampling_from_probs min_p_sampling_from_probs "
    "top_k_top_p_sampling_from_probs"
)

SGLANG = CostKind(
    {
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", _GATED, "sgl_kernel::"),
        **table("rmsnorm gemma_rmsnorm", takes("out in in"), "sgl_kernel::"),
        **table("fused_add_rmsnorm gemma_fused_add_rmsnorm", _ADDED_NORM, "sgl_kernel::"),
        "sgl_kernel::rotary_embedding": _rotary,
        "sglang::store_cache": _PAGED,
        **table(_SAMPLING, takes("in out", PICKED, least=True), "sgl_kernel::"),
    }
)


AITER = CostKind(
    {
        **table("gemm_a16w16 rocm_unquantized_gemm", linear, "aiter::"),
        "vllm::rocm_unquantized_gemm": linear,
        **table("rmsnorm rmsnorm2d_fwd_ck", takes("out in in"), "aiter::"),
        "aiter::rms_norm": takes("in in -> 0"),
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", _GATED, "aiter::"),
        **table("reshape_and_cache reshape_and_cache_flash", _PAGED, "aiter::"),
        # out, input, residual, sum, weight
        **table("add_rmsnorm rmsnorm2d_fwd_with_add_ck", takes("out in in out in"), "aiter::"),
    }
)


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


LOGITS = "logits are overwritten by their gradient only when one is needed"

LIGER = CostKind(
    {
        "LigerGELUMulFunction": takes("in in -> 0"),
        "LigerSiLUMulFunction": takes("in in -> 0"),
        "LigerGELUMulFunctionBackward": _gate_backward,
        "LigerSiLUMulFunctionBackward": _gate_backward,
        "LigerRMSNormFunction": _rows(statistics=1),
        "LigerRMSNormFunctionBackward": _rms_norm_backward,
        "LigerLayerNormFunction": _rows(statistics=2),
        "LigerRopeFunction": takes("both both in? in?"),
        "LigerCrossEntropyFunction": takes("in in", LOGITS, least=True),
    }
)


HIDDEN = "weights, indices and states are not among the arguments"
PADDING = "leaves out the scales and the padding of the rows"
_OFFSETS = takes("in -> 0", "reads the lengths, writes their sums", least=True)
VALUES = "how many values the chosen rows hold depends on the data"


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
    scans = "DeviceScanKernel" in kernel.name and len(call.need(0).dims) == 1
    return _OFFSETS(call) if scans else None


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
        "fbgemm::FloatToFP8RowwiseQuantized": takes("in -> 0 unsigned char", PADDING, least=True),
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


IN_PART = "the kernel may use its arguments in part"
NOTE = "each tensor argument once; one that is updated in place moves twice that"
_PICKING = regex(r"triton_(?:poi|per|red)_fused_.*(?:embedding|gather|index|nll_loss|scatter)")
GATED = "an activation times a tensor by its name: reads both arguments, writes one"
_GATED_BY_NAME = regex(r"triton_poi_fused_(?!.*backward)(?=.*(?:gelu|silu))(?=.*mul)")


def _fused(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    sizes = _sizes(call, {tensor.stored for tensor in tensors})
    if not sizes:
        return unknown(IN_PART)
    points = math.prod(sizes)
    touched = total(Tensor((min(tensor.stored, points),), tensor.type) for tensor in tensors)
    if touched is None:
        return unknown("the size of an element type is not known")
    if not tensors:
        return None
    whole = len(tensors) == 2 and all(each.stored == points for each in tensors)
    if touched and whole and _GATED_BY_NAME.match(call.name):
        return Cost(None, touched, touched // 2, GATED, Certainty.ESTIMATE, least=touched)
    covered = all(tensor.stored in {points, *sizes} for tensor in tensors)
    sure = covered and not _PICKING.match(call.name)
    certainty = Certainty.AT_LEAST if sure else Certainty.ESTIMATE
    return Cost(None, None, None, NOTE, certainty, touched)


def _sizes(call: OpCall, stored: set[int]) -> tuple[int, ...]:
    """The sizes of the kernel's grid (`xnumel`, `r0_numel`), which come last; () if unknown.

    Other numbers may precede them. The last ones whose matmul is the size of a tensor are the
    sizes; where no matmul is, all numbers are if there are no more than a kernel has at least.
    """
    # How many sizes a kernel has at least: `xnumel`, and `r0_numel` where it reduces.
    fewest = {"poi": 1, "per": 2, "red": 2}.get(call.name.split("_")[1], 0)
    found = [call.integer(place) for place, kind in enumerate(call.types) if kind == "Scalar"]
    numbers = tuple(number or 0 for number in found)
    for count in range(len(numbers), fewest - 1 if fewest else len(numbers), -1):
        if math.prod(numbers[-count:]) in stored - {0}:
            return numbers[-count:]
    return numbers if 0 < len(numbers) <= fewest and all(size > 0 for size in numbers) else ()


def _template(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    *given, out = tensors or (None,)
    if out is None or len(out.dims) != 2 or "mm" not in call.name:
        return unknown(IN_PART)
    rows, columns = out.dims
    sizes = [tensor.dims for tensor in given if tensor and len(tensor.dims) == 2]
    depths = {
        left[1]
        for at, left in enumerate(sizes)
        for right in sizes[:at] + sizes[at + 1 :]
        if left[0] == rows and right in ((left[1], columns), (columns, left[1]))
    }
    if len(depths) != 1:
        return unknown(IN_PART)
    return at_least(given, [out], NOTE, 2 * out.elements * depths.pop())


TRITON = CostKind({"triton_*": _fused, "triton_tem_*": _template})


KINDS = (VLLM, SGLANG, AITER, LIGER, FBGEMM, TRITON)
