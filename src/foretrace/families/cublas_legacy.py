"""cuBLAS names that begin with a chip generation:
`ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn`.

    <arch>_[<out>_]<acc>[<mma>]gemm[_<in>]_<M>x<N>[_sliced<a>x<b>][_ldg<v>][_relu][_f2f]
        [_stages_<K>x<S>]_<layout>[_v1]

A type that is not printed equals the accumulator's. No MMA digits means CUDA cores: `ampere_sgemm`
is true float32, not TF32. Split-K is not in these names: look for a splitKreduce kernel under the
same op.
"""

from __future__ import annotations

from foretrace.families._dtypes import ACCUMULATOR, WORDS
from foretrace.families._matmul import (
    ARCH,
    MMA,
    PAIR,
    put_arch,
    put_layout,
    put_relu,
    put_tensor_core,
    put_tile,
    put_tile_k,
    shape,
    times,
)
from foretrace.families._parser import NameParser, joined, rx, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

_TYPE = "fp16|bf16|int8|int32|tf32|fp32|fp64"
_HEAD = (
    rf"(?P<word>maxwell|pascal|volta|turing|ampere|ada|hopper)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<gemm>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?gemm)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)


def _decode(name: str) -> KernelId | None:
    whole = uncut(name).removesuffix("_kernel")
    head = rx(_HEAD).match(whole)
    if not head:
        return None
    r = NameParser(name, "cublas_legacy")
    put_head(r, head.groupdict(), ended=whole == head[0])
    r.put(head["gemm"], "op", "gemm", "a matrix product")
    r.put(head["gemm"], "lib", "cublas", "a cuBLAS kernel")
    if head["acc"].startswith("g"):
        words = "complex product by the Gaussian method, three real multiplications instead of four"
        r.put(head["gemm"], "complex_method", "gaussian (3-multiply)", words)
    for word in whole[head.end() + 1 :].split("_"):
        put_word(r, word)
    return r.done("gemm", _short(r))


def put_head(r: NameParser, found: dict[str, str], ended: bool) -> None:
    """Generation, accumulator, MMA shape and types: shared with the cuDNN names of the same make.

    `ended`: nothing follows, so the input type may have been cut off.
    """
    word, acc = found["word"], ACCUMULATOR[found["acc"]]
    meaning = "the chip generation the kernel was written for, not the card in use"
    r.put(word, "arch_word", word, meaning)
    if word in ARCH:
        put_arch(r, word, ARCH[word])
    out, inp = (WORDS.get(found[side] or "", acc) for side in ("out", "in"))
    r.put(found["out"] or found["gemm"], "dtype_out", out, "type of the result: {}")
    r.put(found["gemm"], "dtype_acc", acc, "sums are kept in {}")
    if found["mma"] in MMA:
        r.put(found["gemm"], "mma", MMA[found["mma"]], "shape of one tensor-core instruction")
    put_tensor_core(r, found["gemm"], bool(found["mma"]))
    if found["in"] or not ended:
        r.put(found["in"] or found["gemm"], "dtype_in", inp, "type of both inputs: {}")


def put_word(r: NameParser, word: str) -> None:
    """One of the words after the types. An unknown word stays without a part: the gap says so."""
    if rx(PAIR).fullmatch(word):
        if "tile_mn" in r.fields:
            put_tile_k(r, word)
        else:
            put_tile(r, word, shape(word), field="tile_mn")
    elif word.startswith("sliced") and rx(PAIR).fullmatch(word[6:]):
        r.put(word, "sliced", word[6:], "warp groups of one block split the tile along K")
    elif rx(r"ldg\d{1,3}").fullmatch(word):
        r.put(word, "ldg", int(word[3:]), f"loads {word[3:]} elements at a time")
    elif word == "relu":
        put_relu(r, word)
    elif word == "f2f":
        r.put(word, "f2f", True, "converts the type at the end")
    elif word in ("upper", "lower"):
        r.put(word, "triangle", word, "writes one triangle of the result")
    elif word == "stages":
        r.note(word, "depth along K and pipeline stages follow")
    elif rx(r"[ntc]{2}").fullmatch(word):
        put_layout(r, word, word)


def _short(r: NameParser) -> str:
    tile = times(r.get("tile") or r.get("tile_mn"))
    return joined("cublas", r.get("arch_word"), tile, r.get("layout"), r.get("dtype_in"))


FAMILY = Family(
    "cublas_legacy",
    _decode,
    order=11,
    states=word_set("""
        arch tile_mn tile_k stages tile mma dtype_in dtype_out dtype_acc layout
        tensor_core epilogue
    """),
)
