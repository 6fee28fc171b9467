"""What every `--json` answer holds, as msgspec Structs: one module per document.

A module declares `DOCUMENT`, the Struct at the top of its answer; the module's name is the name
that `foretrace schema NAME` takes. `encode` is the only way from a document to JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()


def encode(document: msgspec.Struct) -> str:
    """The document as one line of JSON, fields in the order of their declaration."""
    return _ENCODER.encode(document).decode()


def json_schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return msgspec.json.schema(document)
