"""What a project writes once: `[tool.foretrace]` of the nearest pyproject.toml upward.

    [tool.foretrace]
    ignore = {gemm_choice = "cuBLAS chooses; measured in March"}  # rules or fixes, each with why
    select = ["sync_stalls", "launch_bound"]                     # these alone
    fail-if = ["gpu > 1.05x"]                                    # of compare
    traces = "traces"                                            # where record writes, serve reads

The command line beats the file. The file may be a stranger's: it names rules and thresholds, and a
folder below its own, and nothing in it is run. Only commands that use it read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from foretrace.base.errors import UsageError, nearest, printable

FILE = "pyproject.toml"
MOST_BYTES = 1 << 20  # a project's file has a few thousand


class Settings(NamedTuple):
    """The table, as it was checked; empty where no project has one."""

    file: Path | None = None
    select: tuple[str, ...] = ()
    ignore: Mapping[str, str] = {}
    fail_if: tuple[str, ...] = ()
    traces: Path | None = None

    def place(self, key: str) -> str:
        """Where a key stands, for an error: `pyproject.toml: tool.foretrace.select`."""
        return _place(self.file, key) if self.file else f"--{key}"


def settings(*, isolated: bool = False) -> Settings:
    """Those of the project around the current folder; raises `UsageError` for a wrong entry."""
    with suppress(FileNotFoundError):  # somebody has removed the current folder
        here = Path.cwd()
        for folder in () if isolated else (here, *here.parents):
            table = _table(folder / FILE)
            if table is not None:
                return _checked(folder / FILE, table)
    return Settings()


def _table(file: Path) -> Any:
    """What `[tool.foretrace]` holds; None where the file has no such table."""
    try:
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        held = file.read_bytes()
    except OSError:
        return None
    if b"foretrace" not in held:
        return None  # the parser takes longer to import than this file to read
    import tomllib

    try:
        tools = tomllib.loads(held.decode("utf-8-sig")).get("tool", {})
    except (ValueError, RecursionError) as problem:
        raise UsageError(printable(f"{os.path.relpath(file)}: not valid TOML: {problem}")) from None
    return tools.get("foretrace") if isinstance(tools, dict) else None


def _checked(file: Path, table: Any) -> Settings:
    if not isinstance(table, dict):
        raise UsageError(f"{os.path.relpath(file)}: tool.foretrace must be a table")
    for key in table:
        if key not in _KEYS:
            known = nearest(key, _KEYS, f"choose from {', '.join(_KEYS)}")
            raise UsageError(printable(f"{_place(file, key)}: no such key; {known}"))
    found: dict[str, Any] = {}
    for key, value in table.items():
        check, must_be = _KEYS[key]
        if not check(value):
            raise UsageError(f"{_place(file, key)} must be {must_be}")
        found[key.replace("-", "_")] = value
    if "traces" in found:
        found["traces"] = _inside(file, found["traces"])
    for key in {"select", "fail_if"} & found.keys():
        found[key] = tuple(found[key])
    return Settings(file, **found)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "select": (_is_texts, 'a list of rules: ["sync_stalls"]'),
    "ignore": (
        lambda value: (
            isinstance(value, dict) and _is_texts([*value.values()]) and all(value.values())
        ),
        'a table of rules and reasons: {gemm_choice = "why"}',
    ),
    "fail-if": (_is_texts, 'a list of conditions: ["gpu > 1.05x"]'),
    "traces": (lambda value: isinstance(value, str) and bool(value), 'a folder: "traces"'),
}


def _inside(file: Path, name: str) -> Path:
    """A folder below that of the file: a stranger's project makes nothing be written elsewhere."""
    root = file.parent.resolve()
    try:
        found = (root / name).resolve()
    except (OSError, ValueError):
        found = root.parent
    if "\0" in name or not found.is_relative_to(root):
        what = "must be a folder inside the project; elsewhere: -o FOLDER"
        raise UsageError(printable(f"{_place(file, 'traces')} = {name!r}: {what}"))
    return Path(os.path.relpath(found, Path.cwd().resolve()))


def _place(file: Path, key: str) -> str:
    return f"{os.path.relpath(file)}: tool.foretrace.{key}"
