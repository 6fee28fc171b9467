"""cuBLAS names that begin with a chip generation:
`ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn`.

    <arch>_[<out>_]<acc>[<mma>]gemm[_<in>]_<M>x<N>[_sliced<a>x<b>][_ldg<v>][_relu][_f2f]
        [_stages_<K>x<S>]_<layout>[_v1]

A type that is not printed equals the accumulator's. No MMA digits means CUDA cores: `ampere_sgemm`
is true float32, not TF32. Split-K is not in these names: look for a splitKreduce kernel under the
same op.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family
from foretrace.names.families._tables import ARCH, PAIR, WORDS, arch_meaning, rx

_TYPE = "fp16|bf16|int8|int32|tf32|fp32|fp64"
_HEAD = (
    rf"(?P<word>maxwell|pascal|volta|turing|ampere|ada|hopper)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?gemm)(?:_(?P<in>{_TYPE}))?(?=_|$)"
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


_STATES = """
    arch tile_mn tile_k stages tile mma dtype_in dtype_out dtype_acc layout tensor_core epilogue
"""
FAMILY = family("cublas_legacy", _decode, 11, _STATES, hint="gemm", head=_HEAD)
