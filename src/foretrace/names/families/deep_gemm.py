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
from foretrace.names.families._matmul import MatmulParser, times
from foretrace.names.families._parser import joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

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


def _decode(name: str) -> KernelId | None:
    cpp = _cpp.parse(name) if "deep_gemm::" in name[:80] else None
    if not cpp or cpp.scope.split("::")[0] != "deep_gemm":
        return None
    if found := rx(_GEMM).fullmatch(cpp.base):
        return _gemm(name, cpp, found["arch"], found["type"], found["recipe"] or "")
    if found := rx(_PRENORM).fullmatch(cpp.base):
        return _prenorm(name, cpp, found["arch"])
    if found := rx(_LOGITS).fullmatch(cpp.base):
        return _logits(name, cpp, found["arch"], bool(found["paged"]))
    return _words.literal(name, cpp, "deep_gemm", "DeepGEMM")


def _start(name: str, cpp: _cpp.Cpp, op: str, meaning: str, arch: str) -> MatmulParser:
    r = MatmulParser(name, "deep_gemm", "documented")
    r.put("deep_gemm", "lib", "DeepGEMM", "DeepGEMM")
    r.put(cpp.base, "op", op, meaning)
    r.put_arch(cpp.base, arch)
    return r


def _gemm(name: str, cpp: _cpp.Cpp, arch: str, kind: str, recipe: str) -> KernelId:
    r = _start(name, cpp, "gemm", "a matmul", arch)
    r.put_tensor_core(cpp.base, True)
    r.put(cpp.base, "recipe", recipe, RECIPES.get(recipe, ""))
    args = tuple(text for text in cpp.args if "UMMA::Major" not in text)
    numbers = list(takewhile(lambda text: _cpp.integer(text) is not None, args))
    ended = len(numbers) < len(args)
    start = 0 if arch == "sm90" else _SM100.get(len(numbers), -1) if ended else -1
    if start >= 0:
        _sizes(r, numbers[start:], grouped_first=arch == "sm90", whole=ended)
    _types(r, args, cpp.base, kind)
    grouping = next((text for text in args if "GemmType)" in text), "")
    number = int(grouping[-1]) if grouping[-1:].isdigit() else -1
    if 0 <= number < len(GEMM_TYPES):
        r.put(grouping, "grouping", GEMM_TYPES[number], "{}")
    group = "grouped" if 0 < number != 4 else "batched" if number == 4 else ""
    words = (arch, times(r.get("tile")), r.get("dtype_in") or r.get("dtype_a"), recipe)
    return r.done("gemm", joined("DeepGEMM", group, *words))


def _sizes(r: MatmulParser, texts: list[str], grouped_first: bool, whole: bool) -> None:
    """M, N, K, then groups and tile, or tile and groups. A cut name may have lost its last."""
    sizes = [_cpp.integer(text) or 0 for text in texts]
    for text, size, letter in zip(texts[1:3], sizes[1:3], "nk", strict=False):
        if size:
            r.put(text, f"shape_{letter}", size, f"{letter.upper()} = {{}}, fixed when compiled")
    at = 4 if grouped_first else 3
    if whole and len(sizes) >= 7:
        r.put_row_tile(", ".join(texts[at : at + 3]), sizes[at : at + 3])
        place = 3 if grouped_first else 6
        r.put(texts[place], "groups", sizes[place], "number of groups, such as experts")


def _types(r: MatmulParser, args: tuple[str, ...], base: str, kind: str) -> None:
    types = [text for text in args if _cpp.dtype(text)]
    if len(types) == 3:  # A, B and the result
        _cpp.put_dtype(r, types[0], "dtype_a", "type of A (the activation): {}")
        _cpp.put_dtype(r, types[1], "dtype_b", "type of B (the weight): {}")
        _cpp.put_dtype(r, types[2], "dtype_out", "type of the result: {}")
    elif kind in TYPES:
        r.put(base, "dtype_in", TYPES[kind], "type of both inputs: {}")


def _prenorm(name: str, cpp: _cpp.Cpp, arch: str) -> KernelId:
    meaning = "a matmul with the sum of squares that the norm before it needs"
    r = _start(name, cpp, "gemm", meaning, arch)
    sizes = [_cpp.integer(text) or 0 for text in cpp.args]
    if len(sizes) >= 6:
        r.put_row_tile(", ".join(cpp.args[2:5]), sizes[2:5])
        r.put(cpp.arg(5), "splits", sizes[5], "K in {} parts")
    r.put(cpp.base, "math_dtype", "tf32", "multiplied as {}")
    return r.done("gemm", joined("DeepGEMM prenorm", arch, times(r.get("tile")), "tf32"))


def _logits(name: str, cpp: _cpp.Cpp, arch: str, paged: bool) -> KernelId:
    words = "scores of all keys for sparse attention: which keys to attend to"
    r = _start(name, cpp, "mqa_logits", words, arch)
    heads, size = cpp.args[1:3] if paged else cpp.args[:2] if len(cpp.args) > 1 else ("", "")
    r.put(heads, "heads", _cpp.integer(heads), "{} query heads")
    r.put(size, "head_dim", _cpp.integer(size), "head dimension {}")
    head = f"hd{r.get('head_dim')}" if r.get("head_dim") else ""
    return r.done("attention", joined("DeepGEMM", "paged" if paged else "", "mqa logits", head))


_STATES = """
    lib op arch recipe shape_n shape_k tile groups grouping dtype_in dtype_a dtype_b splits
    math_dtype heads head_dim
"""
FAMILY = Family("deep_gemm", _decode, 34, word_set(_STATES))
