"""ATen's cat, index, gather and scatter. `OpaqueType<2>` states bytes instead of a type."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, rows, rx


def _decode(r: NameParser) -> KernelId | None:
    if r.base.startswith("CatArrayBatchedCopy"):
        _put_op(r, "aten::cat")
        value, dims = _put_value(r, r.arg(0)), _cpp.integer(r.arg(2))
        r.read_all(r.cpp.args, "- - dims batch")
        words = f"cat ({value}, {dims}D)" if "byte" in value else f"cat {value} {dims}D"
        return r.done("copy", words if value and dims else "cat")
    if r.base in ("indexSelectSmallIndex", "indexSelectLargeIndex"):
        _put_op(r, "aten::index_select")
        value = _put_value(r, r.arg(0))
        r.read(r.arg(1), "index_dtype")
        return r.done("scatter_gather", "index_select", value, "(embedding)")
    if r.base == "index_elementwise_kernel":
        return _index(r)
    if r.base == "_scatter_gather_elementwise_kernel":
        return _scatter(r)
    row = r.row("aten_index")
    if not row:
        return None
    role, op, short = row
    _put_op(r, op)
    return r.done(role, short, "" if "gather" in short else _put_value(r, r.arg(0)))


def _put_value(r: NameParser, text: str) -> str:
    """The element: a type, or its bytes where the type was erased. Returns it in words."""
    size = rx(r"(?:[\w:]*::)?OpaqueType<(?:\(\w+\))?(\d{1,3})\w*>").fullmatch(text)
    if not size:
        dtype: str = r.read(text, "dtype", "elements of {}", "checked")
        return dtype
    r.put(
        text, "element_bytes", int(size[1]), "elements of {} bytes; the type is erased", "checked"
    )
    return f"{size[1]}-byte dtype"


def _put_op(r: NameParser, op: str) -> None:
    r.put(r.base, "template", r.base, "ATen's kernel for this kind of addressing")
    r.put(r.base, "op", op, certainty="checked")


def _index(r: NameParser) -> KernelId:
    known = (row for row in rows("aten_indexed") if f"{row[2]}<" in r.arg(2))
    op, short, inner = next(known, ("", "index (", ""))
    _put_op(r, op)
    value = _put_value(r, next(iter(_cpp.inside(r.arg(2), inner)), "")) if inner else ""
    joint = ", " if short.endswith("gather") else ""
    return r.done("scatter_gather", f"{short}{joint}{value})" if value else short.split(" ")[0])


def _scatter(r: NameParser) -> KernelId:
    args = _cpp.inside(r.arg(2), "_cuda_scatter_gather_internal_kernel")
    scatter = _cpp.boolean(_cpp.nth(args, 0))
    added = "ReduceAdd" in r.arg(2)
    op = "aten::gather" if scatter is False else "aten::scatter_add" if added else "aten::scatter"
    if r.cpp.truncated or scatter is None:
        _put_op(r, "")
        return r.done("scatter_gather", "scatter/gather")
    _put_op(r, op)
    value = _put_value(r, _cpp.nth(args, 1))
    return r.done("scatter_gather", op[6:], f"({value})" if "byte" in value else value)


_HINT = r"CatArray|index|scatter|gather|embedding_backward|flip_cuda|roll_cuda"
_STATES = "op element_bytes dims dtype batch"
FAMILY = family("aten_index_cat", _decode, 41, _STATES, "documented", hint=_HINT)
