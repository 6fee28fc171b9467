"""Text of logs as syntax trees, sizes and JSON. Nothing is run, and no large text is parsed.

A size may be dynamic: `128*s77`, with `s77` known only from a launch.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec

LARGEST = 16 << 20  # characters; the tree takes some 50 times as much memory
Range = tuple[int, int]  # the smallest and the largest value
_DIVISIONS = {"div_floor_integer": ast.FloorDiv(), "remainder_integer": ast.Mod()}
_LONGEST = 5000  # characters of an expression


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
    found = node and ranged(node, {name: (value, value) for name, value in symbols.items()})
    return found[0] if found and found[0] == found[1] else None


def ranged(node: ast.expr, known: Mapping[str, Range | None]) -> Range | None:
    """The values that an expression of whole numbers takes; None where data or a float decides."""
    match node:
        case ast.Constant(value=int(value)):
            return int(value), int(value)
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=kind, right=right):
            return _computed(kind, ranged(left, known), ranged(right, known))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _computed(ast.Sub(), (0, 0), ranged(inner, known))
        case ast.Subscript(value=inner):  # `[:, None]`
            return ranged(inner, known)
        case ast.Call(func=ast.Attribute(attr="full"), args=[_, inner, *_]):
            return ranged(inner, known)
        case (
            ast.Call(
                func=ast.Attribute(value=ast.Name(id="tl"), attr="broadcast_to"), args=[inner, *_]
            )
            | ast.Call(func=ast.Attribute(value=inner, attr="broadcast_to"))
        ):
            return ranged(inner, known)
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[kind]):
            whole = dotted(kind).startswith(("tl.int", "tl.uint"))
            return ranged(inner, known) if whole else None
        case ast.Call(func=ast.Attribute(attr=name), args=[left, right]) if name in _DIVISIONS:
            return _computed(_DIVISIONS[name], ranged(left, known), ranged(right, known))
    return None


def _computed(kind: ast.operator, a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None or max(map(abs, (*a, *b))) >= (1 << 63):
        return None
    match kind:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            corners = [one * other for one in a for other in b]
            return min(corners), max(corners)
        case ast.FloorDiv() if b[0] == b[1] != 0:
            return min(ends := (a[0] // b[0], a[1] // b[0])), max(ends)
        case ast.Mod() if b[0] == b[1] > 0:
            same = a[0] // b[0] == a[1] // b[0]
            return (a[0] % b[0], a[1] % b[0]) if same else (0, b[0] - 1)
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
