"""cuBLAS names that begin with a chip generation:
`ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn`.

    <arch>_[<out>_]<acc>[<mma>]gemm[_<in>]_<M>x<N>[_sliced<a>x<b>][_ldg<v>][_relu][_f2f]
        [_stages_<K>x<S>]_<layout>[_v1]

A type that is not printed equals the accumulator's. No MMA digits means CUDA cores: `ampere_sgemm`
is true float32, not TF32. Split-K is not in these names: look for a splitKreduce kernel under the
same op.
"""

from __future__ import annotations

from foretrace.names.families._matmul import ARCH, PAIR, WORDS, MatmulParser, times
from foretrace.names.families._parser import joined, rx, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

_TYPE = "fp16|bf16|int8|int32|tf32|fp32|fp64"
_HEAD = (
    rf"(?P<word>maxwell|pascal|volta|turing|ampere|ada|hopper)_(?:(?P<out>{_TYPE})_)?"
    rf"(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?gemm)(?:_(?P<in>{_TYPE}))?(?=_|$)"
)
# field, kind, certainty, meaning, pattern of the word
_WORDS = r"""
    sliced    text    -  warp groups of one block split the tile along K  sliced(\d{1,5}x\d{1,5})
    ldg       number  -  loads {} elements at a time                      ldg(\d{1,3})
    f2f       flag    -  converts the type at the end                     f2f
    triangle  text    -  writes one triangle of the result                upper|lower
"""


def _decode(name: str) -> KernelId | None:
    whole = uncut(name).removesuffix("_kernel")
    head = rx(_HEAD).match(whole)
    if not head:
        return None
    r = MatmulParser(name, "cublas_legacy")
    put_head(r, head.groupdict(), ended=whole == head[0])
    r.put(head["core"], "op", "gemm", "a matmul")
    r.put(head["core"], "lib", "cublas", "a cuBLAS kernel")
    if head["acc"].startswith("g"):
        words = "complex matmul by the Gaussian method, three real multiplications instead of four"
        r.put(head["core"], "complex_method", "gaussian (3-multiply)", words)
    for word in whole[head.end() + 1 :].split("_"):
        put_word(r, word)
    tile = times(r.get("tile") or r.get("tile_mn"))
    short = joined("cublas", head["word"], tile, r.get("layout"), r.get("dtype_in"))
    return r.done("gemm", short)


def put_head(r: MatmulParser, found: dict[str, str], ended: bool) -> None:
    """Generation, accumulator, MMA shape and types: shared with the cuDNN names of the same make.

    `ended`: nothing follows, so the input type may have been cut off.
    """
    word = found["word"]
    meaning = "the chip generation the kernel was written for, not the card in use"
    r.put(word, "arch_word", word, meaning)
    r.put_arch(word, ARCH.get(word))
    r.put_core(found)
    r.put_tensor_core(found["core"], bool(found["mma"]))
    if found["in"] or not ended:
        inputs = WORDS.get(found["in"] or "", r.fields["dtype_acc"])
        r.put(found["in"] or found["core"], "dtype_in", inputs, "type of both inputs: {}")


def put_word(r: MatmulParser, word: str) -> None:
    """One of the words after the types. An unknown word stays without a part: the gap says so."""
    if rx(PAIR).fullmatch(word):
        r.put_pair(word)
    elif word == "relu":
        r.put_relu(word)
    elif word == "stages":
        r.note(word, "depth along K and pipeline stages follow")
    elif rx(r"[ntc]{2}").fullmatch(word):
        r.put_layout(word, word)
    else:
        r.put_word(word, _WORDS)


_STATES = """
    arch tile_mn tile_k stages tile mma dtype_in dtype_out dtype_acc layout tensor_core epilogue
"""
FAMILY = Family("cublas_legacy", _decode, 11, word_set(_STATES))
