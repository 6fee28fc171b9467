"""cuDNN: convolutions, fused attention, and what runs around them."""

from __future__ import annotations

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import TRIPLE, is_cut, row_for, rx, uncut
from foretrace.work.families._parser import NameParser, family
from foretrace.work.families.cublas import put_head, put_word, words_after
from foretrace.work.kernel import KernelId

# Convolutions of older cuDNN libraries: generation names, engine templates, Winograd, FFT.
#
#     [cudnn[_infer|_train]_]<generation>_[<out>_]<acc>[<mma>]cudnn[_<in>][_winograd]_<M>x<N>
#         [_<words>][_interior|_small|_medium|_large]_<layout>_v1
#
# Checked on a V100: `relu`, `relu_exp` and `3dconv_fprop` run forward (without a ReLU), `stridedB`
# is the input gradient, `stridedB_splitK` the weight gradient, `winograd` runs in both directions.

_TYPE = "fp16|bf16|int8|int32|tf32|fp32"
_HEAD = (
    r"(?:(?P<sublib>cudnn(?:_infer|_train|_ops|_cnn)?)_)?"
    rf"(?P<word>maxwell|pascal|volta|turing|ampere)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>[shdi])(?P<mma>\d{{1,6}})?cudnn)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)
PASSES = {"fprop": "forward", "dgrad": "input gradient", "wgrad": "weight gradient"}
STAGES = {"Data": "input", "Filter": "filter", "Output": "output", "Delta": "output gradient"}


@family(
    "cudnn_conv_legacy",
    10,
    "op splitk arch tile_mn size_class tensor_core mma dtype_in tensor_layout pass stage",
    hint=r"cudnn(?:_|$|\b)|convolve_|dgrad|wgrad|inograd|fft2d_|conv2d_|depthwise_fprop",
)
def _decode_conv(r: NameParser) -> KernelId | None:
    if found := rx(_HEAD).match(uncut(r.name)):
        r.found, r.conv = found, True
        r.read("" if r["sublib"] == "cudnn" else r["sublib"], "sublib")
        put_head(r)
        r.put(r["core"], "lib", "cudnn", "a cuDNN kernel")
        listed = words_after(r)
        loads = [word for word in listed if word.startswith("ldg")]
        unread = loads if len(loads) > 1 or "winograd" in listed else []
        for word in listed:
            if word not in unread and not r.put_word(word, "cudnn_words"):
                put_word(r, word)
        op, meaning, text = _direction(listed)
        if not is_cut(r.name):  # a name that was cut may have lost the word that tells
            r.put(text, "op", op, meaning, "checked")
        kind = (op or "conv").replace("_", " ")
        return r.done("conv", f"cudnn {kind} {{algorithm}} {{tile_mn}} {{dtype_in}}")
    if found := rx(r"winograd(Forward|Wgrad)(Data|Filter|Output|Delta)\dx\d").fullmatch(r.base):
        return _winograd(r, found[1] == "Forward", found[2])
    if found := rx(r"fft2d_(r2c|c2r)_\d+x\d\w*").fullmatch(r.base):
        stage = found[1]
        words = {"r2c": "real->complex", "c2r": "complex->real"}[stage]
        r.put(r.base, "op", "conv_fft", "a step of a convolution by Fourier transform", "checked")
        r.put(r.base, "lib", "cudnn", "a cuDNN kernel")
        r.put(r.base, "stage", stage, words)
        return r.done("conv", f"FFT conv: {words}")
    if row := r.row("cudnn_engines") if r.cpp.args else None:
        op, short = row
        r.put(r.base, "op", op, f"convolution, {PASSES.get(op[5:], 'direction not stated')}")
        r.put(r.base, "lib", "cudnn", "a cuDNN kernel")
        if _cpp.dtype(r.arg(0)) == "f32":  # the 16-bit engines do not tell
            r.put(r.base, "tensor_core", False)
        r.read(r.arg(0), "dtype_in")
        return r.done("conv", short.replace("%s", r.base[len("wgrad_alg") :][:1]))
    return None


def _direction(words: list[str]) -> tuple[str, str, str]:
    for word in PASSES:
        if word in words:
            return f"conv_{word}", f"convolution, {PASSES[word]}", word
    if "winograd" in words:
        return "conv", "convolution; the name does not tell the direction", "winograd"
    if "stridedB" in words:
        kind = "wgrad" if "splitK" in words else "dgrad"
        return f"conv_{kind}", f"convolution, {PASSES[kind]}", "stridedB"
    if "relu" in words:
        return "conv_fprop", "convolution, forward (no ReLU need have run)", "relu"
    return "", "", ""


def _winograd(r: NameParser, forward: bool, stage: str) -> KernelId:
    meaning = "a transform around the matmul of a Winograd convolution"
    r.put(r.base, "op", "conv_winograd_transform", meaning, "checked")
    r.put(r.base, "lib", "cudnn", "a cuDNN kernel", "checked")
    words = "forward; also used for input gradients" if forward else "weight gradient"
    r.put(r.base, "pass", "fprop" if forward else "wgrad", words, "checked")
    r.put(r.base, "stage", stage.lower(), f"transforms the {STAGES[stage]}", "checked")
    return r.done("conv", f"winograd {'fwd' if forward else 'wgrad'}: {STAGES[stage]} transform")


# cuDNN's fused attention and its helpers.
#
#     cudnn_generated_(fort_native|oss)_sdpa_sm<arch>_flash_(fprop|bprop)[_wgmma|_wmma]_f16
#         _knob_<k>_<q>x<kv>x<d>_<warps>[_cga<cluster>]_kernel0_0
#
# The three numbers are query tile x key/value tile x head-dimension tile. `f16` is printed for bf16
# too. An sm80 kernel runs on later cards as well.

_NAME = (
    r"cudnn_generated_(?P<generator>[a-z]+(?:_[a-z]+)*?)_sdpa_(?P<arch>sm\d{2,3}[a-z]?)_flash_"
    r"(?P<dir>fprop|bprop)(?:_(?P<mma_kind>wgmma|wmma|mma|umma))?"
    r"(?:_(?P<dtype>[a-z]+\d+(?:m\d)?))?(?:_(?P<knob>knob_\d{1,4}))?"
    rf"(?:_(?P<tile>{TRIPLE}))?(?:_(?P<warps>{TRIPLE}))?(?:_(?P<cluster>cga{TRIPLE}))?(?=_|$)"
)


@family(
    "cudnn_sdpa", 13, "op arch tile warps mma_kind knob cluster", hint="cudnn_generated", head=_NAME
)
def _decode_sdpa(r: NameParser) -> KernelId:
    way = "fwd" if r["dir"] == "fprop" else "bwd"
    r.put("cudnn_generated", "lib", "cudnn", "generated by cuDNN at run time")
    r.groups("generator")
    r.note("sdpa", "scaled dot-product attention")
    r.put_arch(r["arch"])
    words = f"fused attention, {'forward' if way == 'fwd' else 'backward'}"
    r.put(f"flash_{r['dir']}", "op", f"sdpa_{way}", words)
    r.groups("mma_kind")
    if r["dtype"] == "f16":
        kind = "16-bit float (f16 or bf16)"
        r.put(r["dtype"], "dtype_class", kind, "{}: the name does not tell which", "checked")
    r.groups("knob", "unknown")
    r.read(r["tile"], "tile", "query rows x key/value rows x head dimension per block")
    r.read(r["warps"], "warps", "how the warps share the tile")
    r.groups("cluster")
    return r.done("attention", f"cudnn sdpa {way} {{tile}} {{arch}}")


@family("cudnn_sdpa_aux", 30, "head_dim op", hint="cudnn::fusion::")
def _decode_aux_sdpa(r: NameParser) -> KernelId | None:
    row = r.row("cudnn_sdpa_aux")
    if not row:
        return None
    op, short, meaning = row
    r.put(r.base, "op", op, f"attention backward: {meaning}")
    r.put("cudnn", "lib", "cudnn", "a cuDNN kernel")
    if r.base.startswith("compute_dot_do_o"):
        r.put(r.arg(1), "head_dim", _cpp.integer(r.arg(1)) or None)
    return r.done("attention", short)


# cuDNN around convolutions: layout changes, index tables, batch norm, fused graphs, RNN steps.
#
# `nchwToNhwcKernel` next to a convolution is a sign that the model is not in channels_last.
# `cudnn_generated_…` names that are not attention list the graph that cuDNN fused at run time.

_GENERATED = (
    r"cudnn_generated_(?P<generator>[a-z]+(?:_[a-z]+)*?)_(?P<arch>sm\d{2,3}[a-z]?)_"
    r"(?P<graph>[A-Za-z]+(?:_[A-Za-z]+)*)"
)


@family("cudnn_aux", 31, "op dtype_in dtype_out function", hint="cudnn|elemWiseRNNcell")
def _decode_aux_cudnn_rest(r: NameParser) -> KernelId | None:
    if found := rx(r"(nchw|nhwc)To(Nhwc|Nchw)\w*Kernel").fullmatch(r.base):
        change = f"{found[1].upper()}->{found[2].upper()}"
        meaning = f"copies the tensor, {change}: a sign that the model is not in channels_last"
        r.put(r.base, "op", "layout_transform", meaning, "checked")
        r.put(r.base, "lib", "cudnn", "a cuDNN kernel", "checked")
        if len(r.cpp.args) > 1:
            r.read(r.arg(0), "dtype_in", "read as {}", "checked")
            r.read(r.arg(1), "dtype_out", "written as {}", "checked")
        distinct = dict.fromkeys(filter(None, map(_cpp.dtype, r.cpp.args[:2])))
        return r.done("copy", change, "->".join(distinct))
    row = r.row("cudnn_aux")
    if not row:
        return None
    role, op, short, meaning = row
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "lib", "cudnn", f"a cuDNN kernel: {meaning}")
    function = r.base.removeprefix("compute").removesuffix("Kernel")
    r.put(r.base, "function", function if function != r.base else "")
    return r.done(role, short)


@family(
    "cudnn_batchnorm",
    30,
    "op dtype_in function threads",
    hint=r"cudnn\S{0,60}bn_",
    base=r"bn_(fw|bw)(?:_(tr|inf))?\w*",
)
def _decode_batchnorm(r: NameParser) -> KernelId:
    forward = r[1] == "fw"
    mode = {"tr": " (train)", "inf": " (inference)"}.get(r[2], "") if forward else ""
    way = "fwd" if forward else "bwd"
    meaning = f"batch norm, {'forward' if forward else 'backward'}{mode}"
    r.put(r.base, "op", f"batch_norm_{way}", meaning)
    r.put(r.base, "lib", "cudnn", "a cuDNN kernel")
    r.read(r.arg(0), "dtype_in")
    kind = r.base.rpartition("1C11_")[2] if "1C11_" in r.base else ""
    r.put(kind, "function", kind.removeprefix("kernel_"), "which of cuDNN's variants")
    r.read(next((text for text in r.cpp.args if _cpp.integer(text) is not None), ""), "threads")
    return r.done("normalization", f"batch_norm {way}{mode} {{dtype_in}}")


@family("cudnn_runtime_fusion", 14, "graph op truncated", hint="cudnn_generated", head=_GENERATED)
def _decode_fusion(r: NameParser) -> KernelId:
    r.put("cudnn", "lib", "cudnn", "generated by cuDNN at run time")
    r.groups("generator")
    r.put_arch(r["arch"])
    words = r["graph"].partition("_knob")[0].split("_")
    graph = [word for word in words if row_for("cudnn_graph", word)]
    main = next((word for word in graph if word not in ("pointwise", "reduction", "genStats")), "")
    first = main or next(iter(graph), "")
    op, role = row_for("cudnn_graph", first) or ("fused graph", "pointwise")
    op = f"{op} + fused pointwise" if main and "pointwise" in graph else op
    r.put(r["graph"], "graph", graph, "the operations fused, in order")
    r.put(r["graph"], "op", op, "what the fused graph computes")
    if not rx(r"kernel\d+_\d+$").search(r.name):
        r.put("", "truncated", True, "the name was cut: it does not end in kernel<n>_<m>")
    return r.done(role, f"cudnn {op.replace('gemm', 'GEMM').replace('_', ' ')}")
