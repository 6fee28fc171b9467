"""cuBLAS helpers around a matmul: split-K sums, separate epilogues, scaling.

`splitKreduce_kernel` adds the partial sums of a matmul that was split along K, under the same op
as the matmul. Its role is `reduction`, not `gemm`: a count of matmuls that included it would
count one matmul twice. `splitKreduce_kernel<32, 16, int, partial, C, compute, result, …>` states
its types in the template; older names have four types only.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import rx
from foretrace.schema.kernel import KernelId

# scope, op, library, short name, meaning, function
_SIMPLE = r"""
    epilogue::impl  epilogue  cublasLt  cublasLt epilogue
        the end of a matmul run as its own kernel  globalKernel
    -  scal  cublas  scale C by beta  scales the result matrix by beta  scal_kernel
"""


def _decode(r: NameParser) -> KernelId | None:
    if r.base == "splitKreduce_kernel":
        return _splitk(r)
    if row := r.row(_SIMPLE):
        scope, *rest = row
        known = r.cpp.scope.endswith(scope) if scope else "cublas" in r.name
        return _simple(r, *rest) if known else None
    if rx(r"magma_[sdcz]gemmEx_kernel").fullmatch(r.base):
        return _old_gemm(r, "cublas (MAGMA-derived)", f"{r.base[6]}gemm {{dtype_in}} (magma)")
    if r.base.startswith("sgemm_largek"):
        return _old_gemm(r, "cublas", "sgemm {dtype_in} (large K)")
    return None


def _splitk(r: NameParser) -> KernelId:
    lib = "cublasLt" if r.cpp.scope == "cublasLt" else "cublas"
    meaning = "adds the partial sums of a matmul split along K"
    r.put(r.base, "op", "splitk_reduce", meaning, "checked")
    r.put(r.cpp.scope or r.base, "lib", lib, "launched by {}", "checked")
    sized = _cpp.integer(r.arg(0)) is not None  # newer: two sizes and an index type come first
    if sized:
        r.read(r.arg(3), "dtype_partial")
        r.read(r.arg(5), "dtype_acc", "added in {}")
    written, sure = (r.arg(6), "checked") if sized else (r.arg(3), "inferred")
    r.read(written, "dtype_out", certainty=sure)
    return r.done("reduction", "split-K reduce {dtype_out}")


def _simple(r: NameParser, op: str, lib: str, short: str, meaning: str) -> KernelId:
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "lib", lib, "a {} kernel")
    first = 0 if _cpp.integer(r.arg(0)) is None else 2  # newer: two sizes come first
    dtype = _common(r.cpp.args[first : first + 2])
    r.put(r.arg(first), "dtype_in", dtype)
    r.put(r.arg(first + 1), "dtype_out", dtype)
    return r.done("pointwise", short, dtype)


def _old_gemm(r: NameParser, lib: str, short: str) -> KernelId:
    r.put(r.base, "op", "gemm", "a matmul, old make")
    r.put(r.base, "lib", lib, "a cuBLAS kernel")
    r.put(r.base, "tensor_core", False)
    dtype = _common(r.cpp.args[:3]) if r.base.startswith("magma") else "f32"
    r.put(r.base, "dtype_in", dtype, "type of the inputs: {}")
    r.put(r.base, "dtype_out", dtype)
    return r.done("gemm", short)


def _common(types: tuple[str, ...]) -> str | None:
    """The one type that all of them are."""
    dtypes = {_cpp.dtype(text) for text in types}
    return dtypes.pop() if len(dtypes) == 1 else None


_HINT = "splitKreduce_kernel|globalKernel|scal_kernel|magma_|sgemm_largek"
_STATES = "op lib dtype_in dtype_partial dtype_out dtype_acc tensor_core"
FAMILY = family("cublas_aux", _decode, 30, _STATES, hint=_HINT)
