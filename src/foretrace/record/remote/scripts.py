"""What a script needs on another machine: the modules beside it, and the packages it names.

Nothing else of its folder is sent: a folder may hold keys and data.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from foretrace.base.errors import UsageError

_OPENS, _CLOSES = "# /// script", "# ///"


def needed_files(script: Path, included: tuple[str, ...] = ()) -> dict[str, Path]:
    """Names below the script's folder, and their files: the script, what it imports, and more."""
    if not script.is_file():
        raise UsageError(f"no such script: {script}")
    home, found, waiting = script.resolve().parent, dict[Path, None](), [script.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += _beside(path, home) if path.suffix == ".py" else []
    for each in included:
        found |= dict.fromkeys(_included(Path(each), home))
    return {path.relative_to(home).as_posix(): path for path in found}


def _beside(path: Path, home: Path) -> Iterator[Path]:
    """The modules and packages of the script's folder that a file imports."""
    for name in imported_names(path):
        if (home / f"{name}.py").is_file():
            yield home / f"{name}.py"
        elif (home / name / "__init__.py").is_file():
            yield from sorted((home / name).rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    """The top names of everything a file imports, also inside functions."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as problem:
        raise UsageError(f"{path}: not a Python script: {problem}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _included(path: Path, home: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"--include {path}: no such file or folder")
    path = path.resolve()
    if not path.is_relative_to(home):
        raise UsageError(f"--include {path}: not below {home}, the folder of the script")
    return (
        [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if each.is_file()]
    )


def inline_metadata(script: Path) -> dict[str, Any]:
    """The script's inline metadata (PEP 723): `dependencies`, `requires-python`; often empty."""
    block = _block(script.read_text(encoding="utf-8", errors="replace").splitlines())
    try:
        return tomllib.loads("\n".join(line[2:] for line in block))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{script}: its inline metadata (PEP 723): {problem}") from None


def _block(lines: list[str]) -> list[str]:
    """The comments from the line that opens the block to the last one that can close it."""
    if _OPENS not in lines:
        return []
    after = lines[lines.index(_OPENS) + 1 :]
    comments = list(takewhile(lambda line: line == "#" or line.startswith("# "), after))
    ends = [number for number, line in enumerate(comments) if line == _CLOSES]
    return comments[: ends[-1]] if ends else []
