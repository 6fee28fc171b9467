"""What words tell: ATen's ops and their roles, the op behind a functor or a fused kernel's name,
the role of a plain function name; libraries whose names are literal.
"""

from __future__ import annotations

from functools import cache, lru_cache

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import by_role, rx, word_set
from foretrace.schema.kernel import Family, KernelId

VIEWS = word_set("""
    _reshape_alias _unsafe_view alias as_strided detach expand expand_as permute reshape select
    slice split split_with_sizes squeeze t transpose unbind unfold unsafe_split
    unsafe_split_with_sizes unsqueeze view
""")
MATMULS = word_set("""
    mm bmm addmm baddbmm _scaled_mm _grouped_mm _scaled_grouped_mm _int_mm scaled_mm matmul
    linear _addmm_activation addbmm mv grouped_gemm
""")
# ops by role; a trailing underscore, `_out` and `_backward…` are taken off first
_ROLES = """
    gemm: mm addmm bmm baddbmm matmul linear _scaled_mm _grouped_mm _scaled_grouped_mm _int_mm
        addbmm einsum tensordot _addmm_activation _weight_int4pack_mm mkldnn_linear
    gemv: mv addmv dot vdot
    conv: convolution _convolution cudnn_convolution miopen_convolution conv1d conv2d conv3d
        conv_transpose2d slow_conv2d thnn_conv2d _slow_conv2d _conv_depthwise2d
        mkldnn_convolution
    attention: scaled_dot_product_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _flash_attention _efficient_attention _cudnn_attention flex_attention
        _flash_attention_forward _efficient_attention_forward _cudnn_attention_forward
    normalization: native_layer_norm layer_norm _fused_rms_norm rms_norm native_batch_norm
        cudnn_batch_norm batch_norm native_group_norm group_norm instance_norm miopen_batch_norm
        _native_batch_norm_legit
    softmax: _softmax softmax _log_softmax log_softmax cross_entropy_loss _masked_softmax
    reduction: sum mean max min amax amin argmax argmin any all prod norm linalg_vector_norm var
        std var_mean logsumexp nll_loss nll_loss_forward mse_loss max_pool2d
        max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool2d
        count_nonzero bincount nansum
    scan: cumsum cumprod logcumsumexp cummax cummin _cummax_helper _cummin_helper
    copy: copy clone contiguous _to_copy to cat stack repeat constant_pad_nd pad roll flip fill
        zero pin_memory
    scatter_gather: index index_select index_put _index_put_impl gather scatter scatter_add
        index_add embedding embedding_dense _embedding_bag nonzero masked_select take
        repeat_interleave index_copy scatter_reduce masked_scatter unique _unique2
    sort: sort topk argsort kthvalue msort searchsorted bucketize median mode
    random: normal uniform random randint randn rand bernoulli native_dropout dropout
        multinomial randperm exponential
    optimizer: _fused_adam _fused_adamw _fused_sgd _foreach_addcdiv _foreach_addcmul
        _foreach_lerp _foreach_add _foreach_mul _foreach_div _foreach_sqrt _foreach_sub
        _foreach_maximum _foreach_neg _foreach_pow
    pointwise: add sub mul div neg pow exp log sqrt rsqrt sin cos tanh sigmoid relu gelu silu
        threshold where masked_fill clamp clamp_min clamp_max eq ne lt le gt ge abs reciprocal
        leaky_relu elu hardtanh softplus erf lerp addcmul addcdiv bitwise_and bitwise_or
        bitwise_not logical_and logical_or logical_not arange tril triu isnan isinf floor ceil
        round maximum minimum remainder rsub square mish hardswish glu
"""
_COMMS = ("c10d", "_c10d_functional", "symm_mem", "nccl")
_MOST_WORDS = 10  # of one op: _scaled_dot_product_flash_attention_for_cpu_backward has nine
_LAMBDA = r"[{\[]lambda ?\(([^(){}\[\]]*)\)"
_ENDINGS = "CUDAKernelImpl KernelImpl _kernel_cuda _cuda_kernel _kernel_impl _cuda_out _kernel"
# Functors whose literal name would mislead: the op that ATen launches them for.
_MISLEADING = """
    mse = mse_loss; mse_backward = mse_loss_backward; smooth_l1 = smooth_l1_loss
    smooth_l1_backward = smooth_l1_loss_backward; huber = huber_loss
    huber_backward = huber_loss_backward; pow_tensor_scalar = pow; pow_tensor_tensor = pow
    pow_scalar_tensor = pow; lerp_scalar = lerp; lerp_tensor = lerp; div_true = div
    max_elementwise = maximum; min_elementwise = minimum; masked_scale = native_dropout_backward
    compare_eq = eq; compare = compare (lt, le, gt, ge); compare_scalar = compare (lt, le, gt, ge)
    clamp_scalar = clamp; binary_cross_entropy_out = binary_cross_entropy; addcmul_scalar = addcmul
"""
# What Inductor's kernel names list: the words that an op list is split with.
VOCABULARY = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
    _adaptive_avg_pool3d_backward _addmm_activation _amp_update_scale
    _batch_norm_impl_index_backward _batch_norm_no_update _batch_norm_with_update
    _batch_norm_with_update_functional _cdist_backward _cdist_forward _chunk_cat _conv_depthwise2d
    _convolution _convolution_double_backward _convolution_mode _convolution_pointwise
    _efficient_attention_backward _efficient_attention_forward _embedding_bag
    _embedding_bag_backward _embedding_bag_forward_only _fft_r2c _flash_attention_backward
    _flash_attention_forward _foreach_abs _foreach_add _foreach_addcdiv _foreach_addcmul
    _foreach_clamp_max _foreach_clamp_min _foreach_clone _foreach_copy _foreach_div _foreach_lerp
    _foreach_maximum _foreach_minimum _foreach_mul _foreach_neg _foreach_norm _foreach_pow
    _foreach_reciprocal _foreach_rsqrt _foreach_sign _foreach_sqrt _foreach_sub
    _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm
    _fused_rms_norm_backward _grouped_mm _inductor_bucketize _int_mm _linear_pointwise
    _log_softmax _log_softmax_backward_data _low_memory_max_pool2d_offsets_to_indices
    _low_memory_max_pool2d_with_offsets _low_memory_max_pool_offsets_to_indices
    _low_memory_max_pool_with_offsets _mkl_linear _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _native_multi_head_attention _neg_view _pad_circular _pad_enum _prelu_kernel
    _prelu_kernel_backward _reshape_alias _safe_softmax _scaled_dot_product_attention_math
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_fused_attention_overrideable
    _scaled_dot_product_fused_attention_overrideable_backward _scaled_grouped_mm _scaled_mm
    _scaled_mm_v2 _softmax _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put
    _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm
    _weight_norm_differentiable_backward _weight_norm_interface _weight_norm_interface_backward
    abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d
    adaptive_max_pool3d_backward add addbmm addcdiv addcmul addmm addmv addr alias all
    all_gather_into_tensor all_reduce all_to_all_single amax amin aminmax angle any arange argmax
    argmin argsort as_strided as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d
    avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm batch_norm_backward bernoulli
    bilinear binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
    bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    bmm broadcast_in_dim bucketize cat cauchy cdist ceil celu chunk clamp clamp_max clamp_min
    clone complex conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d convert_element_type convolution convolution_backward copy
    copysign cos cosh cosine_similarity count_nonzero cross_entropy cross_entropy_loss
    cudnn_batch_norm cudnn_batch_norm_backward cummax cummin cumprod cumprod_backward cumsum
    deg2rad dequantize_per_channel dequantize_per_tensor detach diag diag_embed diagflat diagonal
    diagonal_backward diagonal_copy diagonal_scatter diff digamma div dot dropout
    dynamic_scaled_fp8_quant elu elu_backward embedding embedding_backward embedding_bag
    embedding_dense_backward embedding_sparse_backward empty empty_like empty_permuted
    empty_strided eq erf erfc erfcx erfinv exp exp2 expand expand_as expand_copy expm1 exponential
    eye fake_quantize_per_channel_affine fake_quantize_per_tensor_affine fill flatten
    flex_attention flex_attention_backward flip fliplr flipud float_power floor floor_divide fma
    fmax fmha_v3_bwd fmha_v3_fwd fmin fmod frac full full_like fused_add_rms_norm gather
    gather_backward gcd ge gelu gelu_backward geometric glu glu_backward grid_sampler
    grid_sampler_2d grid_sampler_2d_backward group_norm grouped_gemm gt hardshrink hardsigmoid
    hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward hash_tensor
    heaviside histc huber_loss huber_loss_backward hypot i0 igamma igammac im2col imag index
    index_add index_copy index_fill index_put index_reduce index_select index_select_backward
    inductor_force_stride_order inductor_lookup_seed inductor_randint inductor_random
    inductor_seed inductor_seeds inner instance_norm iota isfinite isin isinf isnan isneginf
    isposinf kl_div kthvalue l1_loss layer_norm lcm ldexp le leaky_relu leaky_relu_backward lerp
    lgamma linalg_cross linalg_norm linalg_vector_norm linear linear_backward linspace log log10
    log1p log2 log_normal log_sigmoid log_sigmoid_backward log_sigmoid_forward log_softmax
    logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit
    logit_backward logspace logsumexp lt masked_fill masked_scatter masked_scatter_backward
    masked_scatter_with_index masked_select_backward matmul max max_pool1d max_pool1d_with_indices
    max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d
    max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d max_unpool3d maximum
    mean median meshgrid min minimum miopen_batch_norm miopen_batch_norm_backward mish
    mish_backward mm moe_forward moe_forward_shared movedim mse_loss mse_loss_backward mul
    multinomial mv nan_to_num nanmean nansum narrow_copy native_batch_norm
    native_batch_norm_backward native_channel_shuffle native_dropout native_dropout_backward
    native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward ne
    neg new_empty new_empty_strided new_full new_ones new_zeros nextafter nll_loss nll_loss2d
    nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward nll_loss_nd nonzero
    nonzero_numpy norm normal_functional one_hot ones ones_like outer pad pad_sequence
    pairwise_distance per_token_group_fp8_quant permute permute_copy pixel_shuffle pixel_unshuffle
    polar polygamma pow prelu prepare_softmax_online prod put quantize_per_channel
    quantize_per_tensor rad2deg rand rand_like randint randint_like randn randn_like random
    randperm real reciprocal reduce_scatter_tensor reflection_pad1d reflection_pad1d_backward
    reflection_pad2d reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward relu
    relu6 remainder repeat repeat_interleave replication_pad1d replication_pad1d_backward
    replication_pad2d replication_pad2d_backward replication_pad3d reshape rms_norm roll
    rotary_embedding round rrelu rsqrt rsub scalar_tensor scaled_dot_product_attention scaled_mm
    scatter scatter_add scatter_reduce searchsorted segment_reduce select select_backward
    select_scatter selu sgn sigmoid sigmoid_backward sign signbit silu silu_and_mul silu_backward
    sin sinc sinh slice slice_backward slice_scatter smooth_l1_loss smooth_l1_loss_backward
    softmax softplus softplus_backward softshrink sort split split_with_sizes
    split_with_sizes_copy sqrt square squeeze squeeze_copy stack static_scaled_fp8_quant std
    std_mean sub sum sum_to_size t t_copy take tan tanh tanh_backward threshold threshold_backward
    tile topk trace trace_backward transpose transpose_copy tril triu trunc unbind unbind_copy
    unflatten unfold unfold_backward unified_attention unified_attention_with_output uniform
    unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy
    upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
    upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_nearest1d
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d
    upsample_trilinear3d_backward var var_mean view view_as_complex view_copy wait_tensor where
    xlogy zero zeros zeros_like
"""
# The first line with a word in the name decides, so that `attention_reduce` is attention and
# `rms_norm_quant` a norm. Words are matched from their beginning: `_norm_` is the word norm,
# `_layernorm` any word that begins so.
_ROLE_WORDS = """
    comms: _allreduce _all_reduce_ _allgather _all_gather_ _reducescatter _reduce_scatter_
        _alltoall _all_to_all_ _nccl _rccl _nvshmem _cross_device_reduce_ _multimem
        _send_recv_ _sendrecv _oneshot _twoshot _deep_ep_ _barrier_
    attention: _attention _attn _fmha _flash_ _mha_ _mla_ _sdpa_ _paged_ _pagedattention
        _unified_attention_ _batchprefill _batch_prefill_ _batch_decode_ _single_decode_
        _single_prefill_
    normalization: _rmsnorm _rms_norm_ _layernorm _layer_norm_ _groupnorm _group_norm_
        _batchnorm _batch_norm_ _instance_norm_ _rms_ _ln_fwd_ _ln_bwd_ _ln_ _norm_
        _l2norm_
    softmax: _softmax _soft_max_ _cross_entropy_ _crossentropy _logsumexp
    optimizer: _adam _adagrad _sgd_ _lamb_ _lion_ _optimizer _adafactor _muon_
    scatter_gather: _finalize_matmul_
    conv: _conv_ _conv1d _conv2d _conv3d _convolution _winograd _dgrad _wgrad _fprop
        _im2col _im2d2_col_ _igemm
    gemv: _gemv
    gemm: _gemm _sgemm _hgemm _dgemm _matmul _mm_ _bmm_ _grouped_mm_ _marlin _fused_moe_
        _moe_gemm_ _w8a8_ _linear_ _flatmm
    sort: _sort _topk _top_k_ _argsort _radix _merge_sort_
    random: _dropout _philox _random _bernoulli _multinomial _sampling _rng_
    scatter_gather: _embedding _gather _scatter _index _indices _permute _kv_cache_
        _kvcache _cache_ _routing _router _moe_align_ _page_ _page_table_ _lookup
        _bitmatrix _unpermute _nonzero
    scan: _cumsum _scan_
    reduction: _reduce _reduction _sum_ _mean_ _argmax_ _argmin_ _amax_ _absmax
        _max_ _min_ _loss _jsd_ _kldiv_ _kl_ _histogram _var_ _pool
    copy: _copy _memcpy _memset _fill _transpose _cast_ _cat_ _concat _pack _contiguous
        _zero_ _layout_
    pointwise: _act_and_mul_ _silu _gelu _swiglu _geglu _relu _sigmoid _tanh_ _rope
        _rotary _mrope _add_ _mul_ _quant _dequant _scale _scaled_ _elementwise _pointwise
        _activation _act_ _exp_ _div_ _where_ _clamp _mask_ _bias_ _glu_
"""
_SPLIT = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*[a-z]*|[A-Z]+|\d+"
_NOISE = r"^_+|(?<!_)_+$|^(?:triton|void)_|_(?:kernel|cuda|hip|triton|gpu)(?=_|$)"


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset(VOCABULARY.split())


@cache
def _role_by_op() -> dict[str, str]:
    return {op: role for role, ops in by_role(_ROLES) for op in ops}


@cache
def _op_by_functor() -> dict[str, str]:
    entries = _MISLEADING.strip().replace(";", "\n").splitlines()
    return dict(entry.strip().split(" = ") for entry in entries)


def is_op(word: str) -> bool:
    """Is this the name of an ATen op?"""
    return word in _vocabulary()


@lru_cache(maxsize=4096)
def role_of_op(op: str) -> str:
    """`aten::addmm` -> `gemm`. Ops of other namespaces (`vllm::moe_forward`) go by their words."""
    namespace, _, name = op.rpartition("::")
    if namespace in _COMMS or op.startswith(("nccl:", "record_param_comms")):
        return "comms"
    name = name.split(".")[0]
    if namespace != "aten":
        return role(name)
    known, plain = _role_by_op(), name.removesuffix("_out").rstrip("_")
    stem = plain.partition("_backward")[0]
    return known.get(plain) or known.get(stem) or known.get(f"_{stem}") or role(name)


def split_ops(text: str) -> list[str]:
    """`_to_copy_add_native_layer_norm` -> [`_to_copy`, `add`, `native_layer_norm`]; linear."""
    return list(_split_once(text))


@lru_cache(maxsize=4096)
def _split_once(text: str) -> tuple[str, ...]:
    """Names that differ in a counter alone have one list of ops."""
    ops: list[str] = []
    position, unknown = 0, False
    while position < len(text):
        word = _known(text, position, ops[-1] if ops else "", unknown)
        end = position + len(word) if word else _next(text, position + 1)
        if not word and unknown:
            ops[-1] += text[position - 1 : end]
        else:
            ops.append(text[position:end])
        unknown = not word
        position = end + 1
    return tuple(ops)


def _known(text: str, start: int, previous: str, after_unknown: bool) -> str:
    """The op that begins here: the longest one after which the text goes on with an op, else the
    longest.

    The list is sorted, so a smaller op after an unknown word belongs to that word.
    """
    fits = _beginning(text, start)
    ordered = [word for word in fits if word > previous]
    going_on = (
        word
        for word in ordered
        if start + len(word) == len(text) or _beginning(text, start + len(word) + 1)
    )
    best = next(going_on, "") or next(iter(ordered), "")
    return best or ("" if after_unknown else next(iter(fits), ""))


def _beginning(text: str, start: int) -> list[str]:
    """All ops of the vocabulary that the text has at `start`, the longest first."""
    ends = [_next(text, start + 1)]
    while len(ends) < _MOST_WORDS and ends[-1] < len(text):
        ends.append(_next(text, ends[-1] + 1))
    return [word for end in reversed(ends) if (word := text[start:end]) in _vocabulary()]


def _next(text: str, start: int) -> int:
    at = text.find("_", start)
    return at if at >= 0 else len(text)


def op_word(functor: str) -> str:
    """`GeluBackwardCUDAKernelImpl` -> `gelu_backward`, `rsqrt_kernel_cuda` -> `rsqrt`."""
    word = functor.removeprefix("CUDAFunctor_").removeprefix("launch_")
    for ending in (*_ENDINGS.split(), "Functor", "_cuda", "_impl"):
        word = word.removesuffix(ending)
    word = rx(r"(?<=[a-z0-9])(?=[A-Z])").sub("_", word).lower().strip("_")
    return _op_by_functor().get(word, word)


def lambda_types(text: str) -> list[str]:
    """The argument types of the innermost lambda. Lambda numbers are dispatch branches."""
    found = [inner for inner in rx(_LAMBDA).findall(text) if inner.strip()]
    return list(_cpp.split(found[-1])) if found else []


def lambda_dtype(text: str) -> tuple[str, str] | None:
    """The type and spelling that the innermost lambda works on (`bool` masks aside), if one."""
    known = {dtype: written for written in lambda_types(text) if (dtype := _cpp.dtype(written))}
    if len(known) > 1:
        known.pop("bool", None)
    return next(iter(known.items())) if len(known) == 1 else None


@lru_cache(maxsize=4096)
def role(name: str) -> str:
    """The role that the words of a function's name suggest, or `other`."""
    words = [word.lower() for word in rx(_SPLIT).findall(name[:400])]
    text = f"_{'_'.join(words)}_"
    fits = (role for role, marks in by_role(_ROLE_WORDS) if any(mark in text for mark in marks))
    return next(fits, "other")


def plain(name: str) -> str:
    """`_topk_forward_kernel` -> `topk fwd`."""
    text = rx(_NOISE).sub("", rx(_NOISE).sub("", name[:400]))
    text = text.replace("forward", "fwd").replace("backward", "bwd").replace("Kernel", "")
    return rx(r"_(fwd|bwd)(?=_|$)").sub(r" \1", text).strip("_ ") or name[:60]


def library(namespace: str, lib: str, states: str) -> Family:
    """A family of literal C++ names: everything below one namespace, which names the family."""

    def decode(r: NameParser) -> KernelId | None:
        return literal(r, lib) if r.cpp.scope.split("::")[0] == namespace else None

    return family(namespace, decode, 34, states, hint=f"{namespace}::")


def literal(r: NameParser, lib: str) -> KernelId:
    """Role and short name from the function's words; the type from its template arguments."""
    readable, r.certainty = plain(r.base), "inferred"
    r.note(r.base, f"the name is literal: {readable}")
    r.put(r.cpp.scope.split("::")[0] or r.base, "lib", lib)
    known = role(r.base)
    known = known if known != "other" else role(f"{r.cpp.scope}_{r.base}")
    return r.done(known, "", readable, first_type(r))


def first_type(r: NameParser) -> str:
    """State the first type among the template arguments that is no index."""
    stated = (text for text in r.cpp.args if _cpp.dtype(text) not in (None, "bool", "i32", "u32"))
    dtype: str = r.read(next(stated, ""), "dtype")
    return dtype
