"""ATen's cat, index, gather and scatter. `OpaqueType<2>` states bytes instead of a type."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

FAMILY_NAME = "aten_index_cat"
INDEX_OPS = {
    "index_kernel_impl": ("aten::index", "index (gather"),
    "index_put_kernel_impl": ("aten::index_put_", "index_put ("),
    "index_fill_kernel_impl": ("aten::index_fill_", "index_fill ("),
    "index_copy_kernel_impl": ("aten::index_copy_", "index_copy ("),
    "take_put_kernel_impl": ("", "take/put ("),
}
# whole-name kernels -> (op where one op alone launches it, short)
PLAIN = {
    "indexFuncSmallIndex": ("", "index_add {}"),
    "indexFuncLargeIndex": ("", "index_add {}"),
    "indexing_backward_kernel": ("", "index_put accumulate {}"),
    "indexing_backward_kernel_stride_1": ("", "index_put accumulate {}"),
    "indexing_backward_kernel_small_stride": ("", "index_put accumulate {}"),
    "embedding_backward_feature_kernel": ("aten::embedding_dense_backward", "embedding bwd {}"),
    "flip_cuda_kernel": ("aten::flip", "flip {}"),
    "roll_cuda_kernel": ("aten::roll", "roll {}"),
}


def _decode(name: str) -> KernelId | None:
    words = r"CatArray|index|scatter|gather|embedding_backward|flip_cuda|roll_cuda"
    if not rx(words).search(name[:160]):
        return None
    cpp = _cpp.parse(name)
    if cpp.base.startswith("CatArrayBatchedCopy"):
        return _cat(name, cpp)
    if cpp.base in ("indexSelectSmallIndex", "indexSelectLargeIndex"):
        return _select(name, cpp)
    if cpp.base == "index_elementwise_kernel":
        return _index(name, cpp)
    if cpp.base == "_scatter_gather_elementwise_kernel":
        return _scatter(name, cpp)
    if cpp.base == "vectorized_gather_kernel":
        return _plain(name, cpp, "aten::gather", "gather (vectorized)")
    if cpp.base in PLAIN:
        return _plain(name, cpp, *PLAIN[cpp.base])
    return None


def _put_value(r: NameParser, text: str) -> str:
    """The element: a type, or its bytes where the type was erased. Returns it in words."""
    size = rx(r"(?:[\w:]*::)?OpaqueType<(?:\(\w+\))?(\d{1,3})\w*>").fullmatch(text)
    if size:
        meaning = f"elements of {size[1]} bytes; the type is erased"
        r.put(text, "element_bytes", int(size[1]), meaning, "checked")
        return f"{size[1]}-byte dtype"
    return _cpp.put_dtype(r, text, "dtype", "elements of {}", "checked")


def _start(name: str, cpp: _cpp.Cpp, op: str) -> NameParser:
    r = NameParser(name, FAMILY_NAME, "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel for this kind of addressing")
    r.put(cpp.base, "op", op, "the op that launches it", "checked")
    return r


def _cat(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = _start(name, cpp, "aten::cat")
    value = _put_value(r, cpp.arg(0))
    dims = _cpp.integer(cpp.arg(2))
    r.put(cpp.arg(2), "dims", dims, "{}-dimensional")
    r.put(cpp.arg(3), "batch", _cpp.integer(cpp.arg(3)), "up to {} tensors per launch")
    words = f"cat ({value}, {dims}D)" if "byte" in value else f"cat {value} {dims}D"
    return r.done("copy", words if value and dims else "cat")


def _select(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = _start(name, cpp, "aten::index_select")
    value = _put_value(r, cpp.arg(0))
    _cpp.put_dtype(r, cpp.arg(1), "index_dtype", "indices of {}")
    return r.done("scatter_gather", joined("index_select", value, "(embedding)"))


def _index(name: str, cpp: _cpp.Cpp) -> KernelId:
    inner = next((word for word in INDEX_OPS if f"{word}<" in cpp.arg(2)), "")
    op, short = INDEX_OPS.get(inner, ("", "index ("))
    r = _start(name, cpp, op)
    value = _put_value(r, next(iter(_cpp.inside(cpp.arg(2), inner)), "")) if inner else ""
    joint = ", " if short.endswith("gather") else ""
    return r.done("scatter_gather", f"{short}{joint}{value})" if value else short.split(" ")[0])


def _scatter(name: str, cpp: _cpp.Cpp) -> KernelId:
    args = _cpp.inside(cpp.arg(2), "_cuda_scatter_gather_internal_kernel")
    scatter = _cpp.boolean(args[0]) if args else None
    added = "ReduceAdd" in cpp.arg(2)
    op = "aten::gather" if scatter is False else "aten::scatter_add" if added else "aten::scatter"
    if cpp.truncated or scatter is None:
        return _start(name, cpp, "").done("scatter_gather", "scatter/gather")
    r = _start(name, cpp, op)
    value = _put_value(r, args[1]) if len(args) > 1 else ""
    return r.done("scatter_gather", joined(op[6:], f"({value})" if "byte" in value else value))


def _plain(name: str, cpp: _cpp.Cpp, op: str, short: str) -> KernelId:
    r = _start(name, cpp, op)
    value = _put_value(r, cpp.arg(0)) if "{}" in short else ""
    role = "copy" if "flip" in short or "roll" in short else "scatter_gather"
    return r.done(role, short.format(value).strip())


FAMILY = Family(FAMILY_NAME, _decode, 41, word_set("op element_bytes dims dtype batch"))
