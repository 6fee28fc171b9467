"""What the layers of a model do: attention, norms, activations, embedding, loss."""

from __future__ import annotations

from foretrace.model.costs import OpCall
from foretrace.model.groups._group import (
    MATMULS,
    GpuWork,
    Pattern,
    WorkGroup,
    gated,
    says,
    told,
    words,
)

_ATTENTION = r"scaled_dot_product|(flash|efficient|cudnn|flex|paged|unified|mla)_attention|fmha"
_ATTENTION_SCALE = "(mul|div|add|masked_fill|where|cast|copy)"
_KV_CACHE = r"reshape_and_cache|kv_?cache|store_cache|set_kv_buffer|append_kv"


def _is_kv_cache(work: GpuWork) -> object:
    """Keys and values written to their cache: a copy to an index, a kernel of a server, or a cat.

    The cat joins [batch, heads, tokens, head size] along the tokens.
    """
    if work.role == "attention":
        return False  # it reads the cache
    if says(_KV_CACHE, work.words, *work.ops):
        return True
    return work.call is not None and (_kv_cache_joins(work.call) or _kv_cache_writes(work.call))


def _kv_cache_joins(call: OpCall) -> bool:
    """Two tensors of four dimensions that differ in the third alone; a new cache is empty."""
    parts = call.tensors(0) if call.name == "aten::cat" else None
    if parts is None or len(parts) != 2 or call.integer(1) not in (-2, 2):
        return False
    old, new = (part.dims for part in parts)
    return len(new) == 4 and (old == (0,) or _kv_cache_same_but_tokens(old, new))


def _kv_cache_writes(call: OpCall) -> bool:
    """Fewer tokens into a tensor of four dimensions, at indices."""
    if call.name != "aten::index_copy_":
        return False
    cache, new = call.tensor(0), call.tensor(3)
    return cache is not None and new is not None and _kv_cache_same_but_tokens(cache.dims, new.dims)


def _kv_cache_same_but_tokens(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return len(one) == len(two) == 4 and (*one[:2], one[3]) == (*two[:2], two[3])


def _is_kv_repeat(work: GpuWork) -> bool:
    """Keys and values copied once per query head: attention has no grouped queries.

    The copy reads five dimensions [batch, key heads, repeats, tokens, head size]. The third has
    stride 0: it was expanded.
    """
    call = work.call
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if source is None or source.strides is None or len(source.dims) != 5:
        return False
    return source.strides[2] == 0 and source.dims[2] > 1


def _is_rope(work: GpuWork) -> object:
    """Tables of cos and sin, and the rotated pairs (rotate_half, two multiplications, a sum)."""
    if work.origins:
        turned = {"cat", "mul"} <= work.origins and work.origins & {"cos", "sin"}
        return (turned or work.origins >= words("add cat mul neg")) and not work.reduces
    if says(r"Rotary|RoPE", work.module):
        return work.role not in MATMULS
    return says(r"rope|rotary", work.words, *work.ops)


def _is_mask(work: GpuWork) -> object:
    """Positions and masks: counting up, comparing, and the mask that comes of it."""
    counts = work.origins & words("arange iota tril triu")
    compares = work.origins & words("le lt ge gt tril triu")
    return work.ops & {"tril", "triu"} or (counts and compares)


_MASK_NEXT = "arange|add|sub|le|lt|ge|gt|ne|eq|bitwise_and|logical_and|where"
_EMBEDDING_OPS = words("embedding embedding_backward embedding_dense_backward embedding_bag")


def _is_embedding(work: GpuWork) -> object:
    """The lookup of embeddings, and their gradient."""
    if work.origins:
        return work.origins & _EMBEDDING_OPS and not work.reduces
    return (
        work.ops & _EMBEDDING_OPS
        or says(r"(?<!rotary_)(?<!rotary)embedding", work.words)
        or says(r"SplitLookupFunction|split_embedding", *work.path)  # FBGEMM
    )


_RMS_NORM_OPS = words("rms_norm fused_rms_norm fused_rms_norm_backward fused_add_rms_norm")
_RMS_NORM_FUSED = words("_fused_rms_norm _fused_rms_norm_backward rms_norm fused_add_rms_norm")


def _is_rms_norm(work: GpuWork) -> object:
    """RMSNorm: fused, compiled, or by hand.

    By hand it is x.float(), pow, mean, add eps, rsqrt, mul, a cast back and the weight, in the
    order of Llama, T5 or Gemma (which adds 1 to the weight).
    """
    if work.origins:
        return work.origins & _RMS_NORM_FUSED or (work.reduces and _rms_norm_compiled(work.origins))
    if says(r"RMSNorm|RmsNorm|T5LayerNorm", work.module) and work.role not in MATMULS:
        return True
    return work.ops & _RMS_NORM_OPS or says(r"rms_?norm|add_rms", work.words)


def _rms_norm_compiled(origins: frozenset[str]) -> bool:
    """A norm that subtracts the mean is another one."""
    backward = words("div expand mul pow sum")  # the gradient of mean expands and divides
    squares = origins >= words("mean pow rsqrt") or origins >= backward
    return squares and not origins & words("sub var var_mean std")


_LAYER_NORM_OPS = words("layer_norm native_layer_norm native_layer_norm_backward")


def _is_layer_norm(work: GpuWork) -> object:
    """LayerNorm: fused, compiled, or by hand."""
    if work.origins:
        return any("layer_norm" in op for op in work.origins)
    in_module = "LayerNorm" in work.module and work.role not in MATMULS
    return in_module or work.ops & _LAYER_NORM_OPS or says(r"layer_?norm|ln_(fwd|bwd)", work.words)


_LAYER_NORM_BY_HAND = "mean sub cast? (pow|square) mean add (rsqrt mul|sqrt div) (mul add|mul)?"
_OTHER_NORMS = {"batch": "BatchNorm", "group": "GroupNorm", "instance": "InstanceNorm"}


def _other_norms_name(work: GpuWork) -> str:
    """Batch, group and instance norm, and normalizations whose kind is not in the trace."""
    texts = (*work.ops, *work.origins, work.words, work.module.lower())
    kinds = [name for kind, name in _OTHER_NORMS.items() if says(f"{kind}_?norm", *texts)]
    if len(kinds) == 1 and work.role not in MATMULS:
        return kinds[0]
    return "normalization" if work.role == "normalization" else ""


_ACTIVATION_NAMES = {
    "gelu": "GELU",
    "relu": "ReLU",
    "threshold": "ReLU",
    "silu": "SiLU",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "hardswish": "Hardswish",
    "mish": "Mish",
    "softplus": "softplus",
}


def _activation_name(work: GpuWork) -> str:
    """By op, by its backward op, or by the only such op that an Inductor kernel comes from."""
    forward = (op.removesuffix("_backward") for op in (*work.ops, *work.origins))
    known = {_ACTIVATION_NAMES[op] for op in forward if op in _ACTIVATION_NAMES}
    return known.pop() if work.role == "pointwise" and len(known) == 1 else ""


# GPT-2's GELU by hand: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
_ACTIVATION_BY_HAND = Pattern("mul pow mul add mul tanh add mul", same_size=True)
_RESIDUAL_NORM = "cast? (pow|square) mean|mean sub|layer_norm|native_layer_norm|rms_norm"
_DROPOUT_OPS = words("dropout native_dropout native_dropout_backward fused_dropout bernoulli")
_ROUTING = r"moe|routing|router|unpermute|topk_(softmax|gating)|expert|matmul_ogs"


def _experts_name(work: GpuWork) -> str:
    """Matmuls of the experts, and the routing of tokens to them and back."""
    if not says(_ROUTING, work.words) and not any("moe" in op for op in work.ops):
        return ""
    return "MoE GEMM" if work.role in MATMULS else "MoE routing"


_LOSS_OPS = words("""
    cross_entropy_loss nll_loss nll_loss_forward nll_loss_backward nll_loss2d_forward
    nll_loss2d_backward mse_loss mse_loss_backward l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits
""")


def _is_loss(work: GpuWork) -> object:
    """The loss: cross entropy (log_softmax and nll_loss), mean squared error and others.

    The cast of the logits to float32 in front of a cross entropy is part of it.
    """
    # Inductor lists the loss among the origins of the first kernel of the backward pass too
    other = work.role == "normalization" or "embedding_dense_backward" in work.origins
    return (
        work.ops & _LOSS_OPS
        or (work.origins & _LOSS_OPS and not other)
        or says(r"cross_?entropy|nll_?loss|mse_?loss|jsd_|kldiv", work.words)
    )


GROUPS = (
    told("KV cache", 28, _is_kv_cache),
    # Fused kernels, and what `scaled_dot_product_attention` launches. Attention by hand is a
    # matmul, scale and mask, a softmax, dropout, a matmul.
    told(
        "attention",
        30,
        lambda work: work.role == "attention" or says(_ATTENTION, *work.ops),
        (
            Pattern(
                f"bmm {_ATTENTION_SCALE}* softmax (cast|dropout|native_dropout|copy)* bmm",
                matmuls=True,
            ),
        ),
    ),
    told(
        "loss",
        35,
        _is_loss,
        (
            Pattern("cast (pad|copy)* (cross_entropy_loss+|log_softmax nll_loss)"),
            Pattern("log_softmax nll_loss"),
        ),
    ),
    told("embedding", 40, _is_embedding),
    told(
        "RMSNorm",
        45,
        _is_rms_norm,
        (
            Pattern(
                "(?<!sub) (?<!sub cast) cast? (pow|square) mean add (rsqrt mul|sqrt div)"
                "(cast? add mul cast?|cast mul|mul)?"
            ),
        ),
    ),
    told("LayerNorm", 46, _is_layer_norm, (Pattern(_LAYER_NORM_BY_HAND),)),
    WorkGroup("normalization", 47, _other_norms_name),
    told(
        "RoPE",
        50,
        _is_rope,
        (
            Pattern("mul neg cat mul add", same_size=True),
            Pattern("(cast cast?)? (gemm|bmm) cat cos mul? sin mul? (cast cast)?"),
            Pattern("(cast cast?)? mul cat cos mul? sin mul? (cast cast)?"),
        ),
    ),
    # SwiGLU: silu of one half times the other, in one kernel or two.
    gated("SwiGLU", "silu", r"silu_?(and_?)?mul|swiglu|act_and_mul.*silu"),
    # GeGLU: gelu of one half times the other, in one kernel or two.
    gated("GeGLU", "gelu", r"gelu_?(and_?)?mul|geglu|act_and_mul.*gelu"),
    told("repeat_kv", 55, _is_kv_repeat),
    # Dropout and its mask.
    told(
        "dropout",
        56,
        lambda work: _DROPOUT_OPS & (work.ops | work.origins) or "dropout" in work.words,
    ),
    WorkGroup("MoE routing", 61, _experts_name),
    # A softmax that is neither attention nor a loss.
    told("softmax", 70, lambda work: work.role == "softmax", weak=True),
    told(
        "positions, mask",
        72,
        _is_mask,
        (Pattern(f"arange ({_MASK_NEXT})*"),),
    ),
    # The sum of a layer's input and output: after the last matmul (or its dropout) and before a
    # norm; in a ResNet between a batch norm and a ReLU. Both operands have one size.
    WorkGroup(
        "residual add",
        73,
        lambda work: "",
        (
            Pattern(f"(?<=gemm|dropout|native_dropout) add (?={_RESIDUAL_NORM})", one_size=True),
            Pattern("(?<=batch_norm) add (?=relu)", one_size=True),
        ),
        with_backward=False,
    ),
    # Activations that stand alone, by name.
    WorkGroup("GELU", 75, _activation_name, (_ACTIVATION_BY_HAND,), weak=True),
)
