"""What a report can show beside the trace: marked guesses, and a climb of the ladder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from foretrace.base.errors import UsageError
from foretrace.model.trace import Trace


def marked(traces: Sequence[Trace], texts: Sequence[str], file: str | None) -> object | None:
    """The document of `check --json`, from a file or made; predictions call the first trace `A`."""
    if file is not None and file.endswith(".json"):
        found = _json(file)
        if not _holds(found, "guesses", "verdict"):
            raise UsageError(f"{file}: not what `foretrace check --json` prints")
        return found
    if not texts and file is None:
        return None
    from msgspec import to_builtins

    from foretrace.analyze.guess import check, parse
    from foretrace.analyze.guess.guess_files import load
    from foretrace.analyze.guess.marking import document

    guesses = [parse(text) for text in texts] + (load(file) if file else [])
    against = traces[0] if len(traces) > 1 else None
    return dict(to_builtins(document(check(traces[-1], guesses, against))))


def climbed(file: str | None) -> object | None:
    """The document of `foretrace ladder --json`, read from a file that holds one."""
    if file is None:
        return None
    found = _json(file)
    counted = isinstance(found, dict) and isinstance(found.get("counts"), dict)
    if not (counted and _holds(found, "claims", "verdict") and _holds(found, "article", "setup")):
        raise UsageError(f"{file}: not what `foretrace ladder --json` prints")
    return found


def _holds(found: object, name: str, key: str) -> bool:
    """Whether a document has a list of objects under `name`, each with `key`."""
    rows = found.get(name) if isinstance(found, dict) else None
    return isinstance(rows, list) and all(isinstance(row, dict) and key in row for row in rows)


def _json(file: str) -> object:
    try:
        return cast("object", json.loads(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError) as problem:
        raise UsageError(f"{file}: cannot be read as JSON: {problem}") from None
