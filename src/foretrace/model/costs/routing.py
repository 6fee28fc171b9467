"""The routing of tokens to experts: which experts a token chose, the order that puts the tokens of
an expert side by side, the rows in that order and their sum.

Bytes alone. Scores are read once; weights and numbers of the chosen experts are written once. The
sorting is a lower bound: its tables are padded for each expert, by how much is data. triton_kernels
records its two steps as `TopK` and `SortTokens`; a mask has one bit for each expert.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, at_least, moved, table

SORTED = "the choices and their sorted places; tables padded by expert are not counted"
WORD = 32  # experts whose bits share a word of the mask


def _topk_softmax(call: OpCall) -> Cost:
    """topk_softmax (weights, choices, token_expert_indices, scores, renormalize)."""
    return moved([call.need(3)], [call.need(0), call.need(1), call.tensor(2)])


def _aligned(call: OpCall) -> Cost:
    """moe_align_block_size (choices, experts, block size, sorted places, ...)."""
    choices = call.need(0)
    return at_least([choices], [choices.dense("int")], SORTED)


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


def _unpermuted(call: OpCall) -> Cost:
    """moe_unpermute (rows, weights, places, offsets, k, tokens)."""
    rows = [call.need(0), call.need(1), call.need(2)]
    return moved(rows, [call.need(5)])


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


def _sorted(call: OpCall) -> Cost:
    """SortTokens (weights [T, k], choices [T, k], experts, mask)."""
    weights, choices = call.need(0), call.need(1)
    places = choices.dense("int")
    return at_least([weights, choices], [weights, places, places], SORTED)


def _sorted_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    choices, experts = call.need(1), call.integer(2) or 0
    if "bitmatrix" in kernel.name:
        mask = _mask(choices.dims[0] if choices.dims else 0, experts)
        return at_least([mask], [Tensor((experts,), "int")], "reads the mask, writes counts")
    if "memset" in kernel.name:
        return at_least([], [choices.dense("int")], "writes the places of the choices once")
    return _sorted(call) if "compute" in kernel.name else None


_LIBRARIES = ("_moe_C", "aiter", "sgl_kernel")

KIND = CostKind(
    prices={
        **table("topk_softmax topk_sigmoid", _topk_softmax, "_moe_C::"),
        "vllm::rocm_aiter_topk_softmax": _topk_softmax,
        **table("topk_softmax topk_softmax_asm", _topk_softmax, "aiter::"),
        **{f"{library}::moe_align_block_size": _aligned for library in _LIBRARIES},
        **{f"{library}::moe_sum": _summed for library in _LIBRARIES},
        "_moe_C::moe_permute": _permuted,
        "_moe_C::moe_unpermute": _unpermuted,
        "_moe_C::shuffle_rows": _shuffled,
        "TopK": _topk,
        "SortTokens": _sorted,
    },
    shares={"SortTokens": _sorted_share},
)
