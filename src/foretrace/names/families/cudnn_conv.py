"""Convolutions of older cuDNN libraries: generation names, engine templates, Winograd, FFT.

    [cudnn[_infer|_train]_]<generation>_[<out>_]<acc>[<mma>]cudnn[_<in>][_winograd]_<M>x<N>
        [_<words>][_interior|_small|_medium|_large]_<layout>_v1

Checked on a V100: `relu`, `relu_exp` and `3dconv_fprop` run forward (without a ReLU), `stridedB` is
the input gradient, `stridedB_splitK` the weight gradient, `winograd` runs in both directions.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, is_cut, rx, uncut
from foretrace.names.families.cublas_legacy import put_head, put_word, words_after

_TYPE = "fp16|bf16|int8|int32|tf32|fp32"
_HEAD = (
    r"(?:(?P<sublib>cudnn(?:_infer|_train|_ops|_cnn)?)_)?"
    rf"(?P<word>maxwell|pascal|volta|turing|ampere)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>[shdi])(?P<mma>\d{{1,6}})?cudnn)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)
PASSES = {"fprop": "forward", "dgrad": "input gradient", "wgrad": "weight gradient"}
STAGES = {"Data": "input", "Filter": "filter", "Output": "output", "Delta": "output gradient"}


def _decode(r: NameParser) -> KernelId | None:
    if found := rx(_HEAD).match(uncut(r.name)):
        r.found, r.conv = found, True
        return _generation(r)
    if found := rx(r"winograd(Forward|Wgrad)(Data|Filter|Output|Delta)\dx\d").fullmatch(r.base):
        return _winograd(r, found[1] == "Forward", found[2])
    if found := rx(r"fft2d_(r2c|c2r)_\d+x\d\w*").fullmatch(r.base):
        stage = found[1]
        words = {"r2c": "real->complex", "c2r": "complex->real"}[stage]
        r.put(r.base, "op", "conv_fft", "a step of a convolution by Fourier transform", "checked")
        r.put(r.base, "lib", "cudnn", "a cuDNN kernel")
        r.put(r.base, "stage", stage, words)
        return r.done("conv", f"FFT conv: {words}")
    return _engine(r) if r.cpp.args else None


def _generation(r: NameParser) -> KernelId:
    r.read("" if r["sublib"] == "cudnn" else r["sublib"], "sublib")
    put_head(r)
    r.put(r["core"], "lib", "cudnn", "a cuDNN kernel")
    words = words_after(r)
    loads = [word for word in words if word.startswith("ldg")]
    unread = loads if len(loads) > 1 or "winograd" in words else []
    for word in words:
        if word not in unread and not r.put_word(word, "cudnn_words"):
            put_word(r, word)
    op, meaning, text = _direction(words)
    if not is_cut(r.name):  # a name that was cut may have lost the word that tells
        r.put(text, "op", op, meaning, "checked")
    kind = (op or "conv").replace("_", " ")
    return r.done("conv", f"cudnn {kind} {{algorithm}} {{tile_mn}} {{dtype_in}}")


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


def _engine(r: NameParser) -> KernelId | None:
    row = r.row("cudnn_engines")
    if not row:
        return None
    op, short = row
    r.put(r.base, "op", op, f"convolution, {PASSES.get(op[5:], 'direction not stated')}")
    r.put(r.base, "lib", "cudnn", "a cuDNN kernel")
    if _cpp.dtype(r.arg(0)) == "f32":  # the 16-bit engines do not tell
        r.put(r.base, "tensor_core", False)
    r.read(r.arg(0), "dtype_in")
    return r.done("conv", short.replace("%s", r.base[len("wgrad_alg") :][:1]))


def _winograd(r: NameParser, forward: bool, stage: str) -> KernelId:
    meaning = "a transform around the matmul of a Winograd convolution"
    r.put(r.base, "op", "conv_winograd_transform", meaning, "checked")
    r.put(r.base, "lib", "cudnn", "a cuDNN kernel", "checked")
    words = "forward; also used for input gradients" if forward else "weight gradient"
    r.put(r.base, "pass", "fprop" if forward else "wgrad", words, "checked")
    r.put(r.base, "stage", stage.lower(), f"transforms the {STAGES[stage]}", "checked")
    return r.done("conv", f"winograd {'fwd' if forward else 'wgrad'}: {STAGES[stage]} transform")


_HINT = r"cudnn(?:_|$|\b)|convolve_|dgrad|wgrad|inograd|fft2d_|conv2d_|depthwise_fprop"
_STATES = "op splitk arch tile_mn size_class tensor_core mma dtype_in tensor_layout pass stage"
FAMILY = family("cudnn_conv_legacy", _decode, 10, _STATES, hint=_HINT)
