"""Capturing needs torch and the standard library alone: a GPU machine installs nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import foretrace

SRC = Path(foretrace.__file__).parent
BLOCK = "import sys; [sys.modules.__setitem__(name, None) for name in sys.argv[1].split()]; "


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, lazy imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def file_of(name: str) -> Path | None:
    """The file of a module of this package; a name inside a module is in its module's file."""
    path = SRC.joinpath(*name.split(".")[1:])
    options = (path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py"))
    return next((option for option in options if option.is_file()), None)


def test_profiling_imports_torch_and_the_standard_library_alone() -> None:
    waiting, seen, others = list((SRC / "record/profiling").glob("*.py")), set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for name in imported(path):
            if name.startswith("foretrace."):
                found = file_of(name)
                waiting += [found] if found and found not in seen else []
            elif name.partition(".")[0] not in sys.stdlib_module_names:
                others.add(name.partition(".")[0])
    assert others == {"torch"}
    assert {path.parent.name for path in seen} == {"profiling", "base"}


def test_capture_is_one_signature_and_names_the_install_command_without_torch() -> None:
    code = (
        "import foretrace\n"
        "try: foretrace.capture('run')\n"
        "except foretrace.MissingError as problem: print(problem)"
    )
    line = [sys.executable, "-c", f"{BLOCK}\n{code}", "torch msgspec numpy click polars"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == "capturing needs torch: pip install torch\n"
