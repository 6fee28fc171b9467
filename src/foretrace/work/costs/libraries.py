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

Mixtures of experts: their matmuls, and the routing of tokens to them.

Which experts are read is data. With `T` tokens that choose `k` of `E` experts, at least `k` and at
most `min(E, T * k)` are. Counted is what evenly spread choices reach on average,
E * (1 - (1 - k / E) ** T); the note states the range, and the bytes are an estimate.

`fused_experts` takes the weights as arguments. `moe_forward` reaches them through the layer's name:
there the grouped matmuls themselves tell the sizes. Their names state tiles and element types, and
their grids have one block for each tile of the result. The last matmul writes rows as wide as the
input, which gives the number of row tiles, hence `k`, hence the columns of the first matmul.
Columns count in whole tiles. A scale of 8 bits belongs to 32 values of an mx type, to 16 of nvfp4.

The sorting of tokens by expert is a lower bound: its tables are padded for each expert, by how much
is data. triton_kernels records its two steps as `TopK` and `SortTokens`; a mask has one bit for
each expert.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.work.costs._cost import (
    SIZES,
    Cost,
    CostKind,
    Launch,
    OpCall,
    Price,
    Tensor,
    at_least,
    cub_part,
    moved,
    table,
    takes,
    total,
    unknown,
    unstated,
)
from foretrace.work.costs.matmul import linear
from foretrace.work.kernel import Certainty


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


HIDDEN_WEIGHTS = "the weights are not among the arguments, and the kernels do not tell their sizes"
# triton_kernels: `_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu` is result x input x weight,
# then the tile of rows, columns and K, and the parts of K.
_OGS = regex(
    r"_matmul_ogs_[NT]{3}_([a-z0-9]{2,9}?)x([a-z0-9]{2,9}?)x([a-z0-9]{2,9}?)"
    r"_(\d{1,5})x(\d{1,5})x\d{1,5}x(\d{1,5})"
)
# TensorRT-LLM: `bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256...transOut` is the result, the weight
# and the input, then the tile of columns, rows and K.
_BMM = regex(r"bmm_(\w{3,9}?)_((?:Mx)?[A-Z]\w{2,8}?)((?:Mx)?[A-Z]\w{2,8}?)_Fp32_t(\d+)x(\d+)x\d+")
_BITS = {
    "mxfp4": 4.25, "mxfp8": 8.25, "fp8": 8, "bf16": 16, "fp16": 16, "fp32": 32, "u8": 8, "i8": 8,
    "MxE2m1": 4.25, "MxE4m3": 8.25, "E2m1": 4.5, "E4m3": 8, "Bfloat16": 16, "Fp16": 16, "Fp32": 32,
}  # fmt: skip
_GATED_WORDS = regex("swiglu|geglu", re.IGNORECASE)
_FINAL = ("finalize", "moe_sum")


class GroupedMatmul(Struct, frozen=True):
    """A grouped matmul by its name and grid: tiles, bits of each type, and blocks."""

    rows: int
    columns: int
    bits: tuple[float, float, float]  # result, input, weight
    blocks: int
    gated: bool


class Layer(Struct, frozen=True):
    """The sizes of a layer: `outer` is the columns of the first matmul, `inner` K of the last."""

    tokens: int
    hidden: int
    experts: int
    chosen: int
    outer: int
    inner: int

    @property
    def pairs(self) -> int:
        """Rows of the matmuls: a token for each expert that it chose."""
        return self.tokens * self.chosen

    @property
    def reached(self) -> tuple[int, float, int]:
        """How many experts are read: at least, by evenly spread choices, at most."""
        missed = (1 - self.chosen / self.experts) ** self.tokens
        most = min(self.experts, self.pairs)
        return min(self.chosen, most), min(self.experts * (1 - missed), most), most

    @property
    def note(self) -> str:
        """The range, and what is counted."""
        least, mean, most = self.reached
        range_ = f"{least} to {most} are possible"
        return f"weights of {mean:.1f} experts, as even choices reach; {range_}"


def _matmul(layer: Layer, bits: tuple[float, float, float], sizes: tuple[int, int, int]) -> Cost:
    """`sizes`: elements read as input and written as result, and weights of one expert."""
    out, given, weight = bits
    read, written, held = sizes
    least, mean, _ = layer.reached
    moved = round((read * given + written * out) / 8)
    one = held * weight / 8
    return Cost(
        2 * layer.pairs * held,
        round(read * given / 8 + mean * one),
        round(written * out / 8),
        layer.note,
        Certainty.ESTIMATE,
        least=moved + round(least * one),
    )


def _first(layer: Layer, bits: tuple[float, float, float], columns: int) -> Cost:
    """Tokens in, the gated result out; `columns` is what the matmul writes of `outer`."""
    sizes = (layer.tokens * layer.hidden, layer.pairs * columns, layer.hidden * layer.outer)
    return _matmul(layer, bits, sizes)


def _last(layer: Layer, bits: tuple[float, float, float]) -> Cost:
    sizes = (layer.pairs * layer.inner, layer.pairs * layer.hidden, layer.inner * layer.hidden)
    return _matmul(layer, bits, sizes)


def grouped(kernel: Launch) -> GroupedMatmul | None:
    """What the name and the grid of a grouped matmul state; None for any other kernel."""
    ogs = _OGS.match(kernel.name)
    found = ogs or (_BMM.match(kernel.name) if "transOut" in kernel.name else None)
    if found is None or not _BITS.keys() >= set(found.groups()[:3]):
        return None
    out, *others = (_BITS[kind] for kind in found.groups()[:3])
    given, weight = others if ogs else others[::-1]
    rows, columns = map(int, found.groups()[3:5] if ogs else (found[5], found[4]))
    parts = int(ogs[6]) if ogs else 1
    blocks = kernel.blocks // parts if parts else 0
    gated = bool(_GATED_WORDS.search(kernel.name))
    return GroupedMatmul(rows, columns, (out, given, weight), blocks, gated)


def _row_tiles(rows: int, experts: int, tile: int) -> int:
    """Blocks along the rows: enough for any choice, as both libraries launch them."""
    return rows if rows <= experts else experts - 1 + -(-(rows - experts + 1) // tile)


def _layer(call: OpCall, first: GroupedMatmul, last: GroupedMatmul) -> Layer | None:
    """The sizes that the grids of the two matmuls imply; None if they do not fit together."""
    tokens, experts = call.need(0), call.need(1)
    if len(tokens.dims) != 2 or len(experts.dims) != 2 or not first.gated:
        return None
    (count, hidden), total = tokens.dims, experts.dims[1]
    across = -(-hidden // last.columns) if last.columns else 0
    if not across or not first.columns or not first.rows or not last.rows or last.blocks % across:
        return None
    down = last.blocks // across
    fits = [
        k for k in range(1, min(total, 64) + 1) if _row_tiles(count * k, total, last.rows) == down
    ]
    if len(fits) != 1:
        return None
    up = _row_tiles(count * fits[0], total, first.rows)
    if not up or first.blocks % up or not first.blocks:
        return None
    outer = first.blocks // up * first.columns
    return Layer(count, hidden, total, fits[0], outer, outer // 2)


def _hidden_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """moe_forward (tokens, router logits, layer): its grouped matmuls, and the sum behind them."""
    matmuls = [found for each in kernels if (found := grouped(each))]
    layer = _layer(call, *matmuls) if len(matmuls) == 2 else None
    mine, tokens = grouped(kernel), call.need(0)
    if mine is not None and layer is not None:
        is_last = mine == matmuls[1]
        return _last(layer, mine.bits) if is_last else _first(layer, mine.bits, layer.inner)
    if any(mark in kernel.name for mark in _FINAL):
        rows = Tensor((layer.pairs if layer else 0, *tokens.dims[1:]), tokens.type)
        return at_least([rows], [tokens.dense()], "reads a row for each choice, writes their sums")
    if "routing" in kernel.name:
        return at_least([call.need(1)], [], "reads the router's scores")
    return at_least([tokens], [], "reads the tokens") if "quantize" in kernel.name else None


def _fused_experts(call: OpCall) -> Cost | None:
    """fused_experts (tokens, w1 [E, 2N, K], w2 [E, K, N], weights, choices [T, k], ...)."""
    tokens, first, last, chosen = (call.need(place) for place in (0, 1, 2, 4))
    layer = _argued(tokens, first, last, chosen)
    size = SIZES.get(tokens.type)
    if layer is None or size is None or None in (first.bytes, last.bytes):
        return None
    least, mean, _ = layer.reached
    one = ((first.bytes or 0) + (last.bytes or 0)) / layer.experts
    kept = tokens.elements * size
    read = kept + (call.need(3).bytes or 0) + (chosen.bytes or 0)
    flops = 2 * layer.pairs * layer.hidden * (layer.outer + layer.inner)
    counted = Cost(flops, read + round(mean * one), kept, layer.note, Certainty.ESTIMATE)
    return replace(counted, matmuls=2, least=read + kept + round(least * one))


def _argued(tokens: Tensor, first: Tensor, last: Tensor, chosen: Tensor) -> Layer | None:
    if not len(first.dims) == len(last.dims) == 3 or not len(tokens.dims) == len(chosen.dims) == 2:
        return None
    # int4 and fp4 pack two values into a byte
    packed = 2 if 2 * first.dims[2] == tokens.dims[1] else 1
    outer, inner = first.dims[1], last.dims[2] * packed
    fits = first.dims[2] * packed == tokens.dims[1] and chosen.dims[0] == tokens.dims[0]
    fits = fits and chosen.dims[1] <= first.dims[0]
    sizes = (*tokens.dims, first.dims[0], chosen.dims[1], outer, inner)
    return Layer(*sizes) if fits and all(size > 0 for size in sizes) else None


def _fused_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """The two matmuls in order, and the sum of a token's rows."""
    tokens, first, last, chosen = (call.need(place) for place in (0, 1, 2, 4))
    layer, size = _argued(tokens, first, last, chosen), SIZES.get(tokens.type)
    if layer is None or size is None:
        return None
    matmuls = [each for each in kernels if each.role == "gemm"]
    if kernel.role == "gemm" and len(matmuls) == 2 and matmuls[0] != matmuls[1]:
        mine = first if kernel == matmuls[0] else last
        one = layer.hidden * (layer.outer if mine is first else layer.inner)
        weight = 8 * (mine.bytes or 0) / (layer.experts * one)
        bits = (8.0 * size, 8.0 * size, weight)
        return _first(layer, bits, layer.outer) if mine is first else _last(layer, bits)
    rows = Tensor((layer.pairs, layer.hidden), tokens.type)
    if any(mark in kernel.name for mark in _FINAL):
        return at_least([rows], [tokens], "reads a row for each choice, writes their sums")
    return None


_FUSED = (
    "fused_experts inplace_fused_experts outplace_fused_experts rocm_aiter_fused_moe "
    "rocm_aiter_asm_moe_tkw1"
)
_HIDING = "moe_forward moe_forward_shared"
_FUSED_OPS = [
    *table(_FUSED, None, "vllm::"),
    *table("inplace_fused_experts outplace_fused_experts", None, "sglang::"),
    "aiter::fused_moe_",
]

EXPERTS = CostKind(
    table(_HIDING, unstated(HIDDEN_WEIGHTS), "vllm::") | dict.fromkeys(_FUSED_OPS, _fused_experts),
    table(_HIDING, _hidden_share, "vllm::") | dict.fromkeys(_FUSED_OPS, _fused_share),
)


SORTED = "the choices and their sorted places; tables padded by expert are not counted"
WORD = 32  # experts whose bits share a word of the mask


def _summed(call: OpCall) -> Cost:
    """moe_sum (rows [T, k, H], out [T, H])."""
    source, out = call.need(0), call.need(1)
    return moved([source], [out], max(0, source.elements - out.elements))


def _permuted(call: OpCall) -> Cost | None:
    """moe_permute (tokens, choices, ...): a row for each choice."""
    tokens, choices = call.need(0), call.need(1)
    if len(tokens.dims) != 2:
        return None
    rows = Tensor((choices.elements, tokens.dims[1]), tokens.type)
    return at_least([tokens, choices], [rows], "a row for each choice; the sorting is not counted")


def _shuffled(call: OpCall) -> Cost:
    """shuffle_rows (input, map, output): a row for each entry of the map."""
    out = call.need(2)
    return moved([out.dense(call.need(0).type), call.need(1)], [out])


def _mask(tokens: int, experts: int) -> Tensor:
    return Tensor((tokens, -(-experts // WORD)), "int")


def _topk(call: OpCall) -> Cost | None:
    """TopK (scores [T, E], k, ...): values, 16-bit places and the mask."""
    scores, count = call.need(0), call.integer(1)
    if len(scores.dims) != 2 or count is None:
        return None
    chosen = Tensor((scores.dims[0], count), scores.type)
    return moved([scores], [chosen, chosen.dense("short int"), _mask(*scores.dims)])


_SORTED = takes("both in -> 1 int, 1 int", SORTED, least=True)


def _sorted_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    choices, experts = call.need(1), call.integer(2) or 0
    if "bitmatrix" in kernel.name:
        mask = _mask(choices.dims[0] if choices.dims else 0, experts)
        return at_least([mask], [Tensor((experts,), "int")], "reads the mask, writes counts")
    if "memset" in kernel.name:
        return at_least([], [choices.dense("int")], "writes the places of the choices once")
    return _SORTED(call) if "compute" in kernel.name else None


_TOPK_SOFTMAX = takes("out out out? in")
_ALIGNED = takes("in -> 0 int", SORTED, least=True)
_LIBRARIES = ("_moe_C", "aiter", "sgl_kernel")

ROUTING = CostKind(
    prices={
        **table("topk_softmax topk_sigmoid", _TOPK_SOFTMAX, "_moe_C::"),
        "vllm::rocm_aiter_topk_softmax": _TOPK_SOFTMAX,
        **table("topk_softmax topk_softmax_asm", _TOPK_SOFTMAX, "aiter::"),
        **{f"{library}::moe_align_block_size": _ALIGNED for library in _LIBRARIES},
        **{f"{library}::moe_sum": _summed for library in _LIBRARIES},
        "_moe_C::moe_permute": _permuted,
        "_moe_C::moe_unpermute": takes("in in in - - out"),
        "_moe_C::shuffle_rows": _shuffled,
        "TopK": _topk,
        "SortTokens": _SORTED,
    },
    shares={"SortTokens": _sorted_share},
)
KINDS = (VLLM, SGLANG, AITER, LIGER, FBGEMM, TRITON, EXPERTS, ROUTING)
