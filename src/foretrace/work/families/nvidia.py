"""cuBLAS and cuDNN: matmuls, convolutions, fused attention, and the helpers around them.

nvjet: the matmuls that cuBLAS generates at run time on Hopper and Blackwell.

    nvjet_[sm<arch>_]<types>_<M>x<N>_<K>x<stages>_<cluster>[_2cta]_<h|v>_<words>_<XYZ>
    nvjet_sm120_<types>_mma_<M>x<N>x<K>_<stages>_<warp tile>_<words>_<WXYZ>

No arch word means a CUDA 12 library, which says nothing about the card. The words between the
shapes and the letters come in any order; the ones that nobody explains are kept as text in `other`.
"""

from __future__ import annotations

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import (
    ARCH,
    PAIR,
    TRIPLE,
    WORDS,
    arch_meaning,
    by_spelling,
    is_cut,
    row_for,
    rx,
    uncut,
)
from foretrace.work.families._parser import NameParser, family, shape
from foretrace.work.kernel import KernelId

# cuBLAS names that begin with a chip generation:
# `ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn`.
#
#     <arch>_[<out>_]<acc>[<mma>]gemm[_<in>]_<M>x<N>[_sliced<a>x<b>][_ldg<v>][_relu][_f2f]
#         [_stages_<K>x<S>]_<layout>[_v1]
#
# A type that is not printed equals the accumulator's. No MMA digits means CUDA cores:
# `ampere_sgemm` is true float32, not TF32. Split-K is not in these names: look for a splitKreduce
# kernel under the same op.

_TYPE = "fp16|bf16|int8|int32|tf32|fp32|fp64"
_HEAD = (
    rf"(?P<word>maxwell|pascal|volta|turing|ampere|ada|hopper)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?gemm)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)


@family(
    "cublas_legacy",
    11,
    "arch tile_mn tile_k stages tile mma dtype_in dtype_out dtype_acc layout tensor_core epilogue",
    hint="gemm",
    head=_HEAD,
)
def _decode(r: NameParser) -> KernelId:
    put_head(r)
    r.put(r["core"], "op", "gemm", "a matmul")
    r.put(r["core"], "lib", "cublas", "a cuBLAS kernel")
    if r["acc"].startswith("g"):
        words = "complex matmul by the Gaussian method, three real multiplications instead of four"
        r.put(r["core"], "complex_method", "gaussian (3-multiply)", words)
    for word in words_after(r):
        put_word(r, word)
    tile = "{tile}" if r.get("tile") else "{tile_mn}"
    return r.done("gemm", f"cublas {r['word']} {tile} {{layout}} {{dtype_in}}")


def words_after(r: NameParser) -> list[str]:
    """The words behind the types."""
    whole: str = r.found.string.removesuffix("_kernel")
    return whole[r.found.end() + 1 :].split("_")


def put_head(r: NameParser) -> None:
    """Generation, accumulator, MMA shape and types: shared with the cuDNN names of the same make.

    Where nothing follows, the input type may have been cut off.
    """
    r.read(r["word"], "arch_word")
    arch = ARCH.get(r["word"], "")
    r.put(r["word"], "arch", arch, arch_meaning(arch))
    r.put_core()
    r.put(r["core"], "tensor_core", bool(r["mma"]))
    if r["in"] or words_after(r) != [""]:
        inputs = WORDS.get(r["in"], r.fields["dtype_acc"])
        r.put(r["in"] or r["core"], "dtype_in", inputs, "type of both inputs: {}")


def put_word(r: NameParser, word: str) -> None:
    """One of the words after the types. An unknown word stays without a part: the gap says so."""
    if rx(PAIR).fullmatch(word):
        r.put_pair(word)
    elif word == "relu":
        r.put_relu(word)
    elif word == "stages":
        r.note(word, "depth along K and pipeline stages follow")
    elif rx(r"[ntc]{2}").fullmatch(word):
        r.put_layout(word)
    else:
        r.put_word(word, "cublas_words")


# cuBLAS helpers around a matmul: split-K sums, separate epilogues, scaling.
#
# `splitKreduce_kernel` adds the partial sums of a matmul that was split along K, under the same op
# as the matmul. Its role is `reduction`, not `gemm`: a count of matmuls that included it would
# count one matmul twice. `splitKreduce_kernel<32, 16, int, partial, C, compute, result, …>` states
# its types in the template; older names have four types only.
#
# cuBLAS kernels for matmuls with a vector, and for matrices that are nearly one.
#
# - `internal::gemvx::kernel<int, int, TA, Tx, Ty, Tcompute, …>`: matrix times vector
# - `gemv2T_kernel_val<int, int, TA, Tx, Ty, Tc, …>`: the same with A transposed
# - `gemv2N_kernel<…>`: the same with A as it is
# - `gemvNSP_kernel<TA, Tx, Ty, Tc, …>`: the same; nobody explains NSP
# - `dot_kernel<…>`, then `reduce_1Block_kernel<…>`: a dot product in two launches
# - `gemmk1_kernel<Tc, …, tensor<TA const>, tensor<TB const>, tensor<TC>, …>`: a matmul with K = 1;
#   the first type is that of the arithmetic, the tensors have their own
# - `gemmSN_TN_kernel<T, …>`: a matmul with a small N


@family(
    "cublas_aux",
    30,
    "op lib dtype_in dtype_partial dtype_out dtype_acc tensor_core",
    hint="splitKreduce_kernel|globalKernel|scal_kernel|magma_|sgemm_largek",
)
def _decode_aux(r: NameParser) -> KernelId | None:
    if r.base == "splitKreduce_kernel":
        lib = "cublasLt" if r.cpp.scope == "cublasLt" else "cublas"
        meaning = "adds the partial sums of a matmul split along K"
        r.put(r.base, "op", "splitk_reduce", meaning, "checked")
        r.put(r.cpp.scope or r.base, "lib", lib, "launched by {}", "checked")
        sized = _cpp.integer(r.arg(0)) is not None  # newer: two sizes and an index type come first
        if sized:
            r.read(r.arg(3), "dtype_partial")
            r.read(r.arg(5), "dtype_acc", "added in {}")
        written, sure = (r.arg(6), "checked") if sized else (r.arg(3), "inferred")
        r.read(written, "dtype_out", certainty=sure)
        return r.done("reduction", "split-K reduce {dtype_out}")
    if row := r.row("cublas_aux"):
        scope, *rest = row
        known = r.cpp.scope.endswith(scope) if scope else "cublas" in r.name
        return _simple(r, *rest) if known else None
    if rx(r"magma_[sdcz]gemmEx_kernel").fullmatch(r.base):
        return _old_gemm(r, "cublas (MAGMA-derived)", f"{r.base[6]}gemm {{dtype_in}} (magma)")
    if r.base.startswith("sgemm_largek"):
        return _old_gemm(r, "cublas", "sgemm {dtype_in} (large K)")
    return None


def _simple(r: NameParser, op: str, lib: str, short: str, meaning: str) -> KernelId:
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "lib", lib, "a {} kernel")
    first = 0 if _cpp.integer(r.arg(0)) is None else 2  # newer: two sizes come first
    dtype = _common(r.cpp.args[first : first + 2])
    r.put(r.arg(first), "dtype_in", dtype)
    r.put(r.arg(first + 1), "dtype_out", dtype)
    return r.done("pointwise", short, dtype)


def _old_gemm(r: NameParser, lib: str, short: str) -> KernelId:
    r.put(r.base, "op", "gemm", "a matmul, old make")
    r.put(r.base, "lib", lib, "a cuBLAS kernel")
    r.put(r.base, "tensor_core", False)
    dtype = _common(r.cpp.args[:3]) if r.base.startswith("magma") else "f32"
    r.put(r.base, "dtype_in", dtype, "type of the inputs: {}")
    r.put(r.base, "dtype_out", dtype)
    return r.done("gemm", short)


def _common(types: tuple[str, ...]) -> str | None:
    """The one type that all of them are."""
    dtypes = {_cpp.dtype(text) for text in types}
    return dtypes.pop() if len(dtypes) == 1 else None


_TENSOR = r"cublasGemvTensor\w{0,60}<([\w:]+)"
_NAME = (
    r"kernel|gemv2(?P<side>[TN])_kernel(?:_val)?|gemvNSP_kernel|(?P<dot>dot|reduce_1Block)_kernel"
    r"|(?P<thin>gemmk1_kernel|gemmSN_[NT]{2}_kernel)"
)


@family(
    "cublas_gemv",
    30,
    "op transposed dtype_in dtype_out dtype_acc",
    "checked",
    hint="gemv|dot_kernel|reduce_1Block_kernel|gemmk1_kernel|gemmSN_",
    base=_NAME,
)
def _decode_gemv(r: NameParser) -> KernelId | None:
    if r["thin"]:
        k1 = r.base == "gemmk1_kernel"
        words = "a matmul with K = 1" if k1 else "a matmul with a small N"
        r.put(r.base, "lib", "cublas", f"a cuBLAS kernel: {words}", "inferred")
        if k1:  # the first template argument is the arithmetic; inputs and result say their types
            r.read(r.arg(0), "dtype_acc", "computed in {}", "inferred")
            types = [found[1] for text in r.cpp.args if (found := rx(_TENSOR).match(text))]
            if len(types) >= 3 and len({_cpp.dtype(text) for text in types[:2]}) == 1:
                r.read(types[0], "dtype_in", "type of the inputs: {}", "inferred")
                r.read(types[2], "dtype_out", certainty="inferred")
        else:
            r.put_layout(r.base, r.base[7:9].lower(), "inferred")
            r.read(r.arg(0), "dtype_in", "type of the inputs: {}", "inferred")
        return r.done("gemm", f"GEMM {'K=1' if k1 else 'small N'} {{dtype_in}}")
    if r["dot"]:
        return _dot(r) if "cublas" in r.name else None
    if r.base != "kernel":
        return _gemv(r, r.base, r.cpp.args[: 4 if "NSP" in r.base else 6])
    return _gemv(r, "gemvx", r.cpp.args[:6]) if r.cpp.scope.endswith("gemvx") else None


def _gemv(r: NameParser, base: str, args: tuple[str, ...]) -> KernelId:
    r.put(base, "op", "gemv", "a matrix times a vector; the launching op may be mm or addmm")
    r.put(base, "lib", "cublas", "a cuBLAS kernel")
    if r["side"]:
        words = "the matrix is used transposed | the matrix is used as it is"
        r.put(base, "transposed", r["side"] == "T", words)
    if len(args) == (4 if "NSP" in base else 6):
        matrix, _, result, sums = args[-4:]
        r.read(matrix, "dtype_in", "type of the matrix: {}")
        r.read_all((result, sums), "dtype_out dtype_acc")
    kind = "gemv^T" if r["side"] == "T" else "gemv (NSP)" if "NSP" in base else "gemv"
    return r.done("gemv", f"{kind} {{dtype_in}}")


def _dot(r: NameParser) -> KernelId:
    first = r["dot"] == "dot"
    r.put(r.base, "op", "dot", "a dot product, in two launches")
    r.put(r.base, "lib", "cublas", "a cuBLAS kernel")
    r.put(r.base, "phase", 1 if first else 2, "partial sums" if first else "adds the partial sums")
    template = r.name[: r.name.find(">(") + 1 or None]  # the argument list repeats it
    types = rx(_TENSOR).findall(template)
    if first and len(types) == 2:
        r.read(types[0], "dtype_in", "type of both vectors: {}", "inferred")
    if len(types) == (2 if first else 3):
        r.read(types[-1], "dtype_out", certainty="inferred")
    return r.done("gemv", "dot {dtype_in}" if first else "dot (final reduce) {dtype_out}")


TYPES = by_spelling("nvjet_types")
FLOATS = frozenset("htsqro")
_EPILOGUE_WORD = r"(drelu|dgelu|bgrad|relu|gelu|bias|aux)([htsqr](?![a-z])|[ab](?![a-z]))?"
_NVJET = (
    r"nvjet_(?:(?P<arch>sm\d+)_)?(?P<types>[a-z]{3}|[a-z]{5})_(?:(?P<math>tf32)_)?"
    r"(?:(?P<mn>\d{1,5}x\d{1,5})_(?P<ks>\d{1,5}x\d{1,5})_(?P<cluster>\d{1,5}x\d{1,5})"
    r"|mma_(?P<mnk>\d{1,5}x\d{1,5}x\d{1,5})_(?P<stages>\d{1,5})_(?P<warp>\d{1,5}x\d{1,5}x\d{1,5}))"
    r"(?=_|$)"
)


@family(
    "nvjet",
    10,
    """
        arch tile stages cluster dtype_in layout epilogue coop splitk dtype_a dtype_out scaling
        other warp_tile
    """,
    hint="^nvjet_",
)
def _decode_nvjet(r: NameParser) -> KernelId:
    r.put("nvjet", "op", "gemm", "a matmul")
    r.put("nvjet", "lib", "cublas", "generated by cuBLAS at run time")
    r.put("nvjet", "tensor_core", True)
    head = rx(_NVJET).match(uncut(r.name))
    if not head:
        return r.done("gemm", "nvjet")
    r.found = head
    _head(r)
    words = head.string[head.end() + 1 :].split("_")
    letters = words.pop() if rx(r"[NT]{3,4}").fullmatch(words[-1]) else ""
    _words(r, words)
    if letters and "splitk" not in r.fields:
        r.put("", "splitk", False, "no splitK word: K is not split over blocks", "checked")
    if letters:
        r.put(letters, "layout_raw", letters, "operand letters in cuBLAS terms", "checked")
        r.put_layout(letters, letters[:2].lower(), "checked")
        if len(letters) == 3:
            along = "m (first tile number)" if letters[2] == "T" else "n (second tile number)"
            meaning = f"third letter: the tall side of the MMA lies along {along}"
            r.put(letters, "mma_m_along", along, meaning)
        else:
            r.note(letters, "third and fourth letter: layouts of C and D")
    dtype = "{dtype_in}" if r.get("dtype_in") else "{dtype_a}"
    split = "split-K" if r.get("splitk") else ""
    return r.done("gemm", f"nvjet {{tile}} {{layout}} {dtype} {{epilogue}}", split)


def _head(r: NameParser) -> None:
    r.put_arch(r["arch"])
    types = r["types"]
    r.put(types, "types", types, "data types as letters, read below")
    fields = [("dtype_in", "type of both inputs")]
    if len(types) > 3:
        fields = [
            ("dtype_a", "type of the first cuBLAS operand (the weight)"),
            ("dtype_b", "type of the second cuBLAS operand (the activation)"),
            ("dtype_c", "type of the matrix added in, if any"),
        ]
    fields += [("dtype_acc", "sums are kept in"), ("dtype_out", "type of the result")]
    certainty = "checked" if types == "tst" else "inferred"
    for letter, (field, meaning) in zip(types, fields, strict=True):
        # for int8 the letter is the scale's type, not the accumulator's
        if field != "dtype_acc" or types[0] in FLOATS:
            r.put(types, field, TYPES.get(letter), f"{meaning}: {{}}", certainty)
    r.put(r["math"], "math_dtype", r["math"], "float32 data, TF32 arithmetic")
    flight = "{} slices in flight (pipeline stages)"
    if r["mn"]:
        depth, stages = shape(r["ks"])
        r.put_tile(r["mn"], "checked", [*shape(r["mn"]), depth])
        r.note(r["ks"], f"each step takes a slice of {depth} along K", "checked")
        r.put(r["ks"], "stages", stages, flight)
        words = "thread blocks that share data: along output features x along rows"
        r.read(r["cluster"], "cluster", words, "checked")
    else:
        r.put_tile(r["mnk"])
        r.read(r["stages"], "stages", flight)
        r.put(r["warp"], "warp_tile", shape(r["warp"]), "what one warp computes of the tile")


def _words(r: NameParser, words: list[str]) -> None:
    epilogue: list[str] = []
    scaling: list[str] = []
    other: list[str] = []
    for word in words:
        if rx(f"(?:{_EPILOGUE_WORD})+").fullmatch(word):
            found = [part.group(1) for part in rx(_EPILOGUE_WORD).finditer(word)]
            epilogue += found
            certainty = "checked" if word in ("bias", "gelubias") else "inferred"
            meaning = "; ".join(row[0] for part in found if (row := row_for("nvjet_ends", part)))
            r.put(word, "epilogue", epilogue, meaning, certainty)
        elif rx(r"[ABCD](?:vec\d+(?:UE\d+M\d+)?|blk\d+)|ovscale").fullmatch(word):
            scaling.append(word)
            r.put(word, "scaling", scaling, _scaling_meaning(word))
        elif word and not r.put_word(word, "nvjet_words"):
            other.append(word)
            r.put(word, "other", other, "a word that nobody explains", "unknown")


def _scaling_meaning(word: str) -> str:
    if word == "ovscale":
        return "one scale per row (outer-vector scaling)"
    kind = "block" if "blk" in word else "run"
    length = rx(r"[0-9]+").search(word)
    count = length[0] if length else "?"
    return f"operand {word[0]} carries one scale per {kind} of {count} elements"


# Convolutions of older cuDNN libraries: generation names, engine templates, Winograd, FFT.
#
#     [cudnn[_infer|_train]_]<generation>_[<out>_]<acc>[<mma>]cudnn[_<in>][_winograd]_<M>x<N>
#         [_<words>][_interior|_small|_medium|_large]_<layout>_v1
#
# Checked on a V100: `relu`, `relu_exp` and `3dconv_fprop` run forward (without a ReLU), `stridedB`
# is the input gradient, `stridedB_splitK` the weight gradient, `winograd` runs in both directions.

_CONV_TYPE = "fp16|bf16|int8|int32|tf32|fp32"
_CONV = (
    r"(?:(?P<sublib>cudnn(?:_infer|_train|_ops|_cnn)?)_)?"
    rf"(?P<word>maxwell|pascal|volta|turing|ampere)_(?:(?P<out>{_CONV_TYPE})_)?"
    rf"(?P<core>(?P<acc>[shdi])(?P<mma>\d{{1,6}})?cudnn)(?:_(?P<in>{_CONV_TYPE}))?(?=_|$)"
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
    if found := rx(_CONV).match(uncut(r.name)):
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

_SDPA = (
    r"cudnn_generated_(?P<generator>[a-z]+(?:_[a-z]+)*?)_sdpa_(?P<arch>sm\d{2,3}[a-z]?)_flash_"
    r"(?P<dir>fprop|bprop)(?:_(?P<mma_kind>wgmma|wmma|mma|umma))?"
    r"(?:_(?P<dtype>[a-z]+\d+(?:m\d)?))?(?:_(?P<knob>knob_\d{1,4}))?"
    rf"(?:_(?P<tile>{TRIPLE}))?(?:_(?P<warps>{TRIPLE}))?(?:_(?P<cluster>cga{TRIPLE}))?(?=_|$)"
)


@family(
    "cudnn_sdpa", 13, "op arch tile warps mma_kind knob cluster", hint="cudnn_generated", head=_SDPA
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
