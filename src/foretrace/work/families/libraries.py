"""Other libraries: Apex, FBGEMM, bitsandbytes, Mamba, CUB and its relatives, literal names; and
those of serving engines: TensorRT-LLM, vLLM and SGLang, DeepGEMM.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile

from msgspec.structs import replace

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import (
    PAIR,
    TRIPLE,
    arch_meaning,
    by_spelling,
    is_cut,
    joined,
    one_of,
    row_for,
    rows,
    rx,
    word_set,
)
from foretrace.work.families._parser import (
    NameParser,
    family,
    library,
    literal,
    plain_kernel,
    role_by_words,
)
from foretrace.work.kernel import KernelId

# Apex: multi-tensor optimizers without ATen's namespace, and its layer norm.
#
# Names:
#
#     multi_tensor_apply_kernel<TensorListMetadata<lists>, <Functor><T, …>, …>

_NORMS = (
    r"^(?:void )?cu(?:ApplyLayerNorm|ApplyRMSNorm|ComputePartGradGammaBeta|ComputeGradGammaBeta"
    r"|ComputeGradInput)\w*<"
)


@family("apex", 42, "functor lists dtype lib", hint=rf"multi_tensor_apply_kernel<|{_NORMS}")
def _decode_apex(r: NameParser) -> KernelId | None:
    if "multi_tensor" not in r[0]:
        return replace(literal(r, "Apex"), role="normalization")
    if r.cpp.scope or "TensorListMetadata" not in r.arg(0):
        return None
    lists = (_cpp.inside(r.arg(0), "TensorListMetadata") or ("",))[-1]
    r.put("TensorListMetadata", "lists", _cpp.integer(lists))
    functor = _cpp.leaf(r.arg(1))
    r.put(functor, "functor", functor, "the function applied to the lists")
    r.read(_cpp.nth(_cpp.inside(r.arg(1), functor), 0), "dtype")
    word = functor.removesuffix("Functor")
    return r.done("reduction" if "Norm" in word else "optimizer", f"apex {word} {{dtype}}")


# FBGEMM: embedding tables, jagged tensors, quantization. Names are literal.

_UNSCOPED = (
    r"(?:split_embedding|dense_embedding|bounds_check_indices|linearize_index"
    r"|permute_pooled_embs)\w*"
)


@family("fbgemm", 39, "op weighted step", hint=rf"fbgemm_gpu::|^(?:void )?{_UNSCOPED}")
def _decode_fbgemm(r: NameParser) -> KernelId | None:
    if not r.cpp.scope.startswith("fbgemm_gpu") and not rx(_UNSCOPED).match(r.base):
        return None
    plain = plain_kernel(r.base)
    role, short = r.row("fbgemm") or (role_by_words(r.base), plain)
    if found := rx(r"_(un)?weighted(?:_kernel)?(?:_([a-z_]{1,60}?))?(?:_\d)?$").search(r.base):
        words = "each row has a weight | rows have no weights"
        r.put(found[0], "weighted", not found[1], words)
        r.put(found[2] or "", "step", (found[2] or "").replace("_", " "), "{}")
    if r.base.startswith("permute_"):
        r.put(r.base, "op", "jagged permute", "reorders the rows of a jagged tensor")
    else:
        r.note(r.base, f"the name is literal: {plain}")
    return r.done(role, "", short or plain)


# bitsandbytes: 4-bit and 8-bit quantization, matmuls with 4-bit weights, 8-bit optimizers.
#
#     kQuantizeBlockwise<T, block, per_thread, stochastic, format>
#     kDequantizeBlockwise<T, tile, threads, per_thread, format>
#     kgemm_4bit_inference_naive<T, threads, bits>
#     gemm_4bit_(simt|sm75_m16n8k8|sm80_m16n8k16)<T, …>
#     kOptimizer32bit(1|2)State<T, optimizer>
#     kOptimizerStatic8bit(1|2)StateBlockwise<T, optimizer, block, per_thread>
#
# The format is 0 (8-bit, by a code book), 1 (FP4) or 2 (NF4); the optimizer is a number too.

FORMATS = ("8-bit", "fp4", "nf4")
OPTIMIZERS = ("Adam", "momentum SGD", "RMSprop", "LARS", "Adagrad", "Lion", "AdEMAMix")


@family(
    "bitsandbytes",
    38,
    "op lib dtype format block optimizer arch mma",
    "documented",
    hint=r"^(?:void )?(?:k[A-Z]\w+|kgemm_4bit\w+|gemm_4bit\w+|kdequant_mm\w+)<",
)
def _decode_bitsandbytes(r: NameParser) -> KernelId | None:
    row = r.row("bitsandbytes")
    if not row:
        return None
    role, op, short, meaning = row
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "lib", "bitsandbytes")
    if chip := rx(r"(sm\d\d)_m(\d+)n(\d+)k(\d+)").search(r.base):
        r.put(chip[1], "arch", chip[1], "written for {}; it may run on a newer card")
        r.put(chip[0], "mma", [int(size) for size in chip.groups()[1:]])
    dtype = r.read(r.arg(0), "dtype")
    if op == "optimizer":
        known = one_of(OPTIMIZERS, _cpp.integer(r.arg(1)))
        r.put(r.arg(1), "optimizer", known, "the optimizer: {}")
        return r.done(role, "bnb", short, known or "optimizer", dtype)
    return r.done(role, "bnb", short, dtype, _format(r, op))


def _format(r: NameParser, op: str) -> str:
    """The format is the last argument of the block-wise kernels."""
    if not r.base.startswith(("kQuantizeBlockwise", "kDequantizeBlockwise")):
        return ""
    text = r.arg(2 if r.base.endswith("Small") else 4)
    last = len(r.cpp.args) == (3 if r.base.endswith("Small") else 5)
    known = one_of(FORMATS, _cpp.integer(text) if last else None)
    if not known:
        return ""
    r.put(text, "format", known, "the format of fewer bits: {}")
    if op == "quantize":
        r.read(r.arg(1), "block")
    return f"{'->' if op == 'quantize' else '<-'} {known}"


# Mamba's state-space kernels: the selective scan of Mamba 1 and the chunked scan of Mamba 2.
#
#     selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<threads, items, rows, even_len,
#         variable_b, variable_c, has_z, [varlen,] T, T of the weight[, T of the state]>>
#     selective_scan_bwd_kernel<Selective_Scan_bwd_kernel_traits<threads, items, even_len,
#         variable_b, variable_c, delta_softplus, has_z, T, T of the weight>>
#     _selective_scan_update_kernel, _chunk_scan_fwd_kernel, _chunk_state_bwd_dx_kernel,
#     _state_passing_fwd_kernel, _bmm_chunk_fwd_kernel, …
#
# The Triton names are the functions of mamba_ssm, which vLLM and SGLang copied. `items` steps per
# thread and `threads` make the chunk that one block scans at a time.
#
# causal-conv1d: the short convolution along the sequence in Mamba and its kin; CUDA and Triton.
#
#     causal_conv1d_[channellast_]<fwd|bwd>_kernel<Causal_conv1d_…_kernel_traits<threads, width,
#         [chunk,] [silu,] vec_load, T, T of the weight>, …>
#     causal_conv1d_update_kernel<Causal_conv1d_update_kernel_traits<threads, width, T, T of the
#         weight>, …>
#     _causal_conv1d_<fwd|update>_kernel[_npu_tiled]
#
# `update` is one step of decoding. The width is that of the filter.


@family(
    "selective_scan",
    38,
    """
        op lib function threads items dtype_in dtype_weight dtype_state even_len variable_b
        variable_c has_z varlen delta_softplus
    """,
    "documented",
    hint="selective_scan_|_kernel",
)
def _scan(r: NameParser) -> KernelId | None:
    if row := row_for("mamba", rx(r"_\d{1,3}$").sub("", r.name[:80])):
        role, op, short = row
        r.put(r.name, "op", op, f"a step of Mamba's chunked scan: {short}")
        r.put(r.name, "lib", "mamba_ssm", "mamba_ssm defines a Triton function of this name")
        r.put(r.name, "function", r.name.strip("_").removesuffix("_kernel"), "the Triton function")
        return r.done(role, short)
    found = rx(r"selective_scan_(fwd|bwd)_kernel").fullmatch(r.base)
    if not found or not r.arg(0).startswith("Selective_Scan"):
        return None
    way = found[1]
    words = f"Mamba's selective scan, {'forward' if way == 'fwd' else 'backward'}"
    r.put(r.base, "op", f"selective_scan_{way}", words)
    r.put(r.base, "lib", "mamba_ssm", "mamba_ssm, or a copy of it")
    args = _cpp.inside(r.arg(0), _cpp.leaf(r.arg(0)))
    r.read_all(args, "threads items")
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if types or not r.cpp.truncated:  # all flags stand in front of the types
        r.flags(args, f"selective_scan_{way}")
    r.read_all(types, "dtype_in dtype_weight dtype_state")
    gated = "gated" if r.get("has_z") else ""
    return r.done("scan", f"selective scan {way} {{dtype_in}}", gated)


_CAUSAL = r"causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel"
_CAUSAL_TRITON = rf"_{_CAUSAL}\w{{0,40}}"
WAYS = {
    "fwd": "causal convolution along the sequence, forward",
    "bwd": "causal convolution along the sequence, backward",
    "update": "causal convolution, one step of decoding",
}


@family(
    "causal_conv1d",
    38,
    "op lib channels_last threads width silu dtype_in dtype_weight",
    "documented",
    hint="causal_conv1d",
)
def _conv1d(r: NameParser) -> KernelId | None:
    args, way = r.cpp.args, rx(_CAUSAL if r.cpp.args or r.cpp.params else _CAUSAL_TRITON)
    r.found = way.fullmatch(r.base)
    if not r.found or (args and not args[0].startswith("Causal_conv1d")):
        return None
    r.put(r.base, "op", f"causal_conv1d_{r['way']}", WAYS[r["way"]])
    r.put(r.base, "lib", "causal-conv1d", "causal-conv1d, or a copy of it")
    if args:
        words = "channels are the last dimension | channels come before time"
        r.put(r.base, "channels_last", bool(r["last"]), words)
        _conv1d_traits(r, _cpp.inside(args[0], _cpp.leaf(args[0])))
    width = f"width {r.get('width')}" if r.get("width") else ""
    return r.done("conv", f"causal conv1d {r['way']} {{dtype_in}}", width)


def _conv1d_traits(r: NameParser, args: tuple[str, ...]) -> None:
    r.read_all(args, "threads width")
    flags = [text for text in args if _cpp.boolean(text) is not None]
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if len(flags) == 2 and r["way"] == "bwd":
        r.read(flags[0], "silu")
    if len(types) == 2:
        r.read_all(types, "dtype_in dtype_weight")


# Device-wide primitives: CUB (PyTorch's copy is `at_cuda_detail::cub`), rocPRIM, Thrust.

_STEP = (
    r"Device(?:Segmented)?(?:RadixSort|MergeSort|ScanByKey|Scan|ReduceByKey|Reduce|UniqueByKey|Select)"
    r"(?!ByKey)(\w+?)Kernel"
)


@family("cub", 33, "op template step", "documented", hint=r"\b(?:hip)?cub::")
def _decode_cub(r: NameParser) -> KernelId | None:
    if not rx(r"(?:^|::)(?:hip)?cub(?:::|$)").search(r.cpp.scope):
        return None
    r.put("cub", "template", "cub", "a primitive of CUB")
    row = r.row("cub")
    if not row:
        return r.done("other", "cub", r.base.removesuffix("Kernel"))
    role, op, short = row
    r.put(r.base, "op", f"cub {op}", "what the primitive does")
    if step := rx(_STEP).fullmatch(r.base):
        r.put(step[1], "step", step[1].lower(), "the step of the primitive: {}")
    return r.done(role, short, _types(r.cpp))


def _types(cpp: _cpp.Cpp) -> str | None:
    """Key and value types of a sort, element type of a scan, in words."""
    if cpp.base.startswith("DeviceRadixSort"):
        policy = _cpp.inside(cpp.arg(0), "DeviceRadixSortPolicy")
        key, value = (_cpp.dtype(text) for text in policy[:2]) if len(policy) > 2 else (None, None)
        return f"({key} keys, {value} values)" if key and value else ""
    if cpp.base.startswith("DeviceScanKernel"):
        return _cpp.dtype(next((text for text in cpp.args if text.endswith("*")), ""))
    return ""


def _primitive(library: str, r: NameParser) -> KernelId:
    """rocPRIM and Thrust have one entry function: the template's arguments are searched too."""
    r.put(library, "template", library, "a device-wide primitive")
    text = f"{r.base} {r.arg(0)} {r.arg(2)[:200]}"
    role, word = next((row for row in rows("primitives") if row[1] in text), ("other", ""))
    short = f"{library} {word.replace('_', ' ')}".strip()
    r.put(word, "op", word and short, "what the primitive does", "inferred")
    return r.done(role, short)


# Libraries whose names are literal: cuSPARSE (sparse matrices), DeepEP (dispatch and combine of
# expert parallelism), Transformer Engine (norms, rope, casts; its matmuls have cuBLASLt's own
# names).

FAMILIES = (
    *(
        family(lib, 33, "op", "documented", hint=rf"^(?:void )?{lib}::")(partial(_primitive, lib))
        for lib in ("rocprim", "thrust")
    ),
    library("cusparse", "cuSPARSE", states="lib dtype"),
    library("deep_ep", "DeepEP", states="lib"),
    library("transformer_engine", "Transformer Engine", states="lib"),
)


# TensorRT-LLM's kernels, which FlashInfer and vLLM launch too: attention, matmuls, MoE.
#
# Names:
#
#     fmhaSm100aKernel_Qkv<T>O<T>H<D>PagedKv<mask>P<page>[VarSeq]Q<q>Kv<k>(Persistent|Static)
#         (Context|…ForGen)
#     bmm_<out>_<A><B>_<acc>_t<M>x<N>x<K>[u<unroll>]_s<stages>_et<…>_m<…>_(c|cga)<…>_…_<layout>
#         _[transOut]_…_sm<arch>

LIB = "TensorRT-LLM / FlashInfer trtllm-gen"
TYPES_TRTLLM = by_spelling("trtllm_types")
_PHASE = r"Context|(?:Swaps|Keeps)(?:AbForGen|MmaAbForGeneration)"
_TYPE = "MxE4m3|MxE2m1|MxE5m2|E4m3|E5m2|E2m1|Bfloat16|Fp16|Fp32|Int8"
_FMHA = (
    rf"fmha(?P<arch>Sm\d{{2,3}})[a-z]?Kernel_Qkv(?P<qkv>{_TYPE})O(?P<out>{_TYPE})"
    r"(?:(?P<head_dim>H\d{1,4})(?=[A-Z]|$))?(?P<rest>[A-Za-z0-9_]*)"
)
_BMM = (
    rf"(?P<kind>bmm|gemm)_(?P<out>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})?_(?P<acc>{_TYPE})"
    rf"(?:_b[A-Z]\d{{1,3}})*_(?P<tile>t{TRIPLE})(?P<unroll>u\d{{1,3}})?"
    rf"(?:_(?P<stages>s\d{{1,3}}))?(?:_et(?P<epilogue_tile>{PAIR}))?(?:_m(?P<mma>{TRIPLE}))?"
    rf"(?:_c(?:ga)?(?P<cluster>{TRIPLE}))?(?P<rest>\w*)(?:\(|$)"
)
GEMM_TYPES_TRTLLM = {"out": "dtype_out", "a": "dtype_a", "b": "dtype_b", "acc": "dtype_acc"}


@family("trtllm_fmha", 12, "head_dim mask page_size tile_q persistent phase", hint=f"^{_FMHA}")
def _decode_fmha(r: NameParser) -> KernelId:
    r.put("fmha", "op", "attention", "fused attention")
    r.put("fmha", "lib", LIB, "generated by TensorRT-LLM")
    r.put_arch(r["arch"])
    r.put(r["qkv"], "dtype_qkv", TYPES_TRTLLM[r["qkv"]], "type of Q, K and V: {}")
    r.put(r["out"], "dtype_out", TYPES_TRTLLM[r["out"]])
    r.groups("head_dim")
    rest = r["rest"].rstrip("0123456789") if is_cut(r.name) else r["rest"]
    r.read("PagedKv" if rest.startswith("PagedKv") else "", "paged_kv")
    mask = rx(r"(SlidingOrChunked(?=Causal))?(Causal|Dense|Custom)(P\d{1,5})?").search(rest)
    if mask:
        kind = joined("sliding-or-chunked" if mask[1] else "", mask[2].lower())
        r.put((mask[1] or "") + mask[2], "mask", kind)
        r.read(mask[3] or "", "page_size")
    r.read("VarSeq" if "VarSeq" in rest else "", "varlen")
    if tiles := rx(r"(Q\d{1,4})(Kv\d{1,4})").search(rest):
        r.read_all(tiles.groups(), "tile_q tile_kv")
    if stays := rx(r"Persistent|Static").search(rest):
        words = "blocks take tiles until none is left | one tile per block"
        r.put(stays[0], "persistent", stays[0] == "Persistent", words)
    if pass_ := rx(rf"(?:{_PHASE})$").search(rest):
        words = "context (prefill)" if pass_[0] == "Context" else "generation (decode)"
        r.put(pass_[0], "phase", words, words)
    phase = r.get("phase").partition(" ")[0]
    return r.done("attention", f"trtllm fmha {phase} {{dtype_qkv}} {{arch}}")


@family("trtllm_gemm", 12, "dtype_a tile stages cluster layout", hint="^(?:bmm|gemm)_", head=_BMM)
def _decode_gemm(r: NameParser) -> KernelId:
    op = "batched/grouped gemm (MoE)" if r["kind"] == "bmm" else "gemm"
    r.put(r["kind"], "op", op, f"a matmul{', one per expert' * (op != 'gemm')}")
    r.put(r["kind"], "lib", LIB, "generated by TensorRT-LLM")
    for key, field in GEMM_TYPES_TRTLLM.items():
        text = r[key] or r["a"]
        r.put(text, field, TYPES_TRTLLM[text])
    # the operands are swapped where the result is written transposed
    r.put_tile(r["tile"], row_major="_transOut" not in r["rest"])
    r.groups("unroll stages epilogue_tile mma cluster")
    epilogue: list[str] = []
    for word in r["rest"].strip("_").split("_"):
        if end := row_for("trtllm_ends", word):
            epilogue += end
            r.put(word, "epilogue", epilogue, f"{end[0]} at the end")
        elif rx(r"[NT]{2}").fullmatch(word):
            r.put_layout(word, word.lower())
        elif word == "transOut":
            r.put(word, "trans_out", True, "the result is written transposed")
        elif rx(r"sm\d{2,3}[a-z]?").fullmatch(word):
            r.put_arch(word)
    kind = r["kind"].replace("gemm", "GEMM")
    return r.done("gemm", f"trtllm {kind} {{tile}} {{dtype_a}}")


_TENSORRT = r"^(?:void )?(?:tensorrt_llm::|moe::dev::)"


@family("trtllm_quant", 36, "dtype_in block", hint=_TENSORRT)
def _quantize(r: NameParser) -> KernelId | None:
    if not r.base.startswith("quantize_with_block_size"):
        return None
    r.put(r.base, "op", "quantize", "converts to fewer bits, one scale per block")
    r.read(r.arg(1), "dtype_in", "reads {}")
    r.read(r.arg(2), "block")
    bits = {"0": "fp4", "1": "fp4", "2": "mxfp8"}.get(r.arg(0)[-1:], "fewer bits")
    return r.done("pointwise", f"block quantize {{dtype_in}}->{bits}")


@family("trtllm_kernels", 37, "", hint=_TENSORRT)
def _literal_trtllm(r: NameParser) -> KernelId:
    """`tensorrt_llm::kernels::…` and `moe::dev::…`."""
    plain = plain_kernel(r.base)
    r.note(r.base, f"the name is literal: {plain}")
    role = "scatter_gather" if "moe::dev" in r.cpp.scope else role_by_words(r.base)
    return r.done(role, "trtllm", plain)


# vLLM's CUDA and HIP kernels, and SGLang's, which began as copies. Names are literal.
#
#     vllm::act_and_mul_kernel<T, &vllm::silu_kernel<T>, act_first>
#     vllm::paged_attention_v1_kernel<T, T of the cache, head_dim, page_size, threads, …>
#     vllm::paged_attention_v2_kernel<…the same…, partition>
#     vllm::paged_attention_v2_reduce_kernel<T, head_dim, threads, partition>
#
# Paged attention gets half data as `unsigned short`.

# SGLang's names without a namespace of their own.
UNSCOPED = word_set("""
    rotary_embedding store_kvcache clamp_position resolve_future_token_ids
    cross_device_reduce_1stage cross_device_reduce_2stage act_and_mul moe_align_block_size
""")
_ACTIVATION = r"(?<!\w)((?:\w+::)?(\w+?)_kernel)<"
_SCOPES = ("vllm", "sglang", "marlin", "marlin_moe_wna16", "sgl_hip", "sgl", "device")


@family(
    "vllm_cuda",
    55,
    "op dtype neox dtype_in dtype_cache activation act_first head_dim page_size",
    hint=r"vllm::|marlin|sgl|::type |_kernel|kvcache|^_Z",
)
def _decode_vllm(r: NameParser) -> KernelId | None:
    if _cpp.is_mangled(r.name):
        words = _cpp.identifiers(r.name)
        if not words or words[0] not in _SCOPES:
            return None
        base = next((word for word in words[1:] if word.endswith("kernel")), words[-1])
        r.put("_Z", "mangled", True, certainty="documented")
        function = base.removesuffix("_kernel")
        role, op, short = row_for("vllm", function) or (role_by_words(base), "", plain_kernel(base))
        r.put(base, "op", op, "the name is literal")
        return r.done(role, "", short.replace("{}", "").strip())
    function = r.base.removesuffix("_kernel")
    scoped = r.cpp.scope.split("::")[0] in _SCOPES
    if "(" not in r.name or not (scoped or (function in UNSCOPED and not r.cpp.scope)):
        return None
    if function.startswith("reshape_and_cache") or function == "concat_and_cache_mla":
        r.put(r.base, "op", "kv_cache_write", "writes keys and values into the paged cache")
        r.read(r.arg(0), "dtype_in", "reads {}")
        if cache := rx(r"Fp8KVCacheDataType\)(\d)").search(r.arg(2)):
            held = _cpp.dtype(r.arg(1)) if cache[1] == "0" else "fp8"
            r.put(r.arg(2), "dtype_cache", held, "the cache holds {}")
        return r.done("scatter_gather", "kv cache write")
    if "quant" in function and "norm" not in function:
        r.put(r.base, "op", "quantize", "converts to fewer bits")
        source, target = map(_cpp.dtype, r.cpp.args[:2] if len(r.cpp.args) > 1 else ("", ""))
        r.put(r.arg(0), "dtype_in", source, "reads {}")
        if target in ("e4m3", "e5m2", "i8", "e4m3fnuz"):
            r.put(r.arg(1), "dtype_out", target, "writes {}")
        kind = "fp8" if target or "fp8" in r.base else "fewer bits"
        kind = "int8" if target == "i8" or "int8" in r.base else kind
        return r.done("pointwise", f"quantize {source or ''}->{kind}")
    plain = plain_kernel(r.base)
    role, op, short = row_for("vllm", function) or (role_by_words(r.base), "", plain + " {}")
    r.put(r.base, "op", op, "the name is literal")
    if not op:
        r.note(r.base, f"the name is literal: {plain}")
    dtype = _cpp.dtype(r.arg(0))
    if dtype == "u16" and function.startswith("paged_attention_v"):
        dtype = "f16"  # vLLM passes half as 16-bit words, bfloat16 as itself
    r.put(r.arg(0), "dtype", dtype if "{}" in short else "")
    if function == "rotary_embedding":
        r.put(r.arg(1), "neox", _cpp.boolean(r.arg(1)))
    if function.startswith("paged_attention_v"):
        numbers = [text for text in r.cpp.args if _cpp.integer(text) is not None]
        r.read_all(numbers, "head_dim" if function.endswith("_reduce") else "head_dim page_size")
        short += f" hd{r.get('head_dim')}" if r.get("head_dim") else ""
    elif "act" in function:
        short = _activation(r, short)
    return r.done(role, "", short.replace("{}", dtype or "").strip())  # the name's own braces stay


def _activation(r: NameParser, short: str) -> str:
    """The function that the template gets: `&vllm::silu_kernel<T>`; the short name with it."""
    found = next(filter(None, (rx(_ACTIVATION).search(text) for text in r.cpp.args[1:])), None)
    if not found:
        return short
    r.put(found[1], "activation", found[2])
    first = _cpp.boolean(r.arg(2)) if len(r.cpp.args) == 3 else None
    if "and_mul" not in short or first is None:
        return short.replace("act_and_mul", f"{found[2]}_and_mul").replace("activation", found[2])
    r.put(r.arg(2), "act_first", first)
    both = f"{found[2]}_and_mul" if first else f"mul_and_{found[2]}"
    return short.replace("act_and_mul", both)


# DeepGEMM: matmuls in fp8 and bf16 with block scales, compiled for one shape.
#
#     deep_gemm::sm90_fp8_gemm_1d2d_impl<[major,] M, N, K, groups, BM, BN, BK, …, type, …>
#     deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<major, major[, granularity of A, of B[, alignment]],
#         M, N, K, BM, BN, BK, groups, …, type, …, A, B, C, epilogue>
#     deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<N, K, BM, BN, BK, splits, …>
#     deep_gemm::sm90_fp8_mqa_logits<heads, head_dim, …>
#
# A size of 0 is passed when the kernel runs. `1d2d`: A has one scale per row and 128 along K, B one
# per 128 x 128; `1d1d`: both have one per row. Versions differ in the number of template arguments;
# where the number is not one that is known, only what stands in front is read.

TYPES_DEEP_GEMM = {"fp8": "e4m3", "bf16": "bf16", "tf32": "tf32"}
GEMM_TYPES_DEEP_GEMM = (
    "normal",
    "groups along M, contiguous",
    "groups along M, masked",
    "groups along K, contiguous",
    "batched",
    "groups along M, contiguous, by prefix sums",
    "groups along K, contiguous, by prefix sums",
)
RECIPES = {
    "1d2d": "one scale per row and 128 along K for A, one per 128 x 128 for B",
    "1d1d": "one scale per row and slice of K for A and B",
}
_GEMM_DEEP_GEMM = (
    r"(?P<arch>sm\d{2,3})_(?P<type>fp8_fp4|fp8|bf16)_gemm(?:_(?P<recipe>1d1d|1d2d))?_impl"
)
_PRENORM = r"(?P<arch>sm\d{2,3})_(?P<type>tf32)_hc_prenorm_gemm_impl"
_LOGITS = r"(?P<arch>sm\d{2,3})_(?P<type>fp8|fp4|fp8_fp4)_(?P<paged>paged_)?mqa_logits\w*"
# numbers in front of the first flag -> numbers in front of M, for the kernels of sm100 and later
_SM100 = {14: 0, 15: 0, 16: 2, 17: 3}


@family(
    "deep_gemm",
    34,
    """
        lib op arch recipe shape_n shape_k tile groups grouping dtype_in dtype_a dtype_b splits
        math_dtype heads head_dim
    """,
    "documented",
    hint="deep_gemm::",
)
def _decode_deep_gemm(r: NameParser) -> KernelId | None:
    if r.cpp.scope.split("::")[0] != "deep_gemm":
        return None
    for pattern, read in ((_GEMM_DEEP_GEMM, _gemm), (_PRENORM, _prenorm), (_LOGITS, _logits)):
        if found := rx(pattern).fullmatch(r.base):
            r.found = found
            r.put("deep_gemm", "lib", "DeepGEMM")
            return read(r)
    return literal(r, "DeepGEMM")


def _op(r: NameParser, op: str, meaning: str) -> None:
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "arch", r["arch"], arch_meaning(r["arch"]))


def _gemm(r: NameParser) -> KernelId:
    _op(r, "gemm", "a matmul")
    r.put(r.base, "tensor_core", True)
    r.put(r.base, "recipe", r["recipe"], RECIPES.get(r["recipe"], "-"))
    args = tuple(text for text in r.cpp.args if "UMMA::Major" not in text)
    numbers = list(takewhile(lambda text: _cpp.integer(text) is not None, args))
    ended = len(numbers) < len(args)
    old = r["arch"] == "sm90"
    start = 0 if old else _SM100.get(len(numbers), -1) if ended else -1
    if start >= 0:
        # M, N, K, then groups and tile, or tile and groups. A cut name may have lost its last.
        texts = numbers[start:]
        sizes = [_cpp.integer(text) or 0 for text in texts]
        for text, size, letter in zip(texts[1:3], sizes[1:3], "nk", strict=False):
            meaning = f"{letter.upper()} = {{}}, fixed when compiled"
            r.put(text, f"shape_{letter}", size or None, meaning)
        if ended and len(sizes) >= 7:
            at, place = (4, 3) if old else (3, 6)
            r.put_tile(", ".join(texts[at : at + 3]), tile=sizes[at : at + 3], row_major=True)
            r.put(texts[place], "groups", sizes[place], "number of groups, such as experts")
    types = [text for text in args if _cpp.dtype(text)]
    if len(types) == 3:  # A, B and the result
        r.read(types[0], "dtype_a", "type of A (the activation): {}")
        r.read(types[1], "dtype_b", "type of B (the weight): {}")
        r.read(types[2], "dtype_out")
    elif r["type"] in TYPES_DEEP_GEMM:
        r.put(r.base, "dtype_in", TYPES_DEEP_GEMM[r["type"]], "type of both inputs: {}")
    grouping = next((text for text in args if "GemmType)" in text), "")
    number = _cpp.integer(grouping[-1:])
    r.put(grouping, "grouping", one_of(GEMM_TYPES_DEEP_GEMM, number), "{}")
    group = "batched" if number == 4 else "grouped" if number else ""
    dtype = "{dtype_in}" if r.get("dtype_in") else "{dtype_a}"
    return r.done("gemm", f"DeepGEMM {group} {{arch}} {{tile}} {dtype} {{recipe}}")


def _prenorm(r: NameParser) -> KernelId:
    _op(r, "gemm", "a matmul with the sum of squares that the norm before it needs")
    sizes = [_cpp.integer(text) or 0 for text in r.cpp.args]
    if len(sizes) >= 6:
        r.put_tile(", ".join(r.cpp.args[2:5]), tile=sizes[2:5], row_major=True)
        r.put(r.arg(5), "splits", sizes[5])
    r.put(r.base, "math_dtype", "tf32", "multiplied as {}")
    return r.done("gemm", "DeepGEMM prenorm {arch} {tile} tf32")


def _logits(r: NameParser) -> KernelId:
    _op(r, "mqa_logits", "scores of all keys for sparse attention: which keys to attend to")
    args = r.cpp.args[1:3] if r["paged"] else r.cpp.args[:2]
    r.read_all(args if len(args) == 2 else (), "heads head_dim")
    head = f"hd{r.get('head_dim')}" if r.get("head_dim") else ""
    return r.done("attention", f"DeepGEMM {'paged' if r['paged'] else ''} mqa logits", head)
