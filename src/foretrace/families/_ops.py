"""Which role an op has, for kernels whose own name tells nothing."""

from __future__ import annotations

from functools import lru_cache

from foretrace.families import _words

# aten ops by role; a trailing underscore, `_out` and `_backward…` are taken off first
_ROLES = {
    "gemm": (
        "mm addmm bmm baddbmm matmul linear _scaled_mm _grouped_mm _scaled_grouped_mm _int_mm "
        "addbmm einsum "
        "tensordot _addmm_activation _weight_int4pack_mm mkldnn_linear"
    ),
    "gemv": ("mv addmv dot vdot"),
    "conv": (
        "convolution _convolution cudnn_convolution miopen_convolution conv1d conv2d conv3d "
        "conv_transpose2d "
        "slow_conv2d thnn_conv2d _slow_conv2d _conv_depthwise2d mkldnn_convolution"
    ),
    "attention": (
        "scaled_dot_product_attention _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
        "_flash_attention "
        "_efficient_attention _cudnn_attention flex_attention _flash_attention_forward "
        "_efficient_attention_forward _cudnn_attention_forward"
    ),
    "normalization": (
        "native_layer_norm layer_norm _fused_rms_norm rms_norm native_batch_norm cudnn_batch_norm "
        "batch_norm "
        "native_group_norm group_norm instance_norm miopen_batch_norm _native_batch_norm_legit"
    ),
    "softmax": ("_softmax softmax _log_softmax log_softmax cross_entropy_loss _masked_softmax"),
    "reduction": (
        "sum mean max min amax amin argmax argmin any all prod norm linalg_vector_norm var std "
        "var_mean "
        "logsumexp cumsum cumprod nll_loss nll_loss_forward mse_loss max_pool2d "
        "max_pool2d_with_indices "
        "avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool2d count_nonzero bincount nansum"
    ),
    "copy": (
        "copy clone contiguous _to_copy to cat stack repeat constant_pad_nd pad roll flip fill "
        "zero "
        "pin_memory"
    ),
    "scatter_gather": (
        "index index_select index_put _index_put_impl gather scatter scatter_add index_add "
        "embedding "
        "embedding_dense _embedding_bag nonzero masked_select take repeat_interleave index_copy "
        "scatter_reduce masked_scatter unique _unique2"
    ),
    "sort": ("sort topk argsort kthvalue msort searchsorted bucketize median mode"),
    "random": (
        "normal uniform random randint randn rand bernoulli native_dropout dropout multinomial "
        "randperm "
        "exponential"
    ),
    "optimizer": (
        "_fused_adam _fused_adamw _fused_sgd _foreach_addcdiv _foreach_addcmul _foreach_lerp "
        "_foreach_add "
        "_foreach_mul _foreach_div _foreach_sqrt _foreach_sub _foreach_maximum _foreach_neg "
        "_foreach_pow"
    ),
    "pointwise": (
        "add sub mul div neg pow exp log sqrt rsqrt sin cos tanh sigmoid relu gelu silu threshold "
        "where "
        "masked_fill clamp clamp_min clamp_max eq ne lt le gt ge abs reciprocal leaky_relu elu "
        "hardtanh "
        "softplus erf lerp addcmul addcdiv bitwise_and bitwise_or bitwise_not logical_and "
        "logical_or "
        "logical_not arange tril triu isnan isinf floor ceil round maximum minimum remainder rsub "
        "square mish "
        "hardswish glu"
    ),
}
_COMMS = ("c10d", "_c10d_functional", "symm_mem", "nccl")
_BY_OP = {op: role for role, ops in _ROLES.items() for op in ops.split()}


@lru_cache(maxsize=4096)
def role_of_op(op: str) -> str:
    """`aten::addmm` -> `gemm`. Other namespaces (`vllm::moe_forward`, `c10d::allreduce_`) are
    judged by their words.
    """
    namespace, _, name = op.rpartition("::")
    if namespace in _COMMS or op.startswith(("nccl:", "record_param_comms")):
        return "comms"
    name = name.split(".")[0]
    if namespace == "aten":
        plain = name.removesuffix("_out").rstrip("_")
        stem = plain.partition("_backward")[0]
        return _BY_OP.get(plain) or _BY_OP.get(stem) or _BY_OP.get(f"_{stem}") or _words.role(name)
    return _words.role(name)
