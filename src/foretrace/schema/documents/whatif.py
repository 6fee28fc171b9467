"""`foretrace look --fixes --json`: a step without the profiler, and with each fix that applies."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.look import SCHEMA, FixEntry, IgnoredEntry, StepTime


class WhatIf(Struct, frozen=True):
    """`step` is None where a step cannot be replayed, and `reason` says why; without a fix it says
    what most fixes lack.

    `chosen` are the fixes that the user named, and `together_ns` is the step with all of them.
    `manual` explains each fix in the list. `ignored` is as in `look`.
    """

    path: str
    per: str
    step: StepTime | None
    fixes: list[FixEntry]
    chosen: list[str]
    together_ns: float | None
    reason: str = ""
    manual: dict[str, str] = {}
    schema: int = SCHEMA
    ignored: list[IgnoredEntry] = []


DOCUMENT = WhatIf
