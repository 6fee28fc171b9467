"""A copy of a trace that may be shown to others: what is needed to read it, and nothing that says
whose it is.
"""

from __future__ import annotations

import re
from pathlib import Path

from foretrace.errors import UsageError
from foretrace.model.trace import Trace
from foretrace.share import chrome
from foretrace.share.words import Words, leaves, owners

# What may be kept beyond the list, and what that means.
KEEP = {
    "stacks": "Python frames and call stacks",
    "paths": "paths in names and stacks",
    "inputs": "the values of arguments (numbers, texts, file names)",
    "hosts": "names of hosts, users, processes and threads",
}
REMAINS = (
    "names of ops, kernels, regions and steps, with paths, addresses, host and user names and "
    "keys replaced",
    "times and durations; process, thread and stream numbers; correlation ids",
    "sizes, strides and types of operands; launch grids, registers and shared memory; bytes "
    "copied and allocated",
    "the model of the GPU, CUDA versions, rank and world size",
)
# `{host}_{pid}.{time}.pt.trace.json`: what torch's own handler calls its files.
_HANDLER = re.compile(r"^.+_(\d+)\.(\d{10,})(\..*)?$")
_SUFFIX = re.compile(
    r"(?:\.pt)?(?:\.trace)?\.json(?:\.(?:gz|zst|zstd))?$|\.(?:gz|zst|zstd|trace|tmp)$",
    re.IGNORECASE,
)


def parse_keep(text: str) -> frozenset[str]:
    """`"stacks,paths"` -> the set; an unknown word is a usage error that lists what there is."""
    wanted = frozenset(word.strip() for word in text.split(",") if word.strip())
    if wanted - set(KEEP):
        listed = "; ".join(f"{name}: {meaning}" for name, meaning in KEEP.items())
        raise UsageError(f"--keep {text}: not known; there are {listed}")
    return wanted


def redact(trace: Trace, folder: Path, keep: frozenset[str] = frozenset(), mark: str = "") -> Path:
    """Write the copy into `folder`, under a name that gives nothing away; `mark` is appended to it."""
    words = words_for(trace, keep)
    target = folder / f"{shared_name(trace.path, words)}{mark}.json.gz"
    chrome.write(trace, target, words, keep)
    return target


def words_for(trace: Trace, keep: frozenset[str]) -> Words:
    """Words that know the hosts and people this trace mentions anywhere, so that they are found
    everywhere.
    """
    header = trace.tables.header
    texts = [*leaves(header), trace.path, *trace.host.names]
    for table in ("tracks", "stacks", "triton"):
        texts += [
            value
            for column in trace.tables[table].iter_columns()
            if column.dtype == str
            for value in column.drop_nulls().unique().to_list()
        ]
    named = [
        str(value)
        for key, value in header.items()
        if re.search(r"host|user|owner|job|node|machine", key, re.IGNORECASE)
        and isinstance(value, str)
    ]
    match = re.match(r"^(.+)_\d+\.\d{10,}", Path(trace.path).name)
    hosts = {match[1]} if match else set()
    return Words({*owners(texts), *named, *hosts}, paths="paths" in keep, hosts="hosts" in keep)


def shared_name(path: str, words: Words) -> str:
    """The file's name without its suffixes, its folder, and the host that torch puts in front.

    A name that holds anything private is not mended but left out: a pseudonym would differ from run
    to run, and a second run could not tell what the first has put there.
    """
    name = _SUFFIX.sub("", Path(path.rpartition("::")[2] or path).name)
    match = _HANDLER.match(name)
    if match and not words.keep_hosts:
        name = f"worker_{match[1]}"
    name = name if words.clean(name) == name else "trace"
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "trace"
