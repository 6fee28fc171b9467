"""The size and the names of things: what keeps the whole readable while its parts change."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILE_LINES, FUNCTION_LINES, SAME_NAMES = 600, 50, 3
# The layer of the `kernels` package and the module are the same MLP: `kernelize` finds it by name.
SAME_THING = {"GeGLUMLP"}


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the source, parsed at the first use."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in trees()}
    assert {str(path): count for path, count in lengths.items() if count > FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": lines
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or 0) - node.body[0].lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_no_file_name_is_used_often() -> None:
    names = Counter(path.name for path in trees() if path.name != "__init__.py")
    assert {name: count for name, count in names.items() if count > SAME_NAMES} == {}


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path))
    assert {
        name: where for name, where in places.items() if len(where) > 1 and name not in SAME_THING
    } == {}
