"""The logs of a bundle: told by their names and their first bytes; all else is ignored."""

from __future__ import annotations

import os
from itertools import islice

from foretrace.errors import TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import open_stream
from foretrace.sources.compiler.bundle import NAMED, PACKED, is_named, names_in, nothing
from foretrace.sources.compiler.heads import HEAD
from foretrace.sources.compiler.manifest import manifest_of
from foretrace.sources.limits import Limits

_PEEK = 256 << 10  # a program may print much before it compiles


def files_of(path: str, limits: Limits, ledger: LedgerBuilder) -> list[str]:
    """The logs of a bundle, by name; of a file, the file itself."""
    if not os.path.isdir(path):
        return [path]
    manifest = manifest_of(path)
    named = manifest.files if manifest else ()
    missing = [name for name in named if not os.path.isfile(os.path.join(path, name))]
    ledger.note("log_file_missing", len(missing), f"missing from the bundle: {', '.join(missing)}")
    ledger.note("log_records_lost", manifest.lost if manifest else 0)
    names = names_in(path)
    found = [
        os.path.join(path, name)
        for name in names
        if is_named(name) and not (name.endswith(PACKED) and os.path.splitext(name)[0] in names)
    ]
    logs = [each for each in found if os.path.isfile(each) and _is_log(each, limits)]
    if not logs:
        raise nothing(path, "contains no log of torch.compile")
    return logs


def _is_log(path: str, limits: Limits) -> bool:
    """Whether the file begins like a log; one that cannot be read is for the reader to refuse."""
    held = b""
    try:
        for block in islice(open_stream(path, limits, LedgerBuilder()).blocks, 8):
            held += block
            if len(held) > _PEEK:
                break
    except TraceError:
        return NAMED.fullmatch(os.path.basename(path)) is not None
    return HEAD.search(held) is not None
