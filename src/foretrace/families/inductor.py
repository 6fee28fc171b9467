"""TorchInductor: `triton_<category>_fused_<ops>_<n>`, its C++ sibling and its other backends.

The op list is every ATen op that the fused nodes came from, sorted by name: the order says nothing
about execution, and an op whose main work is elsewhere may be in it
(`triton_poi_fused_addmm_silu_2` adds a bias and applies silu after a product that another kernel
did). Only `tem` kernels hold a matrix product, a convolution or attention. Views cost nothing. The
number is a counter: the same name may be other code in another graph.

Op names hold underscores, so the list is split with a vocabulary, longest match first, in
alphabetical order; a double underscore begins an op such as `_to_copy`. Words that the vocabulary
lacks are kept as they are.
"""

from __future__ import annotations

from functools import cache

from foretrace.families._reading import Reading, rx, uncut
from foretrace.schema.kernel import Family, KernelId

CATEGORIES = {
    "poi": ("pointwise", "element by element"),
    "red": ("reduction", "a reduction, looping over the row"),
    "per": ("persistent_reduction", "a reduction with the whole row in one block"),
    "tem": ("template", "a template: matrix product, convolution or attention"),
    "for": ("foreach/combo", "several independent kernels in one launch"),
    "spl": ("split_scan", "a scan in pieces"),
    "unk": ("unknown", "a kind without a word of its own, such as a cooperative reduction"),
}
VIEWS = frozenset(
    (
        "_unsafe_view",
        "_reshape_alias",
        "alias",
        "as_strided",
        "detach",
        "expand",
        "expand_as",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "unsqueeze",
        "view",
        "unfold",
    )
)
NORMS = frozenset(
    (
        "native_layer_norm",
        "native_layer_norm_backward",
        "native_group_norm",
        "native_group_norm_backward",
        "native_batch_norm",
        "native_batch_norm_backward",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "cudnn_batch_norm",
        "cudnn_batch_norm_backward",
        "_fused_rms_norm",
        "_fused_rms_norm_backward",
        "rms_norm",
        "layer_norm",
        "group_norm",
        "instance_norm",
        "fused_add_rms_norm",
        "batch_norm_backward",
        "_batch_norm_with_update",
        "miopen_batch_norm",
    )
)
SOFTMAXES = frozenset(
    (
        "_softmax",
        "_softmax_backward_data",
        "_log_softmax",
        "_log_softmax_backward_data",
        "softmax",
        "log_softmax",
        "_safe_softmax",
    )
)
REDUCTIONS = frozenset(
    (
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "prod",
        "any",
        "all",
        "var",
        "std",
        "var_mean",
        "norm",
        "logsumexp",
        "cumsum",
    )
)
PRODUCTS = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "_scaled_mm",
    "_grouped_mm",
    "_scaled_grouped_mm",
    "_int_mm",
    "scaled_mm",
    "matmul",
    "linear",
    "_addmm_activation",
    "addbmm",
    "mv",
    "grouped_gemm",
)
FUSED = "the ops that follow run as one kernel, be they several or one"
_TRITON = r"triton_(?P<cat>poi|red|per|tem|for|spl|unk)_fused(?:_(?P<rest>\w*))?"
_SPEC = r"0[dce]*(?:\d{1,4}[dce]*)*"
_OTHER = r"(cutlass|cutedsl|nv_universal_gemm|pallas)_(?:(\w+)_)?[0-9a-z]{8}(?:_\d+)?"
_MOST_WORDS = 10  # of one op: _scaled_dot_product_flash_attention_for_cpu_backward has nine

VOCABULARY = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward
    _addmm_activation _amp_update_scale _batch_norm_impl_index_backward _batch_norm_no_update _batch_norm_with_update
    _batch_norm_with_update_functional _cdist_backward _cdist_forward _chunk_cat _conv_depthwise2d _convolution
    _convolution_double_backward _convolution_mode _convolution_pointwise _efficient_attention_backward
    _efficient_attention_forward _embedding_bag _embedding_bag_backward _embedding_bag_forward_only _fft_r2c
    _flash_attention_backward _flash_attention_forward _foreach_abs _foreach_add _foreach_addcdiv _foreach_addcmul
    _foreach_clamp_max _foreach_clamp_min _foreach_clone _foreach_copy _foreach_div _foreach_lerp _foreach_maximum
    _foreach_minimum _foreach_mul _foreach_neg _foreach_norm _foreach_pow _foreach_reciprocal _foreach_rsqrt
    _foreach_sign _foreach_sqrt _foreach_sub _fused_moving_avg_obs_fq_helper
    _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm _fused_rms_norm_backward _grouped_mm _int_mm
    _linear_pointwise _log_softmax _log_softmax_backward_data _mkl_linear _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_multi_head_attention _neg_view
    _pad_circular _pad_enum _prelu_kernel _prelu_kernel_backward _reshape_alias _safe_softmax
    _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
    _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_fused_attention_overrideable
    _scaled_dot_product_fused_attention_overrideable_backward _scaled_grouped_mm _scaled_mm _scaled_mm_v2 _softmax
    _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_masked_index
    _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    _upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm
    _weight_norm_differentiable_backward _weight_norm_interface _weight_norm_interface_backward abs acos acosh
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward add addbmm addcdiv addcmul addmm
    addmv addr alias all all_gather_into_tensor all_reduce all_to_all_single amax amin aminmax angle any arange argmax
    argmin argsort as_strided as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool2d_backward
    avg_pool3d avg_pool3d_backward baddbmm batch_norm_backward bernoulli bilinear binary_cross_entropy
    binary_cross_entropy_backward binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_in_dim bucketize cat cauchy cdist ceil celu chunk clamp
    clamp_max clamp_min clone complex conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d convert_element_type convolution convolution_backward copy copysign cos cosh
    cosine_similarity count_nonzero cross_entropy cross_entropy_loss cudnn_batch_norm cudnn_batch_norm_backward cummax
    cummin cumprod cumprod_backward cumsum deg2rad dequantize_per_channel dequantize_per_tensor detach diag diag_embed
    diagflat diagonal diagonal_backward diagonal_copy diagonal_scatter diff digamma div dot dropout
    dynamic_scaled_fp8_quant elu elu_backward embedding embedding_backward embedding_bag embedding_dense_backward
    embedding_sparse_backward empty empty_like empty_permuted empty_strided eq erf erfc erfcx erfinv exp exp2 expand
    expand_as expand_copy expm1 exponential eye fake_quantize_per_channel_affine fake_quantize_per_tensor_affine fill
    flatten flex_attention flex_attention_backward flip fliplr flipud float_power floor floor_divide fmax fmha_v3_bwd
    fmha_v3_fwd fmin fmod frac full full_like fused_add_rms_norm gather gather_backward gcd ge gelu gelu_backward
    geometric glu glu_backward grid_sampler grid_sampler_2d grid_sampler_2d_backward group_norm grouped_gemm gt
    hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward hash_tensor
    heaviside histc huber_loss huber_loss_backward hypot i0 igamma igammac im2col imag index index_add index_copy
    index_fill index_put index_reduce index_select index_select_backward inductor_lookup_seed inductor_random
    inductor_seeds inner instance_norm iota isfinite isin isinf isnan isneginf isposinf kl_div kthvalue l1_loss
    layer_norm lcm ldexp le leaky_relu leaky_relu_backward lerp lgamma linalg_cross linalg_norm linalg_vector_norm
    linear linear_backward linspace log log10 log1p log2 log_normal log_sigmoid log_sigmoid_backward
    log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor
    logit logit_backward logspace logsumexp lt masked_fill masked_scatter masked_scatter_backward
    masked_select_backward matmul max max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d
    max_unpool3d maximum mean median meshgrid min minimum miopen_batch_norm miopen_batch_norm_backward mish
    mish_backward mm moe_forward moe_forward_shared movedim mse_loss mse_loss_backward mul multinomial mv nan_to_num
    nanmean nansum narrow_copy native_batch_norm native_batch_norm_backward native_channel_shuffle native_dropout
    native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
    ne neg new_empty new_empty_strided new_full new_ones new_zeros nextafter nll_loss nll_loss2d nll_loss2d_backward
    nll_loss2d_forward nll_loss_backward nll_loss_forward nll_loss_nd nonzero nonzero_numpy norm normal_functional
    one_hot ones ones_like outer pad pad_sequence pairwise_distance per_token_group_fp8_quant permute permute_copy
    pixel_shuffle pixel_unshuffle polar polygamma pow prelu prod put quantize_per_channel quantize_per_tensor rad2deg
    rand rand_like randint randint_like randn randn_like random randperm real reciprocal reduce_scatter_tensor
    reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d
    reflection_pad3d_backward relu relu6 remainder repeat repeat_interleave replication_pad1d
    replication_pad1d_backward replication_pad2d replication_pad2d_backward replication_pad3d reshape rms_norm roll
    rotary_embedding round rrelu rsqrt rsub scalar_tensor scaled_dot_product_attention scaled_mm scatter scatter_add
    scatter_reduce searchsorted segment_reduce select select_backward select_scatter selu sgn sigmoid sigmoid_backward
    sign signbit silu silu_and_mul silu_backward sin sinc sinh slice slice_backward slice_scatter smooth_l1_loss
    smooth_l1_loss_backward softmax softplus softplus_backward softshrink sort split split_with_sizes
    split_with_sizes_copy sqrt square squeeze squeeze_copy stack static_scaled_fp8_quant std std_mean sub sum
    sum_to_size t t_copy take tan tanh tanh_backward threshold threshold_backward tile topk trace trace_backward
    transpose transpose_copy tril triu trunc unbind unbind_copy unflatten unfold unfold_backward unified_attention
    unified_attention_with_output uniform unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes
    unsqueeze unsqueeze_copy upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
    upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_nearest1d upsample_nearest2d
    upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d upsample_trilinear3d_backward var var_mean
    view view_as_complex view_copy wait_tensor where xlogy zero zeros zeros_like
"""


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset(VOCABULARY.split())


def is_op(word: str) -> bool:
    """Is this the name of an ATen op?"""
    return word in _vocabulary()


def split_ops(text: str) -> list[str]:
    """`_to_copy_add_native_layer_norm` -> [`_to_copy`, `add`, `native_layer_norm`]. Linear in the
    text.
    """
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
    return ops


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


def decode(name: str) -> KernelId | None:
    if not name.startswith("triton_"):
        return None
    whole = uncut(name)
    found = rx(_TRITON).fullmatch(whole)
    if found:
        return _fused(name, found["cat"], found["rest"] or "", cut=whole != name)
    spec = rx(rf"triton_(?:_(?P<spec>{_SPEC}))?").fullmatch(name)
    if not spec:
        return None
    r = Reading(name, "inductor_triton")
    r.put("triton", "op", "inductor_triton", "generated by TorchInductor", "documented")
    r.put("", "category", None, "an old Inductor name that tells neither kind", "documented")
    r.put("", "ops", None, "nor ops", "documented")
    if spec["spec"]:
        _put_spec(r, spec["spec"])
    return r.done("other", "triton (name tells no ops)")


def _fused(name: str, cat: str, rest: str, cut: bool) -> KernelId:
    r = Reading(name, "inductor_triton")
    r.put("triton", "op", "inductor_triton", "generated by TorchInductor", "documented")
    category, meaning = CATEGORIES[cat]
    r.put(cat, "category", category, meaning, "documented")
    r.note("fused", FUSED, "documented")
    text, suffix, spec = _tail(rest)
    ops = split_ops(text)
    if cut:
        ops = ops if ops and is_op(ops[-1]) else ops[:-1]  # the last word may be half an op
        r.note(text, f"the first of the ATen ops behind it: {', '.join(ops)}", "documented")
    else:
        _put_ops(r, text, ops, suffix)
    if spec:
        _put_spec(r, spec)
    return r.done(role(category, ops), _short("triton", ops, category))


def _tail(rest: str) -> tuple[str, str, str]:
    """Ops, counter and Triton 2's argument suffix of what follows `fused_`."""
    head, _, last = rest.rpartition("_")
    if rx(_SPEC).fullmatch(last) and not last.isdigit():
        spec = last
        head, _, last = head.rpartition("_")
    else:
        spec = ""
    return (head, last, spec) if last.isdigit() and len(last) < 10 else (rest, "", spec)


def _put_ops(r: Reading, text: str, ops: list[str], suffix: str) -> None:
    words = (
        "ATen ops behind it, sorted by name: the order is not that of execution"
        if ops
        else "no ops recorded"
    )
    r.put(text, "ops", ops, words, "documented")
    views = [op for op in ops if op in VIEWS]
    if views:
        r.note(text, f"views, which cost nothing: {', '.join(views)}", "documented")
    if suffix:
        r.put(
            suffix,
            "suffix",
            int(suffix),
            "a counter; not the same code in another graph",
            "documented",
        )


def _put_spec(r: Reading, spec: str) -> None:
    words = (
        "Triton 2's argument list: number, d = divisible by 16, c = equal to 1, e = divisible by 8"
    )
    r.put(spec, "arg_spec", spec, words, "documented")


def role(category: str, ops: list[str]) -> str:
    """What the kernel does, as far as kind and op list tell. A list with both norm and softmax
    stays a reduction.
    """
    found = set(ops)
    if category in ("pointwise", "foreach/combo"):
        return "pointwise"
    if category == "template":
        return _template_role(ops)
    norm = bool(found & NORMS) or {"mean", "pow", "rsqrt"} <= found
    soft = bool(found & SOFTMAXES)
    if norm != soft:
        return "normalization" if norm else "softmax"
    return "reduction" if category != "unknown" or found & REDUCTIONS else "other"


def _template_role(ops: list[str]) -> str:
    if any("attention" in op for op in ops):
        return "attention"
    if any(op.startswith(("convolution", "_convolution")) for op in ops):
        return "conv"
    return "gemm" if any(op in PRODUCTS for op in ops) else "other"


def _short(backend: str, ops: list[str], category: str) -> str:
    work = [op for op in ops if op not in VIEWS] or ops
    shown = work[:1]
    for op in work[1:]:
        if len("+".join([*shown, op])) > 32:
            break
        shown.append(op)
    more = f"+{len(work) - len(shown)} more" if len(work) > len(shown) else ""
    return f"{backend} {'+'.join(shown) or category}{more}"


def decode_cpp(name: str) -> KernelId | None:
    found = rx(r"(?:graph_(?P<graph>\d{1,6})_)?cpp_fused(?:_(?P<rest>\w*))?").fullmatch(name)
    if not found:
        return None
    r = Reading(name, "inductor_cpp")
    if found["graph"]:
        r.note("graph", "a graph of the program, by number", "documented")
        r.put(found["graph"], "graph", int(found["graph"]), "number of the graph", "documented")
    r.put(
        "cpp", "op", "inductor_cpp", "C++ generated by TorchInductor, runs on the CPU", "documented"
    )
    r.note("fused", FUSED, "documented")
    text, suffix, _ = _tail(found["rest"] or "")
    ops = split_ops(text)
    _put_ops(r, text, ops, suffix)
    reduces = set(ops) & (NORMS | SOFTMAXES | REDUCTIONS)
    return r.done(role("reduction" if reduces else "pointwise", ops), _short("cpp", ops, "fused"))


def decode_other(name: str) -> KernelId | None:
    found = rx(_OTHER).fullmatch(name)
    ops = split_ops(found[2].removeprefix("fused_")) if found and found[2] else []
    if not found or (found[2] and not found[2].startswith("fused_")):
        return None
    r = Reading(name, "inductor_backend")
    r.put(found[1], "op", found[1], "a TorchInductor backend other than Triton", "documented")
    if found[2]:
        r.note("fused", FUSED, "documented")
        _put_ops(r, found[2].removeprefix("fused_"), ops, "")
    return r.done(
        "pointwise" if found[1] == "pallas" else _template_role(ops) if ops else "gemm",
        _short(found[1], ops, ""),
    )


FAMILIES = (
    Family(
        name="inductor_triton",
        decode=decode,
        order=10,
        examples={
            "triton_poi_fused__unsafe_view_gelu_mul_0": {
                "category": "pointwise",
                "ops": ["_unsafe_view", "gelu", "mul"],
                "suffix": 0,
            },
            "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_12": {
                "category": "reduction",
                "ops": ["_to_copy", "add", "mean", "mul", "pow", "rsqrt"],
                "suffix": 12,
            },
            "triton_per_fused__log_softmax_nll_loss_forward_3": {
                "ops": ["_log_softmax", "nll_loss_forward"]
            },
            "triton__0d1d2de": {"category": None, "ops": None, "arg_spec": "0d1d2de"},
        },
    ),
    Family(
        name="inductor_cpp",
        decode=decode_cpp,
        order=10,
        examples={"cpp_fused_add_relu_3": {"ops": ["add", "relu"], "suffix": 3}},
    ),
    Family(
        name="inductor_backend",
        decode=decode_other,
        order=10,
        examples={"cutlass_fused_addmm_relu_4f2a91bc": {"op": "cutlass", "ops": ["addmm", "relu"]}},
    ),
)
