"""cuBLAS helpers around a matmul: split-K sums, separate epilogues, scaling.

`splitKreduce_kernel` adds the partial sums of a matmul that was split along K, under the same op
as the matmul. Its role is `reduction`, not `gemm`: a count of matmuls that included it would
count one matmul twice. `splitKreduce_kernel<32, 16, int, partial, C, compute, result, …>` states
its types in the template; older names have four types only.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import MatmulParser
from foretrace.names.families._parser import joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

FAMILY_NAME = "cublas_aux"
_NAMES = ("splitKreduce_kernel", "globalKernel", "scal_kernel", "magma_", "sgemm_largek")


def _decode(name: str) -> KernelId | None:
    if not any(word in name[:80] for word in _NAMES):
        return None
    cpp = _cpp.parse(name)
    if cpp.base == "splitKreduce_kernel":
        return _splitk(name, cpp)
    if cpp.base == "globalKernel" and cpp.scope.endswith("epilogue::impl"):
        meaning = "the end of a matmul run as its own kernel"
        return _simple(name, cpp, "epilogue", "cublasLt", meaning, "cublasLt epilogue")
    if cpp.base == "scal_kernel" and "cublas" in name:
        meaning = "scales the result matrix by beta"
        return _simple(name, cpp, "scal", "cublas", meaning, "scale C by beta")
    if rx(r"magma_[sdcz]gemmEx_kernel").fullmatch(cpp.base):
        return _old_gemm(name, cpp, "cublas (MAGMA-derived)", f"{cpp.base[6]}gemm {{}} (magma)")
    if cpp.base.startswith("sgemm_largek"):
        return _old_gemm(name, cpp, "cublas", "sgemm {} (large K)")
    return None


def _splitk(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = MatmulParser(name, FAMILY_NAME)
    lib = "cublasLt" if cpp.scope == "cublasLt" else "cublas"
    meaning = "adds the partial sums of a matmul split along K"
    r.put(cpp.base, "op", "splitk_reduce", meaning, "checked")
    r.put(cpp.scope or cpp.base, "lib", lib, "launched by {}", "checked")
    sized = _cpp.integer(cpp.arg(0)) is not None  # newer: two sizes and an index type come first
    if sized:
        _cpp.put_dtype(r, cpp.arg(3), "dtype_partial", "partial sums in {}")
        _cpp.put_dtype(r, cpp.arg(5), "dtype_acc", "added in {}")
    written, sure = (cpp.arg(6), "checked") if sized else (cpp.arg(3), "inferred")
    out = _cpp.put_dtype(r, written, "dtype_out", "type of the result: {}", sure)
    return r.done("reduction", joined("split-K reduce", out))


def _simple(name: str, cpp: _cpp.Cpp, op: str, lib: str, meaning: str, short: str) -> KernelId:
    r = MatmulParser(name, FAMILY_NAME)
    r.put(cpp.base, "op", op, meaning)
    r.put(cpp.base, "lib", lib, "a {} kernel")
    first = 0 if _cpp.integer(cpp.arg(0)) is None else 2  # newer: two sizes come first
    dtype = _common(cpp.args[first : first + 2])
    r.put(cpp.arg(first), "dtype_in", dtype, "type of the input: {}")
    r.put(cpp.arg(first + 1), "dtype_out", dtype, "type of the result: {}")
    return r.done("pointwise", joined(short, dtype))


def _old_gemm(name: str, cpp: _cpp.Cpp, lib: str, short: str) -> KernelId:
    r = MatmulParser(name, FAMILY_NAME)
    r.put(cpp.base, "op", "gemm", "a matmul, old make")
    r.put(cpp.base, "lib", lib, "a cuBLAS kernel")
    r.put_tensor_core(cpp.base, False)
    dtype = _common(cpp.args[:3]) if cpp.base.startswith("magma") else "f32"
    r.put(cpp.base, "dtype_in", dtype, "type of the inputs: {}")
    r.put(cpp.base, "dtype_out", dtype, "type of the result: {}")
    return r.done("gemm", " ".join(short.format(dtype or "").split()))


def _common(types: tuple[str, ...]) -> str | None:
    """The one type that all of them are."""
    dtypes = {_cpp.dtype(text) for text in types}
    return dtypes.pop() if len(dtypes) == 1 else None


FAMILY = Family(
    FAMILY_NAME,
    _decode,
    30,
    word_set("op lib dtype_in dtype_partial dtype_out dtype_acc tensor_core"),
)
