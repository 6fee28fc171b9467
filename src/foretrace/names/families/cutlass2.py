"""CUTLASS 2 kernels inside cuBLAS, cuDNN and others.

    [void cutlass::Kernel2<]cutlass_[<sm>_]<opclass>_[<out>_]<acc><mma>[<math>]<kind>
        [_<iterator>][_<epilogue>][_<in>]_<M>x<N>[_<K>x<S>]_<layout>[_unity_stride]_align<E>[>(…)]

The sm number is the oldest chip the kernel fits, not the card in use. A type is printed only where
it differs from the accumulator's. `relu` means that the kernel can apply one: plain biased layers
use it too.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family
from foretrace.names.families._tables import (
    ACCUMULATOR,
    CONVOLUTIONS,
    PAIR,
    WORDS,
    rx,
    uncut,
)

EPILOGUES = ("gelu", "drelu", "dgelu", "bgrada", "bgradb")
_TYPE = "f16|bf16|tf32|f32|f64|s8|u8|s4|u4|s32|b1|cf32|cf64"
_BODY = (
    r"cutlass_(?:(?P<sm>\d{2,3})_)?(?P<opclass>simt|wmma_tensorop|sptensorop|tensorop)_"
    rf"(?:(?P<out>{_TYPE})_)?(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?"
    r"(?P<math>bf16|f16|tf32|f32)?(?P<kind>gemm|fprop|dgrad|wgrad))(?=_|$|[>(])"
)
_NAMESPACE = r"(?:void )?(cutlass\w*)::Kernel2?<"


def _decode(r: NameParser) -> KernelId | None:
    wrapper = rx(_NAMESPACE).match(r.name)
    body = rx(_BODY).match(uncut(r.name), wrapper.end() if wrapper else 0)
    if not (body or wrapper or rx(r"_ZN\d+cutlass\w*?[67]Kernel2?I").match(r.name)):
        return None
    r.found, namespace = body, wrapper[1] if wrapper else ""
    if body and not wrapper:
        r.note("cutlass", "NVIDIA's open templates for matmuls", "documented")
    r.put(namespace, "namespace", namespace, "whose copy of CUTLASS this is", "checked")
    if "cudnn" in namespace:
        r.put(namespace, "lib", "cudnn", "launched by cuDNN", "inferred")
    return _named(r, "cudnn" in namespace) if body else _template(r)


def _named(r: NameParser, by_cudnn: bool) -> KernelId:
    op = "gemm" if r["kind"] == "gemm" else f"conv_{r['kind']}"
    r.conv = op != "gemm"
    r.put_arch(r["sm"], "inferred")
    if r["sm"] and not by_cudnn:
        meaning = "cuBLAS prints the number, the public generator does not"
        r.put(r["sm"], "lib", "cublas", meaning, "inferred")
    r.put_word(r["opclass"], "opclass")
    r.put(r["opclass"], "tensor_core", r["opclass"] != "simt")
    r.put_core()
    r.put(r["core"], "math_dtype", r["math"], "inputs are rounded to {} for the multiplication")
    r.put(r["core"], "op", op, CONVOLUTIONS[op])
    tail = rx(r"[A-Za-z0-9_]*").match(r.found.string, r.found.end())
    _tail(r, tail[0] if tail else "")
    kind, tile = op.replace("_", " "), "{tile}" if r.get("tile") else "{tile_mn}"
    short = f"cutlass {kind if r.conv else ''} {{arch}} {tile} {{layout}} {{dtype_in}}"
    return r.done("conv" if r.conv else "gemm", short)


def _tail(r: NameParser, tail: str) -> None:
    words = tail.strip("_").split("_")
    inputs = [word for word in words if rx(_TYPE).fullmatch(word)]
    # before the tile it may be cut off
    by_absence = not inputs and any(rx(PAIR).fullmatch(word) for word in words)
    if by_absence:
        acc = ACCUMULATOR[r["acc"]]
        r.put(r["core"], "dtype_in", acc, "type of both inputs: {}, as the sums")
    if by_absence and r["core"] == "s1688gemm" and r["sm"] == "80":
        meaning = "float32 data, TF32 arithmetic on tensor cores"
        r.put(r["core"], "math_dtype", "tf32", meaning, "inferred")
    fields = iter(("dtype_in",) if len(inputs) == 1 else ("dtype_a", "dtype_b"))
    for word in words:
        if word in inputs and (field := next(fields, "")):
            r.put(word, field, WORDS[word], "type of the input: {}")
        else:
            _word(r, word)


def _word(r: NameParser, word: str) -> None:
    if rx(PAIR).fullmatch(word):
        r.put_pair(word)
    elif word == "relu":
        r.put_relu(word, "checked")
    elif word in EPILOGUES:
        r.put(word, "epilogue", [word], f"{word} is computed at the end", "inferred")
    elif r.put_word(word, "cutlass_words"):
        return
    elif rx(r"[ntch]{2,3}").fullmatch(word):
        r.put_layout(word)
    elif rx(r"align\d{1,3}").fullmatch(word):
        count = int(word[5:])
        more = "; below 8 for 16-bit data means a misaligned dimension" if count < 8 else ""
        r.put(word, "align_elems", count, f"loads up to {count} elements at once{more}", "checked")


def _template(r: NameParser) -> KernelId:
    """A CUTLASS 2 kernel spelt out as C++ templates: only what stands out is read."""
    r.conv = "Conv" in r.name
    if "ReduceSplitK" in r.name:
        meaning = "adds the partial sums of a matmul split over K"
        r.put("ReduceSplitK", "op", "splitk_reduce", meaning, "inferred")
        return r.done("reduction", "cutlass split-K reduce")
    if conv := rx(r"Conv\dd(Fprop|Dgrad|Wgrad)").search(r.name):
        op = f"conv_{conv[1].lower()}"
        r.put(conv[0], "op", op, CONVOLUTIONS[op], "inferred")
    elif rx(r"ImplicitGemmConvolution|DirectConvolution").search(r.name):
        r.put("Convolution", "op", "conv", "a convolution", "inferred")
    elif "attention" in r.name.lower() or "fmha" in r.name.lower():
        return r.done("attention", "cutlass attention")
    else:
        r.note("Kernel", "a CUTLASS kernel, a matmul as a rule", "inferred")
    sizes = r"GemmShape(?:ILi(\d+)ELi(\d+)ELi(\d+)E|<(\d+), ?(\d+), ?(\d+)>)"
    if found := rx(sizes).search(r.name):
        r.put_tile(found[0], "inferred", [int(number) for number in found.groups() if number])
    dtype = _cpp.dtype(next(iter(rx(r"cutlass::\w+_t\b").findall(r.name)), ""))
    kind = r.get("op").replace("_", " ") or "GEMM"
    return r.done("conv" if "conv" in r.get("op") else "gemm", f"cutlass {kind} {{tile}}", dtype)


_STATES = """
    namespace lib arch tile_mn tile_k stages epilogue layout align_elems dtype_in math_dtype op
    iterator
"""
FAMILY = family("cutlass2x", _decode, 20, _STATES, "documented", hint="cutlass")
