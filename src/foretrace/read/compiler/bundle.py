"""Which files hold the logs of a run, and where they lie beside its trace.

A bundle is what `foretrace record --why` writes: `run.why/` beside `run.json.gz`, with a manifest.
A folder that holds logs is one as well, as `TORCH_TRACE` leaves it, and so is a single log. Here
is also what a log holds, record by record, and whether it belongs to a trace.

`TORCH_TRACE` adds a file for every process. Ranks of a job stay together. Processes that state the
same rank, or none, are runs of their own: both have a compilation `0/0`. A bundle's manifest names
its run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import TraceError, UsageError, printable
from foretrace.base.patterns import regex
from foretrace.read.ledger import Ledger, LedgerBuilder

SUFFIX = ".why"
HINT = "record it with `foretrace record --why`, or with TORCH_TRACE=DIR"
NAMED = regex(r"(?:(?:dedicated_log_)?torch_trace[^/]*\.log|torch_logs[^/]*\.txt)(?:\.(?:gz|zst))?")
PACKED = (".gz", ".zst")
TRACE = regex(r"(?:\.pt\.trace)?\.json(?:\.gz|\.zst)?$")


def beside(trace_path: str) -> str | None:
    """The bundle that belongs to a trace: `run.why` beside `run.json.gz`, or its own folder."""
    folder, name = os.path.split(trace_path)
    folder = folder or os.curdir
    bundle = os.path.join(folder, TRACE.sub("", name) + SUFFIX)
    if os.path.isdir(bundle):
        return bundle
    return folder if any(map(NAMED.fullmatch, names_in(folder))) else None


def located(path: str) -> str:
    """The bundle or log that `path` means: itself, the one beside a trace, the one in a folder."""
    if not os.path.exists(path) and os.path.isdir(path + SUFFIX):
        return path + SUFFIX
    if os.path.isdir(path):
        names = names_in(path)
        if any(map(NAMED.fullmatch, names)):
            return path
        bundles = [os.path.join(path, name) for name in names if name.endswith(SUFFIX)]
        if len(bundles) > 1:
            listed = "\n  ".join(map(printable, bundles[:64]))
            raise UsageError(
                f"{path} contains the logs of {len(bundles)} traces; choose one:\n  {listed}"
            )
        return bundles[0] if bundles else path
    if not TRACE.search(path):
        return path
    found = beside(path)
    if found is None and os.path.exists(path):
        raise nothing(path, "has no log of torch.compile beside it")
    return found or path


def names_in(folder: str) -> list[str]:
    """What a folder holds, by name."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_named(name: str) -> bool:
    """Whether a file of this name may be a log."""
    stem = os.path.splitext(name)[0] if name.endswith(PACKED) else name
    return stem.endswith((".log", ".txt")) and not name.startswith(".")


def nothing(path: str, what: str) -> TraceError:
    """The error where there is no log."""
    return TraceError("E_NO_LOGS", path, what, hint=HINT)


class LogRecord(Struct, frozen=True, gc=False):
    """One record of a structured log (`TORCH_TRACE`).

    `kind` is the record's own key (`dynamo_output_graph`, `artifact`), `name` an artifact's name,
    `fields` the key's value with file names in place of their numbers. `payload` is UTF-8, as the
    file has it; a record whose payload is damaged is not kept.
    """

    kind: str
    name: str
    compile_id: str  # `0/1`, `!1/0/0` under compiled autograd, "" outside of a compilation
    attempt: int
    rank: int | None
    pid: int
    fields: dict[str, Any]
    payload: bytes
    line: int  # of the file, from 1


class TextRecord(Struct, frozen=True, gc=False):
    """One message of the log text (`TORCH_LOGS`), its lines without their heads.

    Messages of one place in the code within one millisecond have the same head, and are one record.
    """

    channel: str  # `fusion`, `ir_pre_fusion`; "" for a plain message
    compile_id: str
    text: str
    line: int  # of the file, from 1
    rank: int | None
    attempt: int = 0
    pid: int = 0


class CompilerLogs(Struct, frozen=True):
    """All logs of one bundle, in the order of their files."""

    path: str
    records: Sequence[LogRecord]
    texts: Sequence[TextRecord]
    ledger: Ledger
    sources: tuple[str, ...]
    processes: dict[str, int] = {}  # by file: the one that wrote most of it


NAME = "manifest.json"
KIND = "foretrace-why"
_LARGEST = 1 << 20
_GENERATED = regex(rb"\b(?:triton|cpp)_\w{1,400}")


class Manifest(Struct, frozen=True):
    """`manifest.json` of a bundle."""

    kind: str
    trace: str = ""
    pid: int = 0
    rank: int | None = None
    files: tuple[str, ...] = ()
    lost: int = 0  # records that could not be written


def manifest_of(folder: str) -> Manifest | None:
    """The manifest of a bundle; None where there is none, or none of ours."""
    try:
        with open(os.path.join(folder, NAME), "rb") as file:
            found = msgspec.json.decode(file.read(_LARGEST), type=Manifest)
    except (OSError, ValueError, RecursionError):
        return None
    if found.kind != KIND:
        return None
    elsewhere = ("", os.curdir, os.pardir)
    named = [each for each in found.files if os.path.basename(each) == each not in elsewhere]
    return replace(found, files=tuple(named))


def stranger(
    logs: CompilerLogs, trace: str, pids: Collection[int], kernels: Collection[str]
) -> str:
    """Why the logs are of another run than the trace at this path; "" where nothing says so.

    `pids` are the trace's processes, `kernels` its kernels that Inductor generated.
    """
    manifest = manifest_of(logs.path) or Manifest(KIND)
    named = manifest.trace == os.path.basename(trace)
    if named and manifest.pid in pids:
        return ""  # recorded together, though what was compiled before is not in the log
    # the names of all kernels that the log holds code of
    generated = {name.decode() for code in _codes(logs) for name in _GENERATED.findall(code)}
    if kernels and generated and generated.isdisjoint(kernels):
        more = f" (and {len(kernels) - 1:,} more)" if len(kernels) > 1 else ""
        return f"the log has no code of {min(kernels)}{more}: it is of another run"
    wrote = {record.pid for record in logs.records} | {text.pid for text in logs.texts}
    wrote = (wrote | {manifest.pid}) - {0}
    if pids and wrote:
        other = f"the log is of process {min(wrote)}, the trace of process {max(pids)}"
        return f"{other}: two runs" if wrote.isdisjoint(pids) else ""
    unknown = not kernels and manifest.trace and not named
    return f"the log belongs to {manifest.trace}" if unknown else ""


def _codes(logs: CompilerLogs) -> Iterable[bytes]:
    for record in logs.records:
        if record.kind in ("inductor_output_code", "graph_dump"):
            yield record.payload
    for text in logs.texts:
        if text.channel == "output_code":
            yield text.text.encode()


_LISTED = 8


def one_run(logs: CompilerLogs, pids: Collection[int] = ()) -> CompilerLogs:
    """The logs without the processes of other runs than the one with these `pids`.

    Raises `UsageError` where nothing says which of several files is meant.
    """
    entries: list[LogRecord | TextRecord] = [*logs.records, *logs.texts]
    compiled = Counter((each.rank, each.pid) for each in entries if each.compile_id and each.pid)
    ranks: dict[int | None, list[int]] = {}
    for rank, pid in compiled:
        ranks.setdefault(rank, []).append(pid)
    left_out = {
        (rank, pid)
        for rank, several in ranks.items()
        for pid in several
        if len(several) > 1 and pid not in _meant(logs, rank, several, compiled, pids)
    }
    if not left_out:
        return logs
    ledger = LedgerBuilder()
    ledger.note("log_processes_left_out", len(left_out))
    return replace(
        logs,
        ledger=logs.ledger.with_notes(ledger.freeze().notes),
        records=[each for each in logs.records if (each.rank, each.pid) not in left_out],
        texts=[each for each in logs.texts if (each.rank, each.pid) not in left_out],
    )


def _meant(
    logs: CompilerLogs,
    rank: int | None,
    several: list[int],
    compiled: Counter[tuple[int | None, int]],
    pids: Collection[int],
) -> Collection[int]:
    """Those of the trace; else the one that wrote the file, as far as the files agree."""
    if not set(pids).isdisjoint(several):
        return pids
    wrote = {pid: path for path, pid in logs.processes.items() if pid in several}
    if len(wrote) > 1:
        listed = "\n  ".join(map(printable, list(wrote.values())[:_LISTED]))
        shown = f"{len(wrote)} processes that are not ranks of one job"
        raise UsageError(f"{logs.path} contains the logs of {shown}; choose one:\n  {listed}")
    return wrote or [max(several, key=lambda pid: compiled[rank, pid])]
