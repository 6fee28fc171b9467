"""A copy of a trace that others may see: enough to read it, and nothing that says whose it is."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.model.trace import Trace
from foretrace.read import captures, compiler
from foretrace.read.compiler import CompilerLogs
from foretrace.read.compiler.bundle import SUFFIX
from foretrace.schema.snapshot import Snapshot
from foretrace.show.share import chrome
from foretrace.show.share.compiler_copy import CodeText, texts_of, write_copy
from foretrace.show.share.pseudonyms import Pseudonyms, owners, texts_in

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
    texts = [*texts_of(logs)] if logs else []
    for each in (trace, *trace.captures):
        texts += [*texts_in(each.tables.header), each.path, *each.host.names]
        for table in ("tracks", "stacks", "triton"):
            for column in each.tables[table].iter_columns():
                if column.dtype == str:
                    texts += column.drop_nulls().unique().to_list()
    names = {*owners(texts), *_identities(trace), *_here()} if keep else set[str]()
    # the first word of a full host name is what people call the machine
    return Pseudonyms(names | {name.partition(".")[0] for name in names}, keep, salt)


def pseudonyms_for_snapshot(
    snapshot: Snapshot, keep: frozenset[str], salt: bytes | None = None
) -> Pseudonyms:
    """Pseudonyms for the people that the stacks of a snapshot name, and for who shares it."""
    names = {*owners(frame.file for frame in snapshot.frames), *_here()} if keep else set[str]()
    return Pseudonyms(names | {name.partition(".")[0] for name in names}, keep, salt)


def records_of(trace: Trace, limits: Limits) -> CompilerLogs | None:
    """The compiler's records of a trace; None where nothing can be read, or of another run."""
    path = compiler.beside(trace.path)
    if path is None:
        return None
    try:
        return trace.compiler_records.own_run(compiler.read(path, limits))
    except (TraceError, UsageError):
        return None


def redact_records(logs: CompilerLogs, copy: Path, private: Pseudonyms) -> list[Path]:
    """Write the records beside the copy of their trace; returns the files."""
    folder = copy.with_name(copy.name.removesuffix(".json.gz") + SUFFIX)
    return write_copy(logs, folder, copy.name, CodeText(private))


def _identities(trace: Trace) -> set[str]:
    """What the header and the file's name say about who ran it where."""
    header = trace.tables.header
    named = [texts_in(value) for key, value in header.items() if _IDENTITY.search(key)]
    match = _HANDLER.match(Path(trace.path).name)
    return {text for texts in named for text in texts} | ({match["host"]} if match else set())


def _here() -> set[str]:
    """This machine and its user: most traces are shared from where they were recorded."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return {platform.node(), user, os.path.basename(os.path.expanduser("~"))}


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
