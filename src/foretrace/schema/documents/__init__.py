"""What every `--json` answer holds, as msgspec Structs: one module per document.

A module declares `DOCUMENT`, the Struct at the top of its answer; the module's name is the name
that `foretrace docs schema NAME` takes. `encode` is the only way from a document to JSON.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import msgspec

from foretrace.base import plugins
from foretrace.base.patterns import regex

_ENCODER = msgspec.json.Encoder()
# What a terminal or an editor acts on, beyond what JSON escapes; outside of texts JSON has none.
_ACTED_ON = regex(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def encode(document: msgspec.Struct) -> str:
    """The document as one line of JSON, fields in the order of their declaration."""
    return _ACTED_ON.sub(
        lambda found: f"\\u{ord(found[0]):04x}", _ENCODER.encode(document).decode()
    )


def json_schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return msgspec.json.schema(document)


def modules() -> dict[str, ModuleType]:
    """The modules of the documents, by the names of these."""
    own = plugins.modules(sys.modules[__name__])
    return {each.__name__.rpartition(".")[2]: each for each in own if hasattr(each, "DOCUMENT")}
