"""Guess files: TOML, one table per prediction, each with its reason.

    schema = 1

    [[guess]]
    text = "in mlp_fwd: kernels == 5"
    reason = "three matmuls, gelu, and the multiplication of gate and up"

`reason` says why the author expects it; a miss repeats it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.check.parsing import Guess, parse_or_error
from foretrace.check.verdict import Verdict
from foretrace.check.words import nearest

_TOP, _EACH = ("schema", "guess"), ("text", "reason")


def given(
    texts: Iterable[str], files: Iterable[str], parse: Callable[[str, str], Guess | Verdict]
) -> list[Guess | Verdict]:
    """The predictions of a command line: its texts, then those of its guess files."""
    return [*(parse(text, "") for text in texts), *(g for f in files for g in load(f, parse))]


def load(
    path: str | os.PathLike[str], parse: Callable[[str, str], Guess | Verdict] = parse_or_error
) -> list[Guess | Verdict]:
    """What `parse` makes of each text and reason of a guess file; a verdict `error` of what cannot
    be parsed.

    `UsageError` names the file, and the number of a guess that is not well formed.
    """
    name = os.fspath(path)
    try:
        document = tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(f"{name}: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{name}: not a guess file: {problem}") from problem
    _only(name, document, _TOP)
    if document.get("schema", 1) != 1:
        raise UsageError(f"{name}: schema {document['schema']!r} is not known; this is schema 1")
    entries = document.get("guess")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{name}: no [[guess]] in it")
    places = (f"{name}: guess {number}" for number in range(1, len(entries) + 1))
    return [_guess(where, entry, parse) for where, entry in zip(places, entries, strict=True)]


def _guess(where: str, entry: Any, parse: Callable[[str, str], Guess | Verdict]) -> Guess | Verdict:
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UsageError(f'{where}: write text = "…"')
    _only(where, entry, _EACH)
    if not isinstance(entry.get("reason", ""), str):
        raise UsageError(f'{where}: write reason = "…"')
    found = parse(entry["text"], entry.get("reason", ""))
    return replace(found, why=f"{found.why} ({where})") if isinstance(found, Verdict) else found


def _only(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            near = nearest(key, keys, 0.0)
            raise UsageError(f"{where}: unknown key {key!r}; did you mean {near!r}?")


def dump(guesses: Iterable[tuple[str, str]], head: Iterable[str] = ()) -> str:
    """A guess file of (text, reason) pairs; `head` are lines of comment."""
    lines = [f"# {line}" for line in head] + ["schema = 1"]
    for text, reason in guesses:
        lines += ["", "[[guess]]", f"text = {_quoted(text)}", f"reason = {_quoted(reason)}"]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    # TOML has JSON's escapes; only DEL must be escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
