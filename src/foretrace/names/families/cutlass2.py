"""CUTLASS 2 kernels inside cuBLAS, cuDNN and others.

    [void cutlass::Kernel2<]cutlass_[<sm>_]<opclass>_[<out>_]<acc><mma>[<math>]<kind>
        [_<iterator>][_<epilogue>][_<in>]_<M>x<N>[_<K>x<S>]_<layout>[_unity_stride]_align<E>[>(…)]

The sm number is the oldest chip the kernel fits, not the card in use. A type is printed only where
it differs from the accumulator's. `relu` means that the kernel can apply one: plain biased layers
use it too.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import (
    ACCUMULATOR,
    PAIR,
    WORDS,
    ConvParser,
    MatmulParser,
    times,
)
from foretrace.names.families._parser import joined, rx, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

KINDS = {"gemm": "gemm", "fprop": "conv_fprop", "dgrad": "conv_dgrad", "wgrad": "conv_wgrad"}
MEANINGS = {
    "gemm": "a matmul",
    "conv_fprop": "convolution, forward",
    "conv_dgrad": "convolution, input gradient",
    "conv_wgrad": "convolution, weight gradient",
}
CLASSES = {
    "simt": "plain CUDA cores",
    "tensorop": "tensor cores",
    "wmma_tensorop": "tensor cores through the WMMA interface",
    "sptensorop": "tensor cores, sparse",
}
EPILOGUES = ("gelu", "drelu", "dgelu", "bgrada", "bgradb")
_ROUNDED = "inputs are rounded to {} for the multiplication"
# field, kind, certainty, meaning, pattern of the word
_WORDS = r"""
    iterator  text  -  how the convolution addresses its input  optimized|analytic
    stride    text  -  for stride 1 only                        unity
    layout    text  -  order of the tensor's dimensions         n[hd]?hwc|nc[d]?hw|nc\d+hw\d*
"""
_TYPE = "f16|bf16|tf32|f32|f64|s8|u8|s4|u4|s32|b1|cf32|cf64"
_BODY = (
    r"cutlass_(?:(?P<sm>\d{2,3})_)?(?P<opclass>simt|wmma_tensorop|sptensorop|tensorop)_"
    rf"(?:(?P<out>{_TYPE})_)?(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?"
    r"(?P<math>bf16|f16|tf32|f32)?(?P<kind>gemm|fprop|dgrad|wgrad))(?=_|$|[>(])"
)
_NAMESPACE = r"(?:void )?(cutlass\w*)::Kernel2?<"


def _decode(name: str) -> KernelId | None:
    if "cutlass" not in name[:80]:
        return None
    wrapper = rx(_NAMESPACE).match(name)
    body = rx(_BODY).match(uncut(name), wrapper.end() if wrapper else 0)
    if body:
        tail = rx(r"[A-Za-z0-9_]*").match(body.string, body.end())
        namespace = wrapper[1] if wrapper else ""
        return _named(name, namespace, body.groupdict(), tail[0] if tail else "")
    if wrapper or rx(r"_ZN\d+cutlass\w*?[67]Kernel2?I").match(name):
        return _template(name, wrapper[1] if wrapper else "")
    return None


def _named(name: str, namespace: str, found: dict[str, str], tail: str) -> KernelId:
    op = KINDS[found["kind"]]
    parser = MatmulParser if op == "gemm" else ConvParser
    r = parser(name, "cutlass2x", "documented")
    r.put(namespace, "namespace", namespace, "whose copy of CUTLASS this is", "checked")
    if found["sm"]:
        r.put_arch(found["sm"], f"sm{found['sm']}", "inferred")
    _lib(r, namespace, found["sm"] or "")
    r.put(found["opclass"], "opclass", found["opclass"], CLASSES[found["opclass"]])
    r.put_tensor_core(found["opclass"], found["opclass"] != "simt")
    r.put_core(found)
    r.put(found["core"], "math_dtype", found["math"], _ROUNDED)
    r.put(found["core"], "op", op, MEANINGS[op])
    _tail(r, tail, found)
    words = (r.get("arch"), times(r.get("tile") or r.get("tile_mn")), r.get("layout"))
    if op == "gemm":
        return r.done("gemm", joined("cutlass", *words, r.get("dtype_in")))
    return r.done("conv", joined("cutlass", op.replace("_", " "), *words, r.get("dtype_in")))


def _lib(r: MatmulParser, namespace: str, sm: str) -> None:
    if "cudnn" in namespace:
        r.put(namespace, "lib", "cudnn", "launched by cuDNN", "inferred")
    elif sm:
        meaning = "cuBLAS prints the number, the public generator does not"
        r.put(sm, "lib", "cublas", meaning, "inferred")


def _tail(r: MatmulParser, tail: str, found: dict[str, str]) -> None:
    words = tail.strip("_").split("_")
    inputs = [word for word in words if rx(_TYPE).fullmatch(word)]
    # before the tile it may be cut off
    by_absence = not inputs and any(rx(PAIR).fullmatch(word) for word in words)
    if by_absence:
        acc = ACCUMULATOR[found["acc"]]
        r.put(found["core"], "dtype_in", acc, "type of both inputs: {}, as the sums")
    if by_absence and found["core"] == "s1688gemm" and found["sm"] == "80":
        meaning = "float32 data, TF32 arithmetic on tensor cores"
        r.put(found["core"], "math_dtype", "tf32", meaning, "inferred")
    fields = iter(("dtype_in",) if len(inputs) == 1 else ("dtype_a", "dtype_b"))
    for word in words:
        if word in inputs and (field := next(fields, "")):
            r.put(word, field, WORDS[word], "type of the input: {}")
        else:
            _word(r, word)


def _word(r: MatmulParser, word: str) -> None:
    if rx(PAIR).fullmatch(word):
        r.put_pair(word)
    elif word == "relu":
        r.put_relu(word, "checked")
    elif word in EPILOGUES:
        r.put(word, "epilogue", [word], f"{word} is computed at the end", "inferred")
    elif r.put_word(word, _WORDS):
        return
    elif rx(r"[ntch]{2,3}").fullmatch(word):
        r.put_layout(word, word)
    elif rx(r"align\d{1,3}").fullmatch(word):
        count = int(word[5:])
        more = "; below 8 for 16-bit data means a misaligned dimension" if count < 8 else ""
        r.put(word, "align_elems", count, f"loads up to {count} elements at once{more}", "checked")


def _template(name: str, namespace: str) -> KernelId:
    """A CUTLASS 2 kernel spelt out as C++ templates: only what stands out is read."""
    parser = ConvParser if "Conv" in name else MatmulParser
    r = parser(name, "cutlass2x", "documented")
    if namespace:
        r.put(namespace, "namespace", namespace, "whose copy of CUTLASS this is", "checked")
        _lib(r, namespace, "")
    if "ReduceSplitK" in name:
        meaning = "adds the partial sums of a matmul split over K"
        r.put("ReduceSplitK", "op", "splitk_reduce", meaning, "inferred")
        return r.done("reduction", "cutlass split-K reduce")
    conv = rx(r"Conv\dd(Fprop|Dgrad|Wgrad)").search(name)
    if conv:
        op = KINDS[conv[1].lower()]
        r.put(conv[0], "op", op, MEANINGS[op], "inferred")
    elif rx(r"ImplicitGemmConvolution|DirectConvolution").search(name):
        r.put("Convolution", "op", "conv", "a convolution", "inferred")
    elif "attention" in name.lower() or "fmha" in name.lower():
        return r.done("attention", "cutlass attention")
    else:
        r.note("Kernel", "a CUTLASS kernel, a matmul as a rule", "inferred")
    found = rx(r"GemmShape(?:ILi(\d+)ELi(\d+)ELi(\d+)E|<(\d+), ?(\d+), ?(\d+)>)").search(name)
    if found:
        r.put_tile(found[0], [int(number) for number in found.groups() if number], "inferred")
    dtype = _cpp.dtype(next(iter(rx(r"cutlass::\w+_t\b").findall(name)), ""))
    kind = r.get("op").replace("_", " ") or "GEMM"
    short = joined("cutlass", kind, times(r.get("tile")), dtype)
    return r.done("conv" if "conv" in r.get("op") else "gemm", short)


_STATES = """
    namespace lib arch tile_mn tile_k stages epilogue layout align_elems dtype_in math_dtype op
    iterator
"""
FAMILY = Family("cutlass2x", _decode, 20, word_set(_STATES))
