"""Liger-Kernel's Triton functions: Triton 3 prints their names, torch.compile may append `_0`.

A name is a function (`geglu`, `rms_norm`, …) and a direction. `liger_cross_entropy_kernel` writes
the gradient too.
"""

from __future__ import annotations

from functools import cache

from foretrace.names.families._parser import KernelId, NameParser, by_role, family, rx

# Functions by role, `function = short name` where they differ. Only functions that Liger defines:
# other people's `_add_kernel` is theirs.
THINGS = """
    pointwise: geglu_tanh = geglu; geglu; swiglu; relu_squared; dyt; mhc_post_res; mhc_pre; mask
    normalization: rms_norm; block_rms_norm = rms_norm (block); layer_norm; group_norm; poly_norm;
        fused_add_rms_norm = add+rms_norm; modulated_rms_norm = modulated rms_norm
    reduction: grpo_loss; kldiv = kl_div
    softmax: softmax_single_block = softmax; softmax_multi_block = softmax (blocks); sparsemax;
        liger_cross_entropy = cross_entropy; fused_ce_tvd = cross_entropy+tvd;
        liger_vocab_parallel_ce = cross_entropy (parallel)
    scatter_gather: embedding
    attention: attn_res
    gemm: mhc_mm_norm
"""
WHOLE = """
    softmax: liger_cross_entropy_kernel = cross_entropy fwd+grad;
        _selective_log_softmax_kernel = selective log_softmax
    reduction: _jsd_kernel = jsd; _tv_distance_kernel = tv_distance; _kl_div_kernel = kl_div;
        _moe_router_histogram_kernel = moe router histogram;
        _moe_router_prefix_sum_kernel = moe router prefix sum
    pointwise: element_mul_kernel = scale grad; _triton_rope = rope; _triton_qwen2vl_mrope = mrope;
        _llama4_rope_kernel = rope (llama4); _swiglu_from_pre_act_kernel = swiglu
    gemm: _fused_up_proj_swiglu_kernel = moe up+swiglu; _fused_down_proj_kernel = moe down;
        _moe_bwd_dW1_kernel = moe bwd dW1; _moe_bwd_dW2_kernel = moe bwd dW2;
        _moe_bwd_dX_expanded_kernel = moe bwd dX; _moe_bwd_down_proj_kernel = moe bwd down
    scatter_gather: _token_gather_weighted_sum_kernel = moe gather+sum;
        _moe_router_scatter_kernel = moe router scatter
    normalization: _group_norm_reduce_param_grads_kernel = group_norm bwd: sums
"""


_NAME = (
    r"_?(?P<thing>[a-z][a-z0-9_]{0,78}?)_(?:kernel_(?P<late>forward|backward)"
    r"|(?P<way>forward|backward|fwd|bwd)(?:_(?P<kernel>kernel)|_rows?|_tiled|_fused_2d)"
    r"(?:_[a-z0-9]+)*)"
)
_NEIGHBOURHOOD = r"_(?:fused|dense|sparse)_neighborhood_(?:attention_)?\w+_kernel"


def _decode(r: NameParser) -> KernelId | None:
    plain = rx(r"_\d{1,3}$").sub("", r.name)
    known = _known(plain) if len(r.name) <= 80 else None
    if not known:
        return None
    short, role = known
    r.put(plain, "op", "user triton", "a Triton kernel: the name is the Python function's")
    r.put(plain, "lib", "Liger-Kernel", f"Liger-Kernel defines a function of this name: {short}")
    r.note("", "block size and warps are not in the name: --in TRACE reads them from a launch")
    if plain != r.name:
        r.note(r.name[len(plain) :], "a counter that torch.compile appends")
    return r.done(role, short)


def _known(plain: str) -> tuple[str, str] | None:
    """The short name and role of one of Liger's functions."""
    if whole := _functions(WHOLE).get(plain):
        return whole
    if rx(_NEIGHBOURHOOD).fullmatch(plain):
        return "neighborhood attention", "attention"
    found = rx(_NAME).fullmatch(plain)
    if not found or found["thing"] not in _functions(THINGS):
        return None
    short, role = _functions(THINGS)[found["thing"]]
    way = "fwd" if (found["late"] or found["way"]).startswith(("forward", "fwd")) else "bwd"
    return f"{short} {way}{' (tanh)' if found['thing'] == 'geglu_tanh' else ''}", role


@cache
def _functions(table: str) -> dict[str, tuple[str, str]]:
    """Function -> (short name, role)."""
    entries = ((role, entry.split(" = ")) for role, found in by_role(table, ";") for entry in found)
    return {words[0].strip(): (words[-1].strip(), role) for role, words in entries}


FAMILY = family("liger_triton", _decode, 70, "lib op", "documented", hint=r"^\w+$")
