"""`encode` is the only way from an answer, which is a msgspec Struct, to JSON."""

from __future__ import annotations

import msgspec

from foretrace.base.patterns import regex

# What a terminal or an editor acts on, beyond what JSON escapes; outside of texts JSON has none.
_ACTED_ON = regex(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def encode(document: msgspec.Struct) -> str:
    """The document as one line of JSON, fields in the order of their declaration."""
    return _ACTED_ON.sub(
        lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(document).decode()
    )
