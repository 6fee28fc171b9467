"""Text of logs as syntax trees, sizes and JSON. Nothing is run, and no large text is parsed.

A size may be dynamic: `128*s77`, with `s77` known only from a launch.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

LARGEST = 16 << 20  # characters; the tree takes some 50 times as much memory
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LONGEST = 2000  # characters of a size


def parse(text: str) -> ast.Module | None:
    """The tree of a module; None where the text is not Python, or too large or too deep."""
    if len(text) > LARGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a log's escape sequences are not ours to judge
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def json_object(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload; empty where it is not one."""
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def dotted(node: ast.AST) -> str:
    """`torch.ops.aten.mm.default` as text; "" where it is not a plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def number(node: ast.AST | None) -> int | None:
    """A whole number that is written as such."""
    match node:
        case ast.Constant(value=int(value)):
            return int(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -int(value)
    return None


def expression(text: str) -> ast.expr | None:
    """The expression in a text; None where it is not one."""
    try:
        return ast.parse(text, mode="eval").body if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def evaluate(text: str | int, symbols: Mapping[str, int]) -> int | None:
    """The value of a size; None where a symbol is not known."""
    if isinstance(text, int):
        return text
    node = expression(text)
    return None if node is None else _value(node, symbols)


def _value(node: ast.expr, symbols: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return symbols.get(name)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATIONS:
            a, b = _value(left, symbols), _value(right, symbols)
            divides = isinstance(kind, ast.FloorDiv | ast.Mod)
            if a is None or b is None or max(abs(a), abs(b)) >= 1 << 63 or (divides and not b):
                return None
            return _OPERATIONS[type(kind)](a, b)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            negated = _value(inner, symbols)
            return None if negated is None else -negated
    return None


def solve(text: str | int, value: int) -> dict[str, int]:
    """The symbol in `s77` or `128*s77` if the whole is `value`; empty where it is not so simple."""
    node = None if isinstance(text, int) else expression(text)
    while node is not None:
        match node:
            case ast.Name(id=name):
                return {name: value}
            case (
                ast.BinOp(left=ast.Constant(value=int(factor)), op=ast.Mult(), right=rest)
                | ast.BinOp(left=rest, op=ast.Mult(), right=ast.Constant(value=int(factor)))
            ) if factor and value % factor == 0:
                node, value = rest, value // factor
            case _:
                return {}
    return {}
