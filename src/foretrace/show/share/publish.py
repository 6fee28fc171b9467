"""Put traces where others can see them: redacted, each with its report, and an index page over all.

A file's name ends in a mark made from the trace and from what was kept, so files that are already
there are known without reading them: a run that was stopped goes on where it stopped, and nothing
is ever replaced by something else.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from foretrace.base import files
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.base.units import bytes_text
from foretrace.model import opening
from foretrace.model.trace import Trace
from foretrace.read import captures, compiler
from foretrace.read.compiler import CompilerLogs
from foretrace.read.compiler.bundle import SUFFIX
from foretrace.read.folder import searched
from foretrace.read.snapshot import is_snapshot, read_snapshot
from foretrace.schema.documents.share import SharedTrace
from foretrace.show.html import write_report
from foretrace.show.share import chrome
from foretrace.show.share.compiler_copy import CodeText, texts_of, write_copy
from foretrace.show.share.handoff import PERFETTO
from foretrace.show.share.pseudonyms import Pseudonyms, owners, texts_in
from foretrace.show.share.snapshot_copy import write_snapshot
from foretrace.show.share.stores import Store

# What may be kept beyond the list, and what that means.
KEEP = {
    "names": "your own names of regions, ops, kernels and modules",
    "stacks": "Python frames and call stacks",
    "paths": "paths in names and stacks",
    "inputs": "the values of arguments (numbers, texts, file names)",
    "hosts": "names of hosts, users, processes and threads",
}
REMAINS = (
    "names of ops, kernels, regions and steps that are made of words of PyTorch, CUDA and their "
    "libraries; every other word has a pseudonym",
    "times and durations; process, thread and stream numbers; correlation ids",
    "sizes, strides and types of operands; arguments that are short numbers; launch grids, "
    "registers and shared memory; bytes copied and allocated",
    "the model of the GPU, CUDA versions, rank and world size",
)
# of a snapshot of the allocator
OF_SNAPSHOT = (
    "sizes, addresses and times of allocations; stacks with numbers of lines, functions without "
    "words of your own, and files inside torch and other packages"
)
# of the compiler's records, where a trace has some
OF_COMPILER = (
    "graphs, generated code, the scheduler's lists and reasons, graph breaks, failed guards, "
    "numbers of lines, times of phases, all without words of your own"
)
# `{host}_{pid}.{time}.pt.trace.json`: how torch's own handler names its files.
_HANDLER = re.compile(r"(?P<host>.{1,255})_(?P<pid>\d{1,15})\.\d{10,}")
_STEM = 120  # the mark, the words of --keep and the suffix follow; a file system takes 255 bytes
_SUFFIX = re.compile(
    r"(?:\.pt)?(?:\.trace)?\.(?:json|pickle)(?:\.(?:gz|xz|zst|zstd))?$|\.(?:gz|xz|zst|zstd|trace|tmp)$",
    re.IGNORECASE,
)
_IDENTITY = re.compile(r"host|user|owner|job|node|machine|login|author|mail", re.IGNORECASE)
# What the summary calls the kinds of removed text.
REMOVED = {
    "key": "keys and random tokens",
    "path": "paths",
    "address": "addresses",
    "name": "names that are not PyTorch's, CUDA's or their libraries'",
    "text": "ends of names longer than 16,384 letters",
    "word": "words outside the vocabulary of their field",
    "header": "header entries",
    "thread": "names of processes and threads",
    "frame": "Python frames",
    "stack": "call stacks",
    "value": "recorded argument values",
    "record": "records of the compiler",
    "source": "lines of code",
}
UNKNOWN = (
    "a word that PyTorch or a library uses passes wherever it stands (a project called flash), and "
    "so do short numbers: read the names of regions"
)


def parse_keep(text: str) -> frozenset[str]:
    """`"stacks,paths"` -> the set; an unknown word is a usage error that lists the known ones."""
    wanted = frozenset(word.strip() for word in text.split(",") if word.strip())
    if wanted - set(KEEP):
        listed = "; ".join(f"{name}: {meaning}" for name, meaning in KEEP.items())
        raise UsageError(f"--keep {text}: unknown; choose from {listed}")
    return wanted


def removed_text(each: Iterable[dict[str, int]]) -> list[str]:
    """The summary of what was removed from several traces: one line per kind."""
    total = sum(map(Counter[str], each), Counter[str]())
    return [f"{meaning}: {total[kind]:,}" for kind, meaning in REMOVED.items() if total[kind]]


def redact(
    trace: Trace,
    folder: Path,
    keep: frozenset[str] = frozenset(),
    mark: str = "",
    private: Pseudonyms | None = None,
) -> Path:
    """Write the copy into `folder`, under a name without private text that ends in `mark`; the
    captures of its graphs go beside it (`copied_captures`).
    """
    private = private or pseudonyms_for(trace, keep)
    target = folder / f"{shared_name(trace.path, private)}{mark}.json.gz"
    chrome.write(trace, target, private, keep)
    known = {file.path: file for file in captures.beside(trace.path)}
    for place, each in enumerate(trace.captures):
        stated = known.get(each.path)
        size = f"_bs_{stated.size}" if stated and stated.size is not None else ""
        rank = f"_rank{stated.rank}" if stated and stated.rank is not None else ""
        beside = _captures_of(target)
        beside.mkdir(exist_ok=True)
        assert isinstance(each, Trace)
        chrome.write(each, beside / f"capture_{place:02}{size}{rank}.json.gz", private, keep)
    return target


def copied_captures(copy: Path) -> list[Path]:
    """The captures that `redact` wrote beside a copy: the ops of its graphs are in them."""
    return sorted(_captures_of(copy).glob("*.json.gz"))


def _captures_of(copy: Path) -> Path:
    return copy.with_name(copy.name.removesuffix(".json.gz") + captures.SUFFIX)


def pseudonyms_for(
    trace: Trace, keep: frozenset[str], salt: bytes | None = None, logs: CompilerLogs | None = None
) -> Pseudonyms:
    """Pseudonyms for the hosts and people that this trace and the compiler's records of it name
    anywhere, and for who shares it.

    With the same `salt` the same text has the same pseudonym in every trace.
    """
    if not keep:
        return Pseudonyms(salt=salt)
    texts = [*texts_of(logs)] if logs else []
    for each in (trace, *trace.captures):
        texts += [*texts_in(each.tables.header), each.path, *each.host.names]
        for table in ("tracks", "stacks", "triton"):
            for column in each.tables[table].iter_columns():
                if column.dtype == str:
                    texts += column.drop_nulls().unique().to_list()
    # what the header and the file's name say about who ran it where
    header, match = trace.tables.header, _HANDLER.match(Path(trace.path).name)
    named = [texts_in(value) for key, value in header.items() if _IDENTITY.search(key)]
    hosts = [match["host"]] if match else []
    return _pseudonyms((*owners(texts), *chain(*named), *hosts), keep, salt)


def _pseudonyms(names: Iterable[str], keep: frozenset[str], salt: bytes | None) -> Pseudonyms:
    """Pseudonyms for these names, this machine and its user: most traces are shared from where they
    were recorded.
    """
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    every = {*names, platform.node(), user, os.path.basename(os.path.expanduser("~"))}
    # the first word of a full host name is what people call the machine
    every |= {name.partition(".")[0] for name in every}
    return Pseudonyms(every if keep else (), keep, salt)


def records_of(trace: Trace, limits: Limits) -> CompilerLogs | None:
    """The compiler's records of a trace; None where nothing can be read, or of another run."""
    path = compiler.beside(trace.path)
    if path is None:
        return None
    try:
        return trace.compiler_records.own_run(compiler.read(path, limits))
    except (TraceError, UsageError):
        return None


def shared_name(path: str, private: Pseudonyms) -> str:
    """The file's name without its suffixes, its folder, and the host that torch puts in front.

    A name that holds anything private is left out: a pseudonym would differ from run to run, and a
    second run could not know what the first has shared.
    """
    name = _SUFFIX.sub("", Path(path.rpartition("::")[2] or path).name)
    match = _HANDLER.match(name)
    if match and "hosts" not in private.keep:
        name = f"worker_{match['pid']}"
    elif private.clean(name) != name:
        name = "trace"
    stem = re.sub(r"[^\w.-]+", "_", name).strip("._").encode()[:_STEM]
    return stem.decode(errors="ignore") or "trace"


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
    shared = list[SharedTrace]()
    with files.scratch() as folder:
        run = _Sharing(store, store.names(), keep, secrets.token_bytes(16), folder, bounds)
        for done, each in enumerate(paths):
            progress(done, len(paths), each)

            def sent(name: str, count: int, size: int, done: int = done) -> None:
                progress(done, len(paths), f"{name}: {bytes_text(count)} of {bytes_text(size)}")

            if is_snapshot(each, bounds):
                shared.append(run.snapshot(each, sent))
            else:
                shared.append(run.trace(opening.open(each, cache=cache, limits=bounds), sent))
            run.there.update({shared[-1].trace, shared[-1].report} - {""})
        progress(len(paths), len(paths), "")
        index = folder / INDEX
        index.write_text(index_page(run.there, store), encoding="utf-8")
        store.put(index, INDEX, lambda sent, size: None)
    return shared


class _Sharing(Struct, frozen=True):
    """What all files of one run have in common; `there` are the files of the store."""

    store: Store
    there: set[str]
    keep: frozenset[str]
    salt: bytes
    folder: Path
    limits: Limits

    def snapshot(self, path: str, sent: Callable[[str, int, int], None]) -> SharedTrace:
        """A snapshot of the allocator, which has no report."""
        snapshot = read_snapshot(path, self.limits)
        people = owners(frame.file for frame in snapshot.frames)  # that the stacks name
        private = _pseudonyms(people, self.keep, self.salt)
        name = f"{shared_name(path, private)}{self._mark(path, ())}.pickle"
        was_there = name in self.there
        if not was_there:
            copy = write_snapshot(snapshot, self.folder / name, private)
            self.store.put(copy, name, partial(sent, name))
        removed = {} if was_there else private.removed
        return SharedTrace(path, name, "", None, (), was_there, bool(snapshot.lost), removed)

    def trace(self, trace: Trace, sent: Callable[[str, int, int], None]) -> SharedTrace:
        """A trace with its report, the compiler's records and the captures beside it."""
        path, logs = trace.path, records_of(trace, self.limits)
        private = pseudonyms_for(trace, self.keep, self.salt, logs)
        beside = [*(logs.sources if logs else ()), *(each.path for each in trace.captures)]
        mark = self._mark(path, beside)
        stem = f"{shared_name(path, private)}{mark}"
        name, page = f"{stem}.json.gz", f"{stem}.html"
        was_there = {name, page} <= self.there
        if not was_there:
            copy = redact(trace, self.folder, self.keep, mark, private)
            report = write_report(self.folder / page, [opening.open(copy, cache=False)])
            # before the trace: where that is, they are
            folder, code = self.folder / f"{stem}{SUFFIX}", CodeText(private)
            records = write_copy(logs, folder, copy.name, code) if logs else []
            held = {f"{e.parent.name}/{e.name}": e for e in (*records, *copied_captures(copy))}
            for inside, file in (held | {name: copy, page: report}).items():
                self.store.put(file, inside, partial(sent, inside))
        regions = tuple(dict.fromkeys(private.clean(span.name) for span in trace.spans.regions))
        perfetto, lost = _perfetto(self.store, name), trace.ledger.lost_data
        removed = {} if was_there else private.removed
        why = f"{stem}{SUFFIX}" if logs else None
        return SharedTrace(path, name, page, perfetto, regions, was_there, lost, removed, why)

    def _mark(self, path: str, beside: Iterable[str | Path]) -> str:
        """Eight letters that change with the trace, what lies beside it, and what is kept."""
        digest = hashlib.blake2b(",".join(sorted(self.keep)).encode(), digest_size=4)
        file, _, member = path.partition("::")
        digest.update(member.encode())
        for each in (file, *beside):
            with Path(each).open("rb") as source:
                while block := source.read(_BLOCK):
                    digest.update(block)
        return "-".join(["", digest.hexdigest(), *sorted(self.keep)])


def _perfetto(store: Store, name: str) -> str | None:
    link = store.link(name)
    return None if link is None else f"{PERFETTO}/#!/?url={quote(link, safe=':/')}"


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
