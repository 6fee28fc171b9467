"""One direction: no import of the package, however it is written, closes a circle.

import-linter holds the layers, every package in one. This also walks what it does not see: imports
inside functions, imports for type checkers alone, and module names in strings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "foretrace").rglob("*.py"))
}
Graph = dict[str, set[str]]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text())


def imports(name: str) -> Iterator[str]:
    """The modules of the package that a module names: in functions, for types and in strings."""
    for node in ast.walk(tree(name)):
        yield from _named(node)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (module for each in node.names if (module := _module(each.name)))
    elif isinstance(node, ast.ImportFrom) and node.module:
        for each in node.names:
            yield _module(f"{node.module}.{each.name}") or _module(node.module) or ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield FILES_BY_STRING.get(node.value, "")


def _module(name: str) -> str:
    return name if name in FILES else ""


# A whole module name in a string is an import in disguise, whoever resolves it.
FILES_BY_STRING = {name: name for name in FILES if "." in name}


@cache
def graph() -> Graph:
    return {name: {*imports(name)} - {"", name} for name in FILES}


def top(name: str) -> str:
    return ".".join(name.split(".")[:2])


def circle(found: Graph) -> list[str]:
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_two_modules_import_each_other() -> None:
    assert circle(graph()) == []


def test_no_two_packages_import_each_other() -> None:
    packages: Graph = {}
    for name, used in graph().items():
        if name != "foretrace":  # the public face names them all
            packages.setdefault(top(name), set()).update({top(each) for each in used} - {top(name)})
    assert circle(packages) == []


def test_no_import_hides_in_a_string() -> None:
    hidden = {
        name: each
        for name in FILES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Constant) and (each := FILES_BY_STRING.get(str(node.value)))
        if each != name  # the group of entry points that a package reads has its own name
    }
    assert hidden == {}


def test_the_walk_sees_lazy_imports_types_and_strings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from foretrace.base import units\n")
    (tmp_path / "b.py").write_text("import_module('foretrace.base.units')\n")
    (tmp_path / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import foretrace.base.units\n"
    )
    for name in "abc":
        monkeypatch.setitem(FILES, name, tmp_path / f"{name}.py")
    for name in "abc":
        assert set(imports(name)) - {""} == {"foretrace.base.units"}
