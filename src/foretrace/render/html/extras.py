"""What a report shows beside the trace when it is given: marked guesses, and a table of the ladder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...model.trace import Trace


def marked(traces: Sequence[Trace], texts: Sequence[str], file: str | None) -> dict[str, Any] | None:
    """The document of `foretrace check --json`: read from a `.json` file that holds one, or made by marking guesses.

    Of two traces the second is the one judged; predictions call the first `A`.
    """
    if file is not None and file.endswith(".json"):
        found = _json(file)
        if not isinstance(found, dict) or not isinstance(found.get("guesses"), list):
            raise UsageError(f"{file}: not what `foretrace check --json` prints")
        return found
    if not texts and file is None:
        return None
    from ...guess import check, parse
    from ...guess.files import load
    from ..verdicts import document

    guesses = [parse(text) for text in texts] + (load(file) if file else [])
    return document(check(traces[-1], guesses, traces[0] if len(traces) > 1 else None))


def ladder_rows(file: str | None) -> list[dict[str, Any]] | None:
    """A JSON list of objects, or an object that has such a list under `rows`."""
    if file is None:
        return None
    found = _json(file)
    rows = found.get("rows") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{file}: a JSON list of objects is needed, one for each row")
    return rows


def _json(file: str) -> Any:
    try:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UsageError(f"{file}: cannot be read as JSON: {problem}") from None
