"""Liger-Kernel's Triton functions: Triton 3 prints their names, torch.compile may append `_0`.

A name is a function (`geglu`, `rms_norm`, …) and a direction. `liger_cross_entropy_kernel` writes
the gradient too.
"""

from __future__ import annotations

from foretrace.families._parser import NameParser, rx, word_set
from foretrace.schema.kernel import Family, KernelId

# The thing -> (short, role). Only functions that Liger defines: other people's `_add_kernel` is
# theirs.
THINGS = {
    "geglu_tanh": ("geglu", "pointwise"),
    "geglu": ("geglu", "pointwise"),
    "swiglu": ("swiglu", "pointwise"),
    "relu_squared": ("relu_squared", "pointwise"),
    "dyt": ("dyt", "pointwise"),
    "rms_norm": ("rms_norm", "normalization"),
    "block_rms_norm": ("rms_norm (block)", "normalization"),
    "layer_norm": ("layer_norm", "normalization"),
    "group_norm": ("group_norm", "normalization"),
    "fused_add_rms_norm": ("add+rms_norm", "normalization"),
    "poly_norm": ("poly_norm", "normalization"),
    "modulated_rms_norm": ("modulated rms_norm", "normalization"),
    "grpo_loss": ("grpo_loss", "reduction"),
    "softmax_single_block": ("softmax", "softmax"),
    "softmax_multi_block": ("softmax (blocks)", "softmax"),
    "sparsemax": ("sparsemax", "softmax"),
    "embedding": ("embedding", "scatter_gather"),
    "liger_cross_entropy": ("cross_entropy", "softmax"),
    "kldiv": ("kl_div", "reduction"),
    "fused_ce_tvd": ("cross_entropy+tvd", "softmax"),
    "liger_vocab_parallel_ce": ("cross_entropy (parallel)", "softmax"),
    "attn_res": ("attn_res", "attention"),
    "mhc_post_res": ("mhc_post_res", "pointwise"),
    "mhc_pre": ("mhc_pre", "pointwise"),
    "mhc_mm_norm": ("mhc_mm_norm", "gemm"),
    "mask": ("mask", "pointwise"),
}
WHOLE = {
    "liger_cross_entropy_kernel": ("cross_entropy fwd+grad", "softmax"),
    "_jsd_kernel": ("jsd", "reduction"),
    "_tv_distance_kernel": ("tv_distance", "reduction"),
    "element_mul_kernel": ("scale grad", "pointwise"),
    "_triton_rope": ("rope", "pointwise"),
    "_triton_qwen2vl_mrope": ("mrope", "pointwise"),
    "_llama4_rope_kernel": ("rope (llama4)", "pointwise"),
    "_kl_div_kernel": ("kl_div", "reduction"),
    "_selective_log_softmax_kernel": ("selective log_softmax", "softmax"),
    "_swiglu_from_pre_act_kernel": ("swiglu", "pointwise"),
    "_fused_up_proj_swiglu_kernel": ("moe up+swiglu", "gemm"),
    "_fused_down_proj_kernel": ("moe down", "gemm"),
    "_moe_bwd_dW1_kernel": ("moe bwd dW1", "gemm"),
    "_moe_bwd_dW2_kernel": ("moe bwd dW2", "gemm"),
    "_moe_bwd_dX_expanded_kernel": ("moe bwd dX", "gemm"),
    "_moe_bwd_down_proj_kernel": ("moe bwd down", "gemm"),
    "_token_gather_weighted_sum_kernel": ("moe gather+sum", "scatter_gather"),
    "_moe_router_histogram_kernel": ("moe router histogram", "reduction"),
    "_moe_router_prefix_sum_kernel": ("moe router prefix sum", "reduction"),
    "_moe_router_scatter_kernel": ("moe router scatter", "scatter_gather"),
    "_group_norm_reduce_param_grads_kernel": ("group_norm bwd: sums", "normalization"),
}
_NAME = (
    r"_?(?P<thing>[a-z][a-z0-9_]*?)_(?:kernel_(?P<late>forward|backward)"
    r"|(?P<way>forward|backward|fwd|bwd)(?:_(?P<kernel>kernel)|_rows?|_tiled|_fused_2d)"
    r"(?:_[a-z0-9]+)*)"
)
_NEIGHBOURHOOD = r"_(?:fused|dense|sparse)_neighborhood_(?:attention_)?\w+_kernel"


def _decode(name: str) -> KernelId | None:
    if len(name) > 80 or not name.replace("_", "").isalnum():
        return None
    plain = rx(r"_\d{1,3}$").sub("", name)
    if plain in WHOLE:
        return _done(name, plain, *WHOLE[plain])
    if rx(_NEIGHBOURHOOD).fullmatch(plain):
        return _done(name, plain, "neighborhood attention", "attention")
    found = rx(_NAME).fullmatch(plain)
    if not found or found["thing"] not in THINGS:
        return None
    short, role = THINGS[found["thing"]]
    way = "fwd" if (found["late"] or found["way"]).startswith(("forward", "fwd")) else "bwd"
    tanh = " (tanh)" if found["thing"] == "geglu_tanh" else ""
    return _done(name, plain, f"{short} {way}{tanh}", role)


def _done(name: str, plain: str, short: str, role: str) -> KernelId:
    r = NameParser(name, "liger_triton", "documented")
    r.put(plain, "op", "user triton", "a Triton kernel: the name is the Python function's")
    r.put(plain, "lib", "Liger-Kernel", f"Liger-Kernel defines a function of this name: {short}")
    if plain != name:
        r.note(name[len(plain) :], "a counter that torch.compile appends")
    return r.done(role, short)


FAMILY = Family("liger_triton", _decode, 70, word_set("lib op"))
