"""Put traces where others can see them: redacted, each with its report, and an index page over all
that is there.

A file's name ends in a mark made from the trace and from what was kept, so what is already there is
known without being read: a run that was stopped goes on where it stopped, nothing that is there is
ever replaced by something else, and the index lists what earlier runs have put there too.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote

from foretrace.errors import TraceError
from foretrace.model.trace import Trace
from foretrace.opening import open
from foretrace.render.html import write_report
from foretrace.share.redact import KEEP, REMAINS, redact, shared_name, words_for
from foretrace.share.stores import PERFETTO, Store
from foretrace.sources.folder import candidates
from foretrace.sources.limits import Limits
from foretrace.units import bytes_text

INDEX = "foretrace-index.html"
_BLOCK = 1 << 20
# NAME-MARK.json.gz, or NAME-MARK-WORDS.json.gz where more was kept.
_TRACE = re.compile(rf"(?P<stem>.+-[0-9a-f]{{8}}(?P<kept>(?:-(?:{'|'.join(KEEP)}))*))\.json\.gz")

# hears how many traces are done, of how many, and what is being sent
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Shared:
    """One trace that was shared. `was_there` when an earlier run had put it there already.

    `perfetto` is the address that opens it in Perfetto, where a browser can fetch it; `lost_data`
    when its ledger says so.
    """

    source: str
    trace: str
    report: str
    perfetto: str | None
    regions: tuple[str, ...]
    was_there: bool
    lost_data: bool


def share(
    path: str,
    store: Store,
    keep: frozenset[str] = frozenset(),
    limits: Limits | None = None,
    progress: Progress = lambda done, all, what: None,
    *,
    cache: bool = True,
) -> list[Shared]:
    """Share one trace, or every trace of a folder or zip."""
    bounds = limits or Limits()
    found = candidates(path, bounds)
    paths = [path] if found is None else found
    if not paths:
        raise TraceError(
            "E_NO_EVENTS",
            path,
            "no trace in there",
            hint="give a folder that holds *.json or *.json.gz traces",
        )
    shared, there = [], store.names()
    with tempfile.TemporaryDirectory(prefix="foretrace-share-") as folder:
        for done, each in enumerate(paths):
            progress(done, len(paths), each)
            tell = partial(_tell, progress, done, len(paths))
            shared.append(
                _one(
                    open(each, cache=cache, limits=bounds),
                    each,
                    store,
                    there,
                    keep,
                    Path(folder),
                    tell,
                )
            )
            there |= {shared[-1].trace, shared[-1].report}
        progress(len(paths), len(paths), "")
        index = Path(folder) / INDEX
        index.write_text(index_page(there, store), encoding="utf-8")
        store.put(index, INDEX, lambda sent, size: None)
    return shared


def _tell(progress: Progress, done: int, every: int, name: str, sent: int, size: int) -> None:
    progress(done, every, f"{name}: {bytes_text(sent)} of {bytes_text(size)}")


def _one(
    trace: Trace,
    path: str,
    store: Store,
    there: set[str],
    keep: frozenset[str],
    folder: Path,
    tell: Callable[[str, int, int], None],
) -> Shared:
    words, mark = words_for(trace, keep), "-".join(["", _mark(path, keep), *sorted(keep)])
    stem = f"{shared_name(path, words)}{mark}"
    name, page = f"{stem}.json.gz", f"{stem}.html"
    was_there = {name, page} <= there
    if not was_there:
        copy = redact(trace, folder, keep, mark)
        store.put(copy, name, partial(tell, name))
        store.put(write_report(folder / page, [open(copy, cache=False)]), page, partial(tell, page))
    regions = tuple(dict.fromkeys(words.clean(span.name) for span in trace.spans.regions))
    return Shared(
        path, name, page, _perfetto(store, name), regions, was_there, trace.ledger.lost_data
    )


def _perfetto(store: Store, name: str) -> str | None:
    link = store.link(name)
    return None if link is None else PERFETTO + quote(link, safe=":/")


def _mark(path: str, keep: frozenset[str]) -> str:
    """Eight letters that change with the trace and with what is kept of it."""
    digest = hashlib.blake2b(",".join(sorted(keep)).encode(), digest_size=4)
    file, _, member = path.partition("::")
    digest.update(member.encode())
    with Path(file).open("rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def index_page(names: set[str], store: Store) -> str:
    """One page with a link to every trace and report in the store, and what of the traces remains
    in these copies.
    """
    found = [
        match
        for name in sorted(names)
        if (match := _TRACE.fullmatch(name)) and f"{match['stem']}.html" in names
    ]
    rows = "\n".join(_row(match, store) for match in found)
    kept = sorted({word for match in found for word in match["kept"].split("-") if word})
    remains = "".join(
        f"<li>{escape(text)}</li>"
        for text in (*REMAINS, *(f"in some: {KEEP[word]}" for word in kept))
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Traces</title></head>
<body><h1>Traces</h1>
<table>{rows}</table>
<h2>What remains in them</h2><ul>{remains}</ul>
</body></html>
"""


def _row(match: re.Match[str], store: Store) -> str:
    name, page, perfetto = match[0], f"{match['stem']}.html", _perfetto(store, match[0])
    link = (
        f'<a href="{escape(perfetto)}" rel="noopener noreferrer">Perfetto</a>' if perfetto else ""
    )
    kept = match["kept"].strip("-").replace("-", ", ")
    return (
        f'<tr><td><bdi>{escape(name)}</bdi></td><td><a href="{escape(quote(page))}">report</a></td>'
        f'<td><a href="{escape(quote(name))}">trace</a></td><td>{link}</td><td>{kept and f"keeps {kept}"}</td></tr>'
    )
