"""The logs of a bundle, told by their names and their first bytes. All else is ignored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import islice

from foretrace.base import notices
from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.units import bytes_text
from foretrace.read.bytestream import open_stream
from foretrace.read.compiler.bundle import NAMED, PACKED, is_named, names_in, nothing
from foretrace.read.compiler.heads import HEAD
from foretrace.read.compiler.manifest import manifest_of
from foretrace.read.compiler.reader import LogFile
from foretrace.read.unpack import ZIP, files_in, open_zip
from foretrace.schema.ledger import LedgerBuilder

_PEEK = 256 << 10  # a program may print much before it compiles


def files_of(path: str, limits: Limits, ledger: LedgerBuilder) -> list[str]:
    """The logs of a bundle, by name, or of a zip; of a file, the file itself."""
    if not os.path.isdir(path):
        return _members(path, limits) or [path]
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


def _members(path: str, limits: Limits) -> list[str]:
    """The logs in a zip; none where it is something else."""
    try:
        with open(path, "rb") as file:
            if path == "-" or file.read(len(ZIP)) != ZIP:
                return []
            with open_zip(file, path, limits) as archive:
                members = [f"{path}::{member}" for member in files_in(archive) if is_named(member)]
    except OSError:
        return []  # opening it for reading says what is wrong
    return [member for member in members if _is_log(member, limits)]


def read_files(sources: Sequence[str], limits: Limits, ledger: LedgerBuilder) -> dict[str, LogFile]:
    """What each file holds; one of several that cannot be read is noted, and the others are."""
    files: dict[str, LogFile] = {}
    problems: list[TraceError] = []
    for source in sources:
        file = LogFile(ledger, limits)
        try:
            file.read(source, partial(_watch, source))
            files[source] = file
        except LimitError:
            raise
        except TraceError as problem:
            problems.append(problem)
    if problems and not files:
        raise problems[0]
    ledger.note("log_file_unreadable", len(problems), str(problems[0]) if problems else "")
    return files


def _watch(source: str, done: int, size: int) -> None:
    of = f" of {bytes_text(size)}" if size else ""  # standard input has none
    notices.report(f"reading {bytes_text(done)}{of}: {source}")


def _is_log(path: str, limits: Limits) -> bool:
    """Whether a file is named as torch names its logs, or begins like one."""
    if NAMED.fullmatch(os.path.basename(path)):
        return True
    held = b""
    try:
        for block in islice(open_stream(path, limits, LedgerBuilder()).blocks, 8):
            held += block
            if len(held) > _PEEK:
                break
    except TraceError:
        return False
    return HEAD.search(held) is not None
