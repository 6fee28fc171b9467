"""Expressions of generated code as indices: whole numbers, variables and what follows."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from foretrace.analyze.why.index_forms import Index, operation
from foretrace.analyze.why.parsed import dotted

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_HELPERS = {
    "div_floor_integer": "//", "remainder_integer": "%", "minimum": "min", "maximum": "max",
    "where": "where",
}  # fmt: skip
_WHOLE = ("tl.int", "tl.uint")
Known = Mapping[str, Index | None]


def index_of(node: ast.expr, known: Known) -> Index | None:
    """The index that an expression is; None where data or a float decides it."""
    match node:
        case ast.Constant(value=int(whole)):
            return int(whole)
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=kind, right=right):
            return _operation(type(kind), known, left, right)
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            return _operation(type(kind), known, left, right)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return operation("-", 0, index_of(inner, known))
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inner):
            return operation("~", index_of(inner, known))
        case ast.Subscript(value=inner):  # `[:, None]`
            return index_of(inner, known)
        case ast.Call():
            return _call(node, known)
    return None


def _operation(kind: type[ast.AST], known: Known, *parts: ast.expr) -> Index | None:
    return operation(_BINARY.get(kind, ""), *(index_of(part, known) for part in parts))


def _call(node: ast.Call, known: Known) -> Index | None:
    name = dotted(node.func)
    helper = name.rpartition(".")[2]
    if name == "tl.full":
        return index_of(node.args[1], known) if len(node.args) > 1 else None
    if name == "tl.broadcast_to":
        return index_of(node.args[0], known) if node.args else None
    if helper in _HELPERS and name.startswith(("tl.", "triton_helpers.", "c10.")):
        return operation(_HELPERS[helper], *(index_of(part, known) for part in node.args))
    if isinstance(node.func, ast.Attribute):
        whole = bool(node.args) and dotted(node.args[0]).startswith(_WHOLE)
        if node.func.attr == "broadcast_to" or (node.func.attr == "to" and whole):
            return index_of(node.func.value, known)
    return None
