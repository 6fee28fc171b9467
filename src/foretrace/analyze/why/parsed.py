"""Python text as syntax trees. Nothing is ever run, and nothing that is too large is parsed."""

from __future__ import annotations

import ast
import warnings

LARGEST = 16 << 20  # characters; the tree takes some 50 times as much memory


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
