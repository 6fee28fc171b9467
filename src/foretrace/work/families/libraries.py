"""Other libraries: Apex, FBGEMM, bitsandbytes, Mamba, CUB and its relatives, literal names."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from foretrace.work.families import _cpp, _words
from foretrace.work.families._parser import KernelId, NameParser, family, one_of, row_for, rows, rx
from foretrace.work.families._words import library

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
        return replace(_words.literal(r, "Apex"), role="normalization")
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
    plain = _words.plain(r.base)
    role, short = r.row("fbgemm") or (_words.role(r.base), plain)
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


_CUDA = r"causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel"
_TRITON = rf"_{_CUDA}\w{{0,40}}"
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
    args, way = r.cpp.args, rx(_CUDA if r.cpp.args or r.cpp.params else _TRITON)
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
