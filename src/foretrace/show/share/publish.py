"""Put traces where others can see them: redacted, each with its report, and an index page over all.

A file's name ends in a mark made from the trace and from what was kept, so files that are already
there are known without reading them: a run that was stopped goes on where it stopped, nothing is
ever replaced by something else, and the index lists the files of earlier runs too.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote

from foretrace.base import files
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.base.units import bytes_text
from foretrace.model import opening
from foretrace.model.trace import Trace
from foretrace.read.compiler import CompilerLogs
from foretrace.read.compiler.bundle import SUFFIX
from foretrace.read.folder import searched
from foretrace.read.snapshot import is_snapshot, read_snapshot
from foretrace.schema.documents.share import SharedTrace
from foretrace.show.html import write_report
from foretrace.show.share.handoff import PERFETTO
from foretrace.show.share.pseudonyms import Pseudonyms
from foretrace.show.share.redact import (
    KEEP,
    OF_COMPILER,
    OF_SNAPSHOT,
    REMAINS,
    UNKNOWN,
    copied_captures,
    pseudonyms_for,
    pseudonyms_for_snapshot,
    records_of,
    redact,
    redact_records,
    shared_name,
)
from foretrace.show.share.snapshot_copy import write_snapshot
from foretrace.show.share.stores import Store

INDEX = "foretrace-index.html"
_BLOCK = 1 << 20
# NAME-MARK.json.gz, or NAME-MARK-WORDS.json.gz where more was kept.
_TRACE = re.compile(rf"(?P<stem>.+-[0-9a-f]{{8}}(?P<kept>(?:-(?:{'|'.join(KEEP)}))*))\.json\.gz")
_SNAPSHOT = re.compile(_TRACE.pattern.replace("json\\.gz", "pickle"))
_INDEX_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Traces</title></head>
<body><h1>Traces</h1>
<table>{rows}</table>
<h2>What remains in them</h2><ul>{remains}</ul>
</body></html>
"""

# called with how many traces are done, of how many, and what is being sent
Progress = Callable[[int, int, str], None]


def share(
    path: str,
    store: Store,
    keep: frozenset[str] = frozenset(),
    limits: Limits | None = None,
    progress: Progress = lambda done, total, what: None,
    *,
    cache: bool = True,
) -> list[SharedTrace]:
    """Share one trace, or every trace of a folder or zip."""
    bounds = limits or Limits()
    found = searched(path, bounds)
    paths = [path] if found is None else found.traces
    if not paths:
        hint = "give a folder with *.json or *.json.gz traces"
        raise TraceError("E_NO_EVENTS", path, "contains no trace", hint=hint)
    shared, there, salt = list[SharedTrace](), store.names(), secrets.token_bytes(16)
    with files.scratch() as folder:
        for done, each in enumerate(paths):
            progress(done, len(paths), each)

            def sent(name: str, count: int, size: int, done: int = done) -> None:
                progress(done, len(paths), f"{name}: {bytes_text(count)} of {bytes_text(size)}")

            if is_snapshot(each, bounds):
                shared.append(_snapshot(each, bounds, store, there, keep, salt, folder, sent))
            else:
                trace = opening.open(each, cache=cache, limits=bounds)
                logs = records_of(trace, bounds)
                private = pseudonyms_for(trace, keep, salt, logs)
                shared.append(_one(trace, logs, store, there, keep, private, folder, sent))
            there |= {shared[-1].trace, shared[-1].report} - {""}
        progress(len(paths), len(paths), "")
        index = folder / INDEX
        index.write_text(index_page(there, store), encoding="utf-8")
        store.put(index, INDEX, lambda sent, size: None)
    return shared


def _snapshot(
    path: str,
    limits: Limits,
    store: Store,
    there: set[str],
    keep: frozenset[str],
    salt: bytes,
    folder: Path,
    sent: Callable[[str, int, int], None],
) -> SharedTrace:
    snapshot = read_snapshot(path, limits)
    private = pseudonyms_for_snapshot(snapshot, keep, salt)
    mark = "-".join(["", _mark(path, (), keep), *sorted(keep)])
    name = f"{shared_name(path, private)}{mark}.pickle"
    was_there = name in there
    if not was_there:
        store.put(write_snapshot(snapshot, folder / name, private), name, partial(sent, name))
    removed = {} if was_there else private.removed
    return SharedTrace(path, name, "", None, (), was_there, bool(snapshot.lost), removed)


def _one(
    trace: Trace,
    logs: CompilerLogs | None,
    store: Store,
    there: set[str],
    keep: frozenset[str],
    private: Pseudonyms,
    folder: Path,
    sent: Callable[[str, int, int], None],
) -> SharedTrace:
    path = trace.path
    beside = [*(logs.sources if logs else ()), *(each.path for each in trace.captures)]
    mark = "-".join(["", _mark(path, beside, keep), *sorted(keep)])
    stem = f"{shared_name(path, private)}{mark}"
    name, page = f"{stem}.json.gz", f"{stem}.html"
    was_there = {name, page} <= there
    if not was_there:
        copy = redact(trace, folder, keep, mark, private)
        # before the trace: where that is, they are
        records = redact_records(logs, copy, private) if logs else []
        for file in (*records, *copied_captures(copy)):
            inside = f"{file.parent.name}/{file.name}"
            store.put(file, inside, partial(sent, inside))
        store.put(copy, name, partial(sent, name))
        report = write_report(folder / page, [opening.open(copy, cache=False)])
        store.put(report, page, partial(sent, page))
    regions = tuple(dict.fromkeys(private.clean(span.name) for span in trace.spans.regions))
    perfetto, lost = _perfetto(store, name), trace.ledger.lost_data
    removed = {} if was_there else private.removed
    why = f"{stem}{SUFFIX}" if logs else None
    return SharedTrace(path, name, page, perfetto, regions, was_there, lost, removed, why)


def _perfetto(store: Store, name: str) -> str | None:
    link = store.link(name)
    return None if link is None else f"{PERFETTO}/#!/?url={quote(link, safe=':/')}"


def _mark(path: str, beside: Iterable[str | Path], keep: frozenset[str]) -> str:
    """Eight letters that change with the trace, what lies beside it, and what is kept of them."""
    digest = hashlib.blake2b(",".join(sorted(keep)).encode(), digest_size=4)
    file, _, member = path.partition("::")
    digest.update(member.encode())
    for each in (file, *beside):
        with Path(each).open("rb") as source:
            while block := source.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def index_page(names: set[str], store: Store) -> str:
    """One page with a link to every trace and report in the store, and what the copies hold."""
    matches = [match for name in sorted(names) if (match := _TRACE.fullmatch(name))]
    found = [match for match in matches if f"{match['stem']}.html" in names]
    found += [match for name in sorted(names) if (match := _SNAPSHOT.fullmatch(name))]
    kept = sorted({word for match in found for word in match["kept"].split("-") if word})
    some = (OF_COMPILER, OF_SNAPSHOT, *(KEEP[word] for word in kept))
    remains = (*REMAINS, UNKNOWN, *(f"in some: {text}" for text in some))
    listed = "".join(f"<li>{escape(text)}</li>" for text in remains)
    return _INDEX_PAGE.format(rows="\n".join(_row(each, store) for each in found), remains=listed)


def _row(match: re.Match[str], store: Store) -> str:
    name, snapshot = match[0], match[0].endswith(".pickle")
    perfetto = None if snapshot else _perfetto(store, name)
    kept = match["kept"].strip("-").replace("-", ", ")
    cells = (
        f"<bdi>{escape(name)}</bdi>",
        "" if snapshot else f'<a href="{escape(quote(match["stem"]))}.html">report</a>',
        f'<a href="{escape(quote(name))}">{"snapshot" if snapshot else "trace"}</a>',
        f'<a href="{escape(perfetto)}" rel="noopener noreferrer">Perfetto</a>' if perfetto else "",
        f"keeps {kept}" if kept else "",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
