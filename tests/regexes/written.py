"""Every regular expression in the source, and how it is used."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[2] / "src"
_METHODS = "match search fullmatch findall finditer sub subn split"
METHODS = frozenset(_METHODS.split())
MAKERS = frozenset({"compile", "regex", "rx", "says"})
FITTED = {"hint": "search", "head": "match", "base": "fullmatch"}  # patterns of a kernel family


class Written(NamedTuple):
    """One expression; `pattern` is None where only a run tells it. `methods` are called on it."""

    place: str
    pattern: str | None
    flags: int
    methods: frozenset[str]


def written(folder: Path = SOURCE / "foretrace") -> Iterator[Written]:
    """Every one, in the order of the files."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in ("re.", "rx(", "regex(", "family(")):
            yield from _in_module(path, ast.parse(text))


def _in_module(path: Path, tree: ast.Module) -> Iterator[Written]:
    place = path.relative_to(SOURCE)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    wanted = [call for call in calls if call.args and _method(call.func) in METHODS | MAKERS]
    module: ModuleType | None = None
    name = str(place.with_suffix("")).replace("/", ".").removesuffix(".__init__")
    for made in (call for call in calls if _method(call.func) == "family"):
        for word in (word for word in made.keywords if word.arg in FITTED):
            module = module or importlib.import_module(name)
            pattern = _value(word.value, module)  # None: only a run tells it
            anchored = isinstance(pattern, str) and pattern.startswith("^")
            method = "match" if anchored else FITTED[str(word.arg)]
            yield Written(f"{place}:{made.lineno}", pattern, re.ASCII, frozenset({method}))
    for call in wanted:
        if not _of_re(call.func):
            continue
        module = module or importlib.import_module(name)
        method = _method(call.func)
        method = "search" if method == "says" else method
        methods = {method} if method in METHODS else _used(path, call, parents)
        yield Written(f"{place}:{call.lineno}", *_evaluated(call, module), frozenset(methods))


def _method(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _of_re(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in MAKERS
    return isinstance(function.value, ast.Name) and function.value.id == "re"  # type: ignore[attr-defined]


def _used(path: Path, call: ast.Call, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """The methods that are called on a compiled expression, where its name is known."""
    parent = parents[call]
    if isinstance(parent, ast.Attribute):
        return {parent.attr}
    if not isinstance(parent, ast.Assign | ast.AnnAssign):
        return set(METHODS)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
    name = getattr(target, "attr", getattr(target, "id", ""))
    if not name.startswith("_"):
        return _called().get(name, set())
    return set(re.findall(rf"\b{name}\.(\w+)", path.read_text())) & METHODS


@cache
def _called() -> dict[str, set[str]]:
    """The methods that the whole source calls, by the name that stands before them."""
    found: dict[str, set[str]] = {}
    for path in (SOURCE / "foretrace").rglob("*.py"):
        calls = rf"\b(\w+)\.({'|'.join(METHODS)})\b"
        for name, method in re.findall(calls, path.read_text()):
            found.setdefault(name, set()).add(method)
    return found


def _value(node: ast.expr, module: ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "", "eval"), dict(vars(module)))
    except NameError:
        return None


def _evaluated(call: ast.Call, module: ModuleType) -> tuple[str | None, int]:
    second = (node for node in call.args[1:2] if not isinstance(node, ast.Starred))  # of texts
    nodes = [call.args[0], *second, *(word.value for word in call.keywords)]
    values = [_value(node, module) for node in nodes]
    flags = sum(value for value in values[1:] if isinstance(value, re.RegexFlag))
    pattern = values[0]
    flags |= re.ASCII if _method(call.func) == "rx" or isinstance(pattern, bytes) else 0
    pattern = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    return pattern if isinstance(pattern, str) else None, int(flags)
