"""What every `--json` answer holds, as msgspec Structs: one module per command.

A module declares `DOCUMENTS`: by its name, the Struct at the top of each answer. The lines of its
docstring say, in this order, which command gives it. `encode` is the only way from a document to
JSON.
"""

from __future__ import annotations

import sys

import msgspec

from foretrace.base import plugins
from foretrace.base.patterns import regex

# What a terminal or an editor acts on, beyond what JSON escapes; outside of texts JSON has none.
_ACTED_ON = regex(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def encode(document: msgspec.Struct) -> str:
    """The document as one line of JSON, fields in the order of their declaration."""
    return _ACTED_ON.sub(
        lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(document).decode()
    )


def every() -> dict[str, tuple[type[msgspec.Struct], str]]:
    """The Struct of each document by name, and the command that gives it."""
    declared = {
        name: (document, text)
        for module in plugins.modules(sys.modules[__name__])
        for (name, document), text in zip(
            module.DOCUMENTS.items(), (module.__doc__ or "").splitlines(), strict=False
        )
    }
    return dict(sorted(declared.items()))
