"""Files of predictions: one a line, as `foretrace check TRACE` prints them, each with its reason.

    in mlp_fwd: kernels == 5   # three matmuls, gelu, and the multiplication of gate and up

A file named `.toml` has a table for each:

    [[prediction]]
    text = "in mlp_fwd: kernels == 5"
    reason = "three matmuls, gelu, and the multiplication of gate and up"

`reason` says why the author expects it; a miss repeats it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.check.language import nearest

_TOP, _EACH = ("schema", "prediction"), ("text", "reason")


def load(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Each text and reason of a file.

    `UsageError` names the file, and the number of a prediction that is not well formed.
    """
    name = os.fspath(path)
    try:
        text = Path(name).read_text(encoding="utf-8")
        if not name.endswith(".toml"):
            return _lines(name, text)
        document = tomllib.loads(text)
    except OSError as problem:
        raise UsageError(f"{name}: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{name}: not a file of predictions: {problem}") from problem
    _only(name, document, _TOP)
    if document.get("schema", 1) != 1:
        raise UsageError(f"{name}: schema {document['schema']!r} is not known; this is schema 1")
    entries = document.get("prediction")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{name}: no [[prediction]] in it")
    return [_read(f"{name}: prediction {number}", entry) for number, entry in enumerate(entries, 1)]


def _lines(name: str, text: str) -> list[tuple[str, str]]:
    """One prediction a line; two blanks and `#` begin its reason, and `#` a line of comment."""
    rows = [line.strip() for line in text.splitlines()]
    pairs = [row.partition("  # ")[::2] for row in rows if row and not row.startswith("#")]
    if not pairs:
        raise UsageError(f"{name}: no prediction in it")
    return [(prediction.rstrip(), reason.strip()) for prediction, reason in pairs]


def _read(where: str, entry: Any) -> tuple[str, str]:
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UsageError(f'{where}: write text = "…"')
    _only(where, entry, _EACH)
    if not isinstance(entry.get("reason", ""), str):
        raise UsageError(f'{where}: write reason = "…"')
    return entry["text"], entry.get("reason", "")


def _only(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            near = nearest(key, keys, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(keys)}"
            raise UsageError(f"{where}: unknown key {key!r}{hint}")
