"""Two documents of `foretrace counters` side by side: what a change saved, counted on both."""

from __future__ import annotations

import os

import msgspec
from msgspec.structs import replace

from foretrace.base.errors import TraceError, UsageError
from foretrace.schema.documents.counters import (
    CountedKernel,
    CountersDocument,
    MeasuredSaving,
    ReplacedKernels,
)
from foretrace.show.overview.counter_words import saving_sentences
from foretrace.show.overview.counters import SCHEMA, total_of

LARGEST = 64 << 20  # bytes
_HINT = "write one with `foretrace counters … --json > before.json`, or add --ncu FILE to a trace"


def load_counters(path: str) -> CountersDocument:
    """A document that was written earlier."""
    try:
        if os.path.getsize(path) > LARGEST:
            raise TraceError("E_TOO_LARGE", path, "larger than 64 MiB", hint=_HINT)
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(), type=CountersDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        message = f"not a document of `foretrace counters`: {problem}"
        raise TraceError("E_NOT_COUNTERS", path, message, hint=_HINT) from problem
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: counters of schema {found.schema}; this version reads {SCHEMA}")
    return found


def compared(after: CountersDocument, before: CountersDocument, path: str) -> CountersDocument:
    """The later document with what changed since the earlier one."""
    old, new = ({one.name for one in side.kernels} for side in (before, after))
    gone = [one for one in before.kernels if one.name not in new]
    fresh = [one for one in after.kernels if one.name not in old]
    saving = MeasuredSaving(path, before.total, after.total, _replaced(gone), _replaced(fresh), [])
    return replace(after, against=replace(saving, sentences=saving_sentences(saving)))


def _replaced(kernels: list[CountedKernel]) -> ReplacedKernels:
    return ReplacedKernels([one.kernel for one in kernels], total_of(kernels))
