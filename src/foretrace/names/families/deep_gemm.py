"""DeepGEMM: matmuls in fp8 and bf16 with block scales, compiled for one shape.

    deep_gemm::sm90_fp8_gemm_1d2d_impl<[major,] M, N, K, groups, BM, BN, BK, …, type, …>
    deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<major, major[, granularity of A, of B[, alignment]],
        M, N, K, BM, BN, BK, groups, …, type, …, A, B, C, epilogue>
    deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<N, K, BM, BN, BK, splits, …>
    deep_gemm::sm90_fp8_mqa_logits<heads, head_dim, …>

A size of 0 is passed when the kernel runs. `1d2d`: A has one scale per row and 128 along K, B one
per 128 x 128; `1d1d`: both have one per row. Versions differ in the number of template arguments;
where the number is not one that is known, only what stands in front is read.
"""

from __future__ import annotations

from itertools import takewhile

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, arch_meaning, family, one_of, rx

TYPES = {"fp8": "e4m3", "bf16": "bf16", "tf32": "tf32"}
GEMM_TYPES = (
    "normal",
    "groups along M, contiguous",
    "groups along M, masked",
    "groups along K, contiguous",
    "batched",
    "groups along M, contiguous, by prefix sums",
    "groups along K, contiguous, by prefix sums",
)
RECIPES = {
    "1d2d": "one scale per row and 128 along K for A, one per 128 x 128 for B",
    "1d1d": "one scale per row and slice of K for A and B",
}
_GEMM = r"(?P<arch>sm\d{2,3})_(?P<type>fp8_fp4|fp8|bf16)_gemm(?:_(?P<recipe>1d1d|1d2d))?_impl"
_PRENORM = r"(?P<arch>sm\d{2,3})_(?P<type>tf32)_hc_prenorm_gemm_impl"
_LOGITS = r"(?P<arch>sm\d{2,3})_(?P<type>fp8|fp4|fp8_fp4)_(?P<paged>paged_)?mqa_logits\w*"
# numbers in front of the first flag -> numbers in front of M, for the kernels of sm100 and later
_SM100 = {14: 0, 15: 0, 16: 2, 17: 3}


def _decode(r: NameParser) -> KernelId | None:
    if r.cpp.scope.split("::")[0] != "deep_gemm":
        return None
    for pattern, read in ((_GEMM, _gemm), (_PRENORM, _prenorm), (_LOGITS, _logits)):
        if found := rx(pattern).fullmatch(r.base):
            r.found = found
            r.put("deep_gemm", "lib", "DeepGEMM")
            return read(r)
    return _words.literal(r, "DeepGEMM")


def _op(r: NameParser, op: str, meaning: str) -> None:
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "arch", r["arch"], arch_meaning(r["arch"]))


def _gemm(r: NameParser) -> KernelId:
    _op(r, "gemm", "a matmul")
    r.put(r.base, "tensor_core", True)
    r.put(r.base, "recipe", r["recipe"], RECIPES.get(r["recipe"], "-"))
    args = tuple(text for text in r.cpp.args if "UMMA::Major" not in text)
    numbers = list(takewhile(lambda text: _cpp.integer(text) is not None, args))
    ended = len(numbers) < len(args)
    old = r["arch"] == "sm90"
    start = 0 if old else _SM100.get(len(numbers), -1) if ended else -1
    if start >= 0:
        _sizes(r, numbers[start:], grouped_first=old, whole=ended)
    _types(r, args)
    grouping = next((text for text in args if "GemmType)" in text), "")
    number = _cpp.integer(grouping[-1:])
    r.put(grouping, "grouping", one_of(GEMM_TYPES, number), "{}")
    group = "batched" if number == 4 else "grouped" if number else ""
    dtype = "{dtype_in}" if r.get("dtype_in") else "{dtype_a}"
    return r.done("gemm", f"DeepGEMM {group} {{arch}} {{tile}} {dtype} {{recipe}}")


def _sizes(r: NameParser, texts: list[str], grouped_first: bool, whole: bool) -> None:
    """M, N, K, then groups and tile, or tile and groups. A cut name may have lost its last."""
    sizes = [_cpp.integer(text) or 0 for text in texts]
    for text, size, letter in zip(texts[1:3], sizes[1:3], "nk", strict=False):
        meaning = f"{letter.upper()} = {{}}, fixed when compiled"
        r.put(text, f"shape_{letter}", size or None, meaning)
    if whole and len(sizes) >= 7:
        at, place = (4, 3) if grouped_first else (3, 6)
        r.put_tile(", ".join(texts[at : at + 3]), tile=sizes[at : at + 3], row_major=True)
        r.put(texts[place], "groups", sizes[place], "number of groups, such as experts")


def _types(r: NameParser, args: tuple[str, ...]) -> None:
    types = [text for text in args if _cpp.dtype(text)]
    if len(types) == 3:  # A, B and the result
        r.read(types[0], "dtype_a", "type of A (the activation): {}")
        r.read(types[1], "dtype_b", "type of B (the weight): {}")
        r.read(types[2], "dtype_out")
    elif r["type"] in TYPES:
        r.put(r.base, "dtype_in", TYPES[r["type"]], "type of both inputs: {}")


def _prenorm(r: NameParser) -> KernelId:
    _op(r, "gemm", "a matmul with the sum of squares that the norm before it needs")
    sizes = [_cpp.integer(text) or 0 for text in r.cpp.args]
    if len(sizes) >= 6:
        r.put_tile(", ".join(r.cpp.args[2:5]), tile=sizes[2:5], row_major=True)
        r.put(r.arg(5), "splits", sizes[5])
    r.put(r.base, "math_dtype", "tf32", "multiplied as {}")
    return r.done("gemm", "DeepGEMM prenorm {arch} {tile} tf32")


def _logits(r: NameParser) -> KernelId:
    _op(r, "mqa_logits", "scores of all keys for sparse attention: which keys to attend to")
    args = r.cpp.args[1:3] if r["paged"] else r.cpp.args[:2]
    r.read_all(args if len(args) == 2 else (), "heads head_dim")
    head = f"hd{r.get('head_dim')}" if r.get("head_dim") else ""
    return r.done("attention", f"DeepGEMM {'paged' if r['paged'] else ''} mqa logits", head)


_STATES = """
    lib op arch recipe shape_n shape_k tile groups grouping dtype_in dtype_a dtype_b splits
    math_dtype heads head_dim
"""
FAMILY = family("deep_gemm", _decode, 34, _STATES, "documented", hint="deep_gemm::")
