"""Mixtures of experts: their matmuls, and the routing of tokens to them.

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

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.work.costs._call import SIZES, OpCall, Tensor
from foretrace.work.costs._cost import (
    Cost,
    CostKind,
    Launch,
    at_least,
    moved,
    table,
    takes,
    unstated,
)
from foretrace.work.traffic import Certainty

HIDDEN = "the weights are not among the arguments, and the kernels do not tell their sizes"
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
_GATED = regex("swiglu|geglu", re.IGNORECASE)
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
    gated = bool(_GATED.search(kernel.name))
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


def _fused(call: OpCall) -> Cost | None:
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
    table(_HIDING, unstated(HIDDEN), "vllm::") | dict.fromkeys(_FUSED_OPS, _fused),
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


KINDS = (EXPERTS, ROUTING)
