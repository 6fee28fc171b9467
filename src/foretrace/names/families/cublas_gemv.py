"""cuBLAS kernels for matmuls with a vector, and for matrices that are nearly one.

- `internal::gemvx::kernel<int, int, TA, Tx, Ty, Tcompute, …>`: matrix times vector
- `gemv2T_kernel_val<int, int, TA, Tx, Ty, Tc, …>`: the same with A transposed
- `gemv2N_kernel<…>`: the same with A as it is
- `gemvNSP_kernel<TA, Tx, Ty, Tc, …>`: the same; nobody explains NSP
- `dot_kernel<…>`, then `reduce_1Block_kernel<…>`: a dot product in two launches
- `gemmk1_kernel<Tc, …, tensor<TA const>, tensor<TB const>, tensor<TC>, …>`: a matmul with K = 1;
  the first type is that of the arithmetic, the tensors have their own
- `gemmSN_TN_kernel<T, …>`: a matmul with a small N
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import layout_meaning
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

FAMILY_NAME = "cublas_gemv"
_TENSOR = r"cublasGemvTensor\w{0,60}<([\w:]+)"
_NAMES = ("gemv", "dot_kernel", "reduce_1Block_kernel", "gemmk1_kernel", "gemmSN_")


def _decode(name: str) -> KernelId | None:
    if not any(word in name[:120] for word in _NAMES):
        return None
    cpp = _cpp.parse(name)
    if cpp.base == "kernel" and cpp.scope.endswith("gemvx"):
        return _gemv(name, "gemvx", cpp.args[2:6])
    if found := rx(r"gemv2([TN])_kernel(?:_val)?").fullmatch(cpp.base):
        return _gemv(name, cpp.base, cpp.args[2:6], transposed=found[1] == "T")
    if cpp.base == "gemvNSP_kernel":
        return _gemv(name, cpp.base, cpp.args[:4])
    if cpp.base in ("dot_kernel", "reduce_1Block_kernel") and "cublas" in name:
        return _dot(name, cpp.base)
    if cpp.base == "gemmk1_kernel" or rx(r"gemmSN_[NT]{2}_kernel").fullmatch(cpp.base):
        return _thin(name, cpp)
    return None


def _gemv(name: str, base: str, types: tuple[str, ...], transposed: bool | None = None) -> KernelId:
    r = NameParser(name, FAMILY_NAME, "checked")
    r.put(base, "op", "gemv", "a matrix times a vector; the launching op may be mm or addmm")
    r.put(base, "lib", "cublas", "a cuBLAS kernel")
    if transposed is not None:
        words = "the matrix is used transposed" if transposed else "the matrix is used as it is"
        r.put(base, "transposed", transposed, words)
    if len(types) == 4:
        _cpp.put_dtype(r, types[0], "dtype_in", "type of the matrix: {}")
        _cpp.put_dtype(r, types[2], "dtype_out", "type of the result: {}")
        _cpp.put_dtype(r, types[3], "dtype_acc", "sums are kept in: {}")
    kind = "gemv^T" if transposed else "gemv (NSP)" if base == "gemvNSP_kernel" else "gemv"
    return r.done("gemv", joined(kind, r.get("dtype_in")))


def _dot(name: str, base: str) -> KernelId:
    r = NameParser(name, FAMILY_NAME, "checked")
    first = base == "dot_kernel"
    r.put(base, "op", "dot", "a dot product, in two launches")
    r.put(base, "lib", "cublas", "a cuBLAS kernel")
    r.put(base, "phase", 1 if first else 2, "partial sums" if first else "adds the partial sums")
    template = name[: name.find(">(") + 1 or None]  # the argument list repeats it
    types = rx(_TENSOR).findall(template)
    if first and len(types) == 2:
        _cpp.put_dtype(r, types[0], "dtype_in", "type of both vectors: {}", "inferred")
    if len(types) == (2 if first else 3):
        _cpp.put_dtype(r, types[-1], "dtype_out", "type of the result: {}", "inferred")
    if first:
        return r.done("gemv", joined("dot", r.get("dtype_in")))
    return r.done("gemv", joined("dot (final reduce)", r.get("dtype_out")))


def _thin(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = NameParser(name, FAMILY_NAME, "checked")
    k1 = cpp.base == "gemmk1_kernel"
    words = "a matmul with K = 1" if k1 else "a matmul with a small N"
    r.put(cpp.base, "lib", "cublas", f"a cuBLAS kernel: {words}", "inferred")
    if not k1:
        letters = cpp.base[7:9].lower()
        r.put(cpp.base, "layout", letters, layout_meaning(letters), "inferred")
    if k1:
        _tensor_types(r, cpp)
    else:
        _cpp.put_dtype(r, cpp.arg(0), "dtype_in", "type of the inputs: {}", "inferred")
    return r.done("gemm", joined("GEMM K=1" if k1 else "GEMM small N", r.get("dtype_in")))


def _tensor_types(r: NameParser, cpp: _cpp.Cpp) -> None:
    """The first template argument is the arithmetic; inputs and result say their own types."""
    _cpp.put_dtype(r, cpp.arg(0), "dtype_acc", "computed in {}", "inferred")
    types = [found[1] for text in cpp.args if (found := rx(_TENSOR).match(text))]
    inputs = {_cpp.dtype(text) for text in types[:2]}
    if len(types) >= 3 and len(inputs) == 1:
        _cpp.put_dtype(r, types[0], "dtype_in", "type of the inputs: {}", "inferred")
        _cpp.put_dtype(r, types[2], "dtype_out", "type of the result: {}", "inferred")


FAMILY = Family(FAMILY_NAME, _decode, 30, word_set("op transposed dtype_in dtype_out dtype_acc"))
