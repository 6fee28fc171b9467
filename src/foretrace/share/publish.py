"""Put traces where others can see them: redacted, each with its report, and an index page over all of them.

A file's name ends in a mark made from the trace and from what was kept, so what is already there is known without being
read: a run that was stopped goes on where it stopped, and nothing that is there is ever replaced by something else.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from ..errors import TraceError
from ..opening import open
from ..render.html import write_report
from ..sources.folder import candidates
from ..sources.limits import Limits
from .redact import KEEP, REMAINS, redact, shared_name, words_for
from .stores import PERFETTO, Store

INDEX = "foretrace-index.html"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Shared:
    """One trace that was shared. `was_there` when an earlier run had put it there already."""

    source: str
    trace: str
    report: str
    link: str | None
    regions: tuple[str, ...]
    was_there: bool

    @property
    def perfetto(self) -> str | None:
        """The address that opens it in Perfetto, where a browser can fetch it."""
        return None if self.link is None else PERFETTO + quote(self.link, safe=":/")


def share(path: str, store: Store, keep: frozenset[str] = frozenset(), limits: Limits | None = None,
          progress: Callable[[int, int, str], None] = lambda done, all, name: None) -> list[Shared]:
    """Share one trace, or every trace of a folder or zip.

    `progress` hears how many are done, of how many, and which is next.
    """
    bounds = limits or Limits()
    found = candidates(path, bounds)
    paths = [path] if found is None else found
    if not paths:
        raise TraceError("E_NO_EVENTS", path, "no trace in there", hint="give a folder that holds *.json or *.json.gz traces")
    shared = []
    with tempfile.TemporaryDirectory(prefix="foretrace-share-") as folder:
        for done, each in enumerate(paths):
            progress(done, len(paths), each)
            shared.append(_one(each, store, keep, bounds, Path(folder)))
        progress(len(paths), len(paths), "")
        index = Path(folder) / INDEX
        index.write_text(index_page(shared, keep), encoding="utf-8")
        store.put(index, INDEX)
    return shared


def _one(path: str, store: Store, keep: frozenset[str], limits: Limits, folder: Path) -> Shared:
    trace = open(path, cache=False, limits=limits)
    words, mark = words_for(trace, keep), f"-{_mark(path, keep)}"
    stem = f"{shared_name(path, words)}{mark}"
    name, page = f"{stem}.json.gz", f"{stem}.html"
    was_there = bool(store.size(name)) and bool(store.size(page))
    if not was_there:
        copy = redact(trace, folder, keep, mark)
        store.put(copy, name)
        store.put(write_report(folder / page, [open(copy, cache=False)]), page)
    regions = tuple(dict.fromkeys(words.clean(span.name) for span in trace.spans.regions))
    return Shared(path, name, page, store.link(name), regions, was_there)


def _mark(path: str, keep: frozenset[str]) -> str:
    """Eight letters that change with the trace and with what is kept of it."""
    digest = hashlib.blake2b(",".join(sorted(keep)).encode(), digest_size=4)
    file, _, member = path.partition("::")
    digest.update(member.encode())
    with Path(file).open("rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def index_page(shared: Sequence[Shared], keep: frozenset[str]) -> str:
    """One page with a link to every report and trace, and what of the traces remains."""
    rows = "\n".join(
        f'<tr><td><bdi>{escape(each.trace)}</bdi></td><td><a href="{escape(quote(each.report))}">report</a></td>'
        f'<td><a href="{escape(quote(each.trace))}">trace</a></td><td>{_perfetto_cell(each)}</td></tr>' for each in shared)
    kept = "".join(f"<li>{escape(text)}</li>" for text in (*REMAINS, *(KEEP[name] for name in sorted(keep))))
    regions = sorted({name for each in shared for name in each.regions})
    named = "".join(f"<li><bdi>{escape(name)}</bdi></li>" for name in regions)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Traces</title></head>
<body><h1>Traces</h1>
<table>{rows}</table>
<h2>What remains in them</h2><ul>{kept}</ul>
<h2>Names of regions in them</h2><ul>{named or "<li>none</li>"}</ul>
</body></html>
"""


def _perfetto_cell(each: Shared) -> str:
    return f'<a href="{escape(each.perfetto)}" rel="noopener noreferrer">Perfetto</a>' if each.perfetto else ""
