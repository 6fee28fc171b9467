"""What the layers of a model do, what training adds, and what is named after its kernel."""

from __future__ import annotations

from foretrace.trace.autograd import ENGINE, STEP
from foretrace.trace.groups._group import (
    MATMULS,
    GpuWork,
    Pattern,
    WorkGroup,
    changes_type,
    gated,
    plain,
    says,
    told,
    words,
)
from foretrace.work.costs import OpCall

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


_COLLECTIVES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "AllToAll": "all-to-all",
    "Broadcast": "broadcast",
    "SendRecv": "send, receive",
}


def _collectives_name(work: GpuWork) -> str:
    """By the op: NCCL runs several collectives in a kernel that has the name of one (an all-to-all,
    and in old versions an all-reduce, in SendRecv). Else by the kernel's name.
    """
    if work.role != "comms":
        return ""
    ops = [op.replace("_", "") for op in work.ops]
    by_op = {name for op in ops for word, name in _COLLECTIVES.items() if word.lower() in op}
    by_kernel = _COLLECTIVES.get(str(work.id.get("coll")), "collectives")
    return by_op.pop() if len(by_op) == 1 else by_kernel


def _is_host_copy(work: GpuWork) -> bool:
    leaving = words("HtoD DtoH PtoP HtoH")
    return work.id.get("op") == "memcpy" and work.id.get("kind") in leaving


def _convolution_name(work: GpuWork) -> str:
    """Convolutions, and what their libraries launch around them to change the layout."""
    if work.role != "conv" and not says(r"convolution|conv[123]d|conv_depthwise", *work.ops):
        return ""
    if work.path and plain(work.path[-1]) in ("add", "sum"):
        return ""  # the bias and its gradient
    return "convolution backward" if work.backward else "convolution"


def _is_choosing(work: GpuWork) -> object:
    """The choice of the next token or of the best entries: argmax, top-k, sort, sampling."""
    if work.origins:
        return work.origins & words("argmax argmin topk sort multinomial")
    ops = words("argmax argmin topk sort argsort multinomial exponential searchsorted")
    chosen = work.ops & ops or work.role == "sort"
    return chosen or says(r"sampling|top_?k|top_?p|argmax", work.words)


def _is_fills(work: GpuWork) -> object:
    """Memory set to one value."""
    stated, fills = plain(str(work.id.get("op") or "").split(" ")[0]), ("fill", "zero")
    return stated in ("memset", *fills) or (work.path and plain(work.path[-1]) in fills)


def _is_copies(work: GpuWork) -> object:
    """Copies within the GPU: another layout, a joined tensor, a memcpy."""
    copying = words("clone cat stack constant_pad_nd permute expand transpose unsqueeze view")
    only = work.origins and work.origins <= copying and work.role == "pointwise"
    return work.role == "copy" or only


def _of_role(name: str, order: int, *roles: str) -> WorkGroup:
    """What no other group explains, by what the kernels do."""
    return told(name, order, lambda work: work.role in roles, weak=True, with_backward=False)


def _is_optimizer(work: GpuWork) -> object:
    """The optimizer's step: fused, foreach or one parameter at a time.

    `torch.optim` wraps it in a region `Optimizer.step#AdamW.step`. A foreach op outside of one is
    something else, such as the clipping of gradients.
    """
    stepping = any(name.startswith(STEP) for name in work.path)
    fused = r"fused_?(adam|sgd|adagrad|lamb|lion)|adam(w)?_kernel|multi_tensor_(adam|sgd)"
    return (
        stepping
        or work.ops & words("fused_adam fused_adamw fused_sgd fused_adagrad")
        or says(fused, work.words)
        or work.id.short.startswith("fused Ada")
    )


def _gradients_name(work: GpuWork) -> str:
    """Gradients added up: into a parameter's `.grad`, or where a tensor was used more than once.

    The engine itself adds the gradients of a tensor's uses, outside of any node.
    `AccumulateGrad` adds to the gradient that a parameter has from before.
    """
    if any(name.endswith("AccumulateGrad") for name in work.path):
        return "gradient accumulation"
    sums = len(work.path) > 1 and work.path[-2].startswith(ENGINE)
    return "gradient sums" if sums and work.path[-1] in ("aten::add", "aten::add_") else ""


def _gemm_backward_name(work: GpuWork) -> str:
    """Matmuls of the backward pass, and the gradient of their bias."""
    if not work.backward:
        return ""
    if work.role in MATMULS:
        return "GEMM backward"
    layer = r"(Addmm|Linear|Convolution)Backward\d*$|convolution_backward"
    summed = work.path[-1] == "aten::sum" and says(layer, *work.path)
    return "bias gradient" if summed else ""


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
    # Communication between GPUs, by the collective that the program called.
    WorkGroup("collectives", 10, _collectives_name, with_backward=False),
    # Memcpys between the host and the GPU, and between GPUs, by direction.
    WorkGroup(
        "copies to and from the host",
        12,
        lambda work: f"copy {work.id.get('kind')}" if _is_host_copy(work) else "",
        with_backward=False,
    ),
    WorkGroup("convolution", 57, _convolution_name, with_backward=False),
    # Pooling over windows.
    told(
        "pooling",
        58,
        lambda work: says(r"(max|avg|average)_?pool", *work.ops, *work.origins, work.words),
    ),
    # Quantization to 8 or 4 bits and back, by a kernel of its own.
    told(
        "quantization",
        60,
        lambda work: (
            work.role not in MATMULS and says(r"(?i)quant", work.words, *work.ops, *work.origins)
        ),
    ),
    told("argmax, top-k, sort", 61, _is_choosing),
    # The sums of the parts of split-K matmuls.
    told(
        "split-K sums",
        62,
        lambda work: work.id.get("op") == "splitk_reduce",
        with_backward=False,
    ),
    # Matmuls.
    told("GEMM", 64, lambda work: work.role in MATMULS, with_backward=False),
    # A bias added by a kernel of its own, inside the op of a matmul or a convolution.
    told(
        "bias",
        65,
        lambda work: (
            work.role == "pointwise"
            and says(r"^(linear|addmm|baddbmm|conv\dd|convolution)$", *work.ops)
        ),
        with_backward=False,
    ),
    # Copies that only change the element type.
    told(
        "casts",
        80,
        lambda work: work.role == "copy" and changes_type(work),
        weak=True,
        with_backward=False,
    ),
    told("fills", 81, _is_fills, weak=True, with_backward=False),
    told("copies", 82, _is_copies, weak=True, with_backward=False),
    # Sums, means and other reductions that no other group explains.
    _of_role("reductions", 86, "reduction"),
    # Running sums and products: cumsum, and the prefix sums of other ops.
    _of_role("scans", 87, "scan"),
    # Reads and writes at indices.
    _of_role("gather, scatter", 88, "scatter_gather"),
    # Random numbers.
    _of_role("random numbers", 90, "random"),
    # Pointwise kernels that no other group explains; foreach kernels outside the optimizer.
    _of_role("pointwise", 95, "pointwise", "optimizer"),
    told("optimizer", 20, _is_optimizer, with_backward=False),
    # Gradients set to zero between steps; `set_to_none=True` launches nothing.
    told(
        "zero_grad",
        21,
        lambda work: any(name.startswith("Optimizer.zero_grad#") for name in work.path),
        with_backward=False,
    ),
    # DistributedDataParallel: gradients divided, and copied to and from the buckets it reduces.
    told(
        "DDP buckets",
        21,
        lambda work: says(
            r"torch\.distributed\.ddp\.reducer|torch::distributed::reducer", *work.path
        ),
        with_backward=False,
    ),
    WorkGroup("gradient sums", 22, _gradients_name, with_backward=False),
    WorkGroup("GEMM backward", 63, _gemm_backward_name, with_backward=False),
)
