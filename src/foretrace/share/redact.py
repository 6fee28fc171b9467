"""A copy of a trace that others may see: enough to read it, and nothing that says whose it is."""

from __future__ import annotations

import re
from pathlib import Path

from foretrace.errors import UsageError
from foretrace.model.trace import Trace
from foretrace.share import chrome
from foretrace.share.pseudonyms import Pseudonyms, owners, texts_in

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
# `{host}_{pid}.{time}.pt.trace.json`: how torch's own handler names its files.
_HANDLER = re.compile(r"(?P<host>.+)_(?P<pid>\d+)\.\d{10,}")
_SUFFIX = re.compile(
    r"(?:\.pt)?(?:\.trace)?\.json(?:\.(?:gz|zst|zstd))?$|\.(?:gz|zst|zstd|trace|tmp)$",
    re.IGNORECASE,
)
_IDENTITY = re.compile(r"host|user|owner|job|node|machine", re.IGNORECASE)


def parse_keep(text: str) -> frozenset[str]:
    """`"stacks,paths"` -> the set; an unknown word is a usage error that lists the known ones."""
    wanted = frozenset(word.strip() for word in text.split(",") if word.strip())
    if wanted - set(KEEP):
        listed = "; ".join(f"{name}: {meaning}" for name, meaning in KEEP.items())
        raise UsageError(f"--keep {text}: unknown; choose from {listed}")
    return wanted


def redact(trace: Trace, folder: Path, keep: frozenset[str] = frozenset(), mark: str = "") -> Path:
    """Write the copy into `folder`, under a name without private text that ends in `mark`."""
    private = pseudonyms_for(trace, keep)
    target = folder / f"{shared_name(trace.path, private)}{mark}.json.gz"
    chrome.write(trace, target, private, keep)
    return target


def pseudonyms_for(trace: Trace, keep: frozenset[str]) -> Pseudonyms:
    """Pseudonyms for the hosts and people that this trace names anywhere."""
    header = trace.tables.header
    texts = [*texts_in(header), trace.path, *trace.host.names]
    for table in ("tracks", "stacks", "triton"):
        for column in trace.tables[table].iter_columns():
            if column.dtype == str:
                texts += column.drop_nulls().unique().to_list()
    named = [
        value for key, value in header.items() if _IDENTITY.search(key) and isinstance(value, str)
    ]
    match = _HANDLER.match(Path(trace.path).name)
    hosts = [match["host"]] if match else []
    names = {*owners(texts), *named, *hosts}
    return Pseudonyms(names, paths="paths" in keep, hosts="hosts" in keep)


def shared_name(path: str, private: Pseudonyms) -> str:
    """The file's name without its suffixes, its folder, and the host that torch puts in front.

    A name that holds anything private is left out: a pseudonym would differ from run to run, and a
    second run could not know what the first has shared.
    """
    name = _SUFFIX.sub("", Path(path.rpartition("::")[2] or path).name)
    match = _HANDLER.match(name)
    if match and not private.keep_hosts:
        name = f"worker_{match['pid']}"
    name = name if private.clean(name) == name else "trace"
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "trace"
