"""Convolutions of older cuDNN libraries: generation names, engine templates, Winograd, FFT.

    [cudnn[_infer|_train]_]<generation>_[<out>_]<acc>[<mma>]cudnn[_<in>][_winograd]_<M>x<N>
        [_<words>][_interior|_small|_medium|_large]_<layout>_v1

Checked on a V100: `relu`, `relu_exp` and `3dconv_fprop` run forward (without a ReLU), `stridedB` is
the input gradient, `stridedB_splitK` the weight gradient, `winograd` runs in both directions.
"""

from __future__ import annotations

import re

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import ConvParser, MatmulParser, times
from foretrace.names.families._parser import joined, rx, uncut, word_set
from foretrace.names.families.cublas_legacy import put_head, put_word
from foretrace.schema.kernel import Family, KernelId

FAMILY_NAME = "cudnn_conv_legacy"
_TYPE = "fp16|bf16|int8|int32|tf32|fp32"
_HEAD = (
    r"(?:(?P<sublib>cudnn(?:_infer|_train|_ops|_cnn)?)_)?"
    rf"(?P<word>maxwell|pascal|volta|turing|ampere)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>[shdi])(?P<mma>\d{{1,6}})?cudnn)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)
PASSES = {"fprop": "forward", "dgrad": "input gradient", "wgrad": "weight gradient"}
# field, kind, certainty, meaning, pattern of the word
_WORDS = """
    size_class     text    -        class of problem size or tile edge  interior|small|medium|large
    algorithm      text    -        Winograd's algorithm                winograd
    conv_dims      number  -        three spatial dimensions            (3)dconv
    splitk         flag    checked  the sum is split over blocks        splitK
    stridedB       flag    checked  seen in backward passes only        stridedB
    tensor_layout  text    -        order of the tensor's dimensions    nhwc|nchw|ndhwc|nhwc2nchw
"""
# Engine templates: what the function's name says, pattern -> (op, short).
ENGINES = (
    (r"implicit_convolve_[shd]gemm", "conv_fprop", "conv fprop {} (implicit GEMM, CUDA cores)"),
    (r"precomputed_convolve_[shd]gemm", "conv_fprop", "conv fprop {} (precomputed indices)"),
    (r"explicit_convolve_[shd]gemm", "conv_fprop", "conv fprop {} (explicit im2col GEMM)"),
    (r"dgrad_engine|dgrad2d_\w+|dgrad_alg\d_\w+", "conv_dgrad", "conv dgrad {}"),
    (r"wgrad_alg(?P<alg>\d)_engine\w*", "conv_wgrad", "conv wgrad {} (alg%s)"),
    (r"wgrad2d_\w+|wgrad_\w{0,60}engine\w*", "conv_wgrad", "conv wgrad {}"),
    (r"conv2d_\w+|conv_depthwise\w*|depthwise_fprop\w*", "", "conv {}"),
)
STAGES = {"Data": "input", "Filter": "filter", "Output": "output", "Delta": "output gradient"}


def _decode(name: str) -> KernelId | None:
    head = rx(_HEAD).match(uncut(name))
    if head:
        return _generation(name, head)
    if not rx(r"convolve_|dgrad|wgrad|inograd|fft2d_|conv2d_|depthwise_fprop").search(name[:200]):
        return None
    cpp = _cpp.parse(name)
    if found := rx(r"winograd(Forward|Wgrad)(Data|Filter|Output|Delta)\dx\d").fullmatch(cpp.base):
        return _winograd(name, cpp.base, found[1], found[2])
    if found := rx(r"fft2d_(r2c|c2r)_\d+x\d\w*").fullmatch(cpp.base):
        return _fft(name, cpp.base, found[1])
    return _engine(name, cpp) if cpp.args else None


def _generation(name: str, head: re.Match[str]) -> KernelId:
    r = ConvParser(name, FAMILY_NAME)
    found = head.groupdict()
    if (found["sublib"] or "cudnn") != "cudnn":
        r.put(found["sublib"], "sublib", found["sublib"], "the part of cuDNN it comes from")
    put_head(r, found, ended=head.string == head[0])
    r.put(found["core"], "lib", "cudnn", "a cuDNN kernel")
    words = head.string[head.end() + 1 :].split("_")
    loads = [word for word in words if word.startswith("ldg")]
    unread = loads if len(loads) > 1 or "winograd" in words else []
    for word in words:
        if word not in unread and not r.put_word(word, _WORDS):
            put_word(r, word)
    op, meaning, text = _direction(words)
    if head.string == name:  # a name that was cut may have lost the word that tells
        r.put(text, "op", op, meaning, "checked")
    tile, kind = times(r.get("tile_mn")), (op or "conv").replace("_", " ")
    return r.done("conv", joined("cudnn", kind, r.get("algorithm"), tile, r.get("dtype_in")))


def _direction(words: list[str]) -> tuple[str, str, str]:
    for word in ("fprop", "dgrad", "wgrad"):
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


def _engine(name: str, cpp: _cpp.Cpp) -> KernelId | None:
    for pattern, op, short in ENGINES:
        found = rx(pattern).fullmatch(cpp.base)
        if found:
            r = MatmulParser(name, FAMILY_NAME)
            r.put(cpp.base, "op", op, f"convolution, {PASSES.get(op[5:], 'direction not stated')}")
            r.put(cpp.base, "lib", "cudnn", "a cuDNN kernel")
            dtype = _cpp.dtype(cpp.arg(0))
            if dtype == "f32":  # engines of the float32 age; the 16-bit ones do not tell
                r.put_tensor_core(cpp.base, False)
            r.put(cpp.arg(0), "dtype_in", dtype, "type of the input: {}")
            short = short % found["alg"] if "%s" in short else short
            return r.done("conv", " ".join(short.format(dtype or "").split()))
    return None


def _winograd(name: str, base: str, direction: str, stage: str) -> KernelId:
    r = MatmulParser(name, FAMILY_NAME)
    forward = direction == "Forward"
    meaning = "a transform around the matmul of a Winograd convolution"
    r.put(base, "op", "conv_winograd_transform", meaning, "checked")
    r.put(base, "lib", "cudnn", "a cuDNN kernel", "checked")
    words = "forward; also used for input gradients" if forward else "weight gradient"
    r.put(base, "pass", "fprop" if forward else "wgrad", words, "checked")
    r.put(base, "stage", stage.lower(), f"transforms the {STAGES[stage]}", "checked")
    return r.done("conv", f"winograd {'fwd' if forward else 'wgrad'}: {STAGES[stage]} transform")


def _fft(name: str, base: str, stage: str) -> KernelId:
    r = MatmulParser(name, FAMILY_NAME)
    words = {"r2c": "real->complex", "c2r": "complex->real"}[stage]
    r.put(base, "op", "conv_fft", "a step of a convolution by Fourier transform", "checked")
    r.put(base, "lib", "cudnn", "a cuDNN kernel")
    r.put(base, "stage", stage, words)
    return r.done("conv", f"FFT conv: {words}")


_STATES = "op splitk arch tile_mn size_class tensor_core mma dtype_in tensor_layout pass stage"
FAMILY = Family(FAMILY_NAME, _decode, 10, word_set(_STATES))
