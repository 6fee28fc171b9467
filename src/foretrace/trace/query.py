"""SQL over the tables of a trace, through Polars: a query reads these tables and nothing else.

It runs in a process of its own, because a query may take all memory, never end, or crash Polars.
The process starts before there is a query (Polars takes 0.2 s to import), is handed the tables as
files without a name, and runs one query under limits. It ends with whoever started it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

import polars as pl
from msgspec import Struct

from foretrace.base.budget import Limits, raised_by, waiting
from foretrace.base.errors import ForetraceError, LimitError, UsageError
from foretrace.base.patterns import regex
from foretrace.trace.analysis import Analysis

_NAMES = regex(r"[a-z_]+", re.IGNORECASE)
# Polars' SQL has functions that read files (`read_csv`, `scan_parquet`). Polars can neither turn
# them off nor show a query's syntax tree, so no word of a query may begin like one of them.
_FORBIDDEN = regex(r"(?<![a-z0-9_])(?:read|scan)_", re.IGNORECASE)


# Polars also runs DROP, DELETE and CREATE, which would print nothing or an empty table.
_READS = regex(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*+(?:select|with|from|values|explain|show)\b", re.I | re.S
)
_UNKNOWN = regex(r"(column|relation)(?: named)? [\"']([^\"']+)[\"']")


def check(query: str) -> None:
    """Refuse a query that does anything but read tables."""
    if not _READS.match(query):
        raise UsageError("sql: a query reads tables: begin with SELECT or WITH")
    if _FORBIDDEN.search(query):
        raise UsageError("sql: a query may read the tables of the trace and nothing else")


def tables_of(trace: Analysis, query: str) -> dict[str, pl.DataFrame]:
    """The tables that a query names, once it is checked."""
    check(query)
    words = set(_NAMES.findall(query.lower()))
    return {name: trace.table(name) for name in trace.table_names() if name in words}


def mistake(said: str, trace: Analysis, tables: dict[str, pl.DataFrame]) -> UsageError:
    """Polars' message as one line; for a name that does not exist, the nearest ones that do."""
    text = " ".join(said.split("\n")[0].split())
    unknown = _UNKNOWN.search(text)
    if unknown is None:
        return UsageError(f"sql: {text}")
    from difflib import get_close_matches

    columns = dict.fromkeys(name for table in tables.values() for name in table.columns)
    is_column = unknown[1] == "column"
    names, wrong = (list(columns) if is_column else trace.table_names()), unknown[2]
    close = get_close_matches(wrong.lower(), names, n=3, cutoff=0.5)
    known = f"choose one of {', '.join(names)}"
    hint = f"did you mean {' or '.join(close)}?" if close else known
    return UsageError(f"sql: no {'column' if is_column else 'table'} {wrong!r}: {hint}")


SECONDS = 60
# beyond what the process holds before the query; a join of the largest recordings needs less
MEMORY = 4 << 30
MOST_SECONDS, MOST_MEMORY = 1_000_000, 1 << 60  # what the kernel can count
STARTING_S = 30  # on a busy machine, an import takes this long at most
_NO_MEMORY = {-signal.SIGABRT, -signal.SIGKILL}  # the second: the system as a whole had none left
_KEPT = ("LD_LIBRARY_PATH", "PYTHONHOME", "POLARS_MAX_THREADS")
_CHILD = "from foretrace.trace.query_child import main; main()"


class QueryResult(Struct, frozen=True):
    """The first rows of a result, and how many there are."""

    frame: pl.DataFrame
    count: int


class QueryProcess:
    """A process that waits for one query; `close` may be called at any time, from any thread."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        places = os.pathsep.join(place for place in sys.path if place)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=kept | {"PYTHONPATH": places},
                start_new_session=True,  # Ctrl+C reaches us alone
            )
        self.pid = self._process.pid
        self._waiting = threading.Lock()

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        # Whoever waits at the line sees its end now. Closed before that, its number could be the
        # line of the next process already, at which they would wait instead.
        with self._waiting:
            self._line.close()

    def run(self, trace: Analysis, query: str, limits: Limits, rows: int) -> QueryResult:
        """The first `rows` rows of one query, and how many there are."""
        tables = tables_of(trace, query)
        size = int(sum(table.estimated_size() for table in tables.values()))
        seconds = min(limits.seconds or SECONDS, MOST_SECONDS)
        memory = min(limits.memory or max(MEMORY, size * 8), MOST_MEMORY)
        bounds = {"seconds": seconds, "memory": memory}
        request = bounds | {"query": query, "rows": rows, "tables": list(tables)}
        with ExitStack() as opened:
            # files in memory that nobody else can open
            places = [os.memfd_create("foretrace-query") for _ in range(2 + len(tables))]
            files = [opened.enter_context(os.fdopen(place, "w+b")) for place in places]
            files[0].write(json.dumps(request).encode())
            for file, table in zip(files[2:], tables.values(), strict=True):
                table.write_ipc(file)
            for file in files:
                file.flush()
                file.seek(0)
            status = self._status([file.fileno() for file in files], seconds)
            if status:
                raise _stopped(status, seconds, memory)
            files[1].seek(0)
            said = json.loads(files[1].readline())
            if "error" in said:
                raise mistake(said["error"], trace, tables)
            return QueryResult(pl.read_ipc(files[1].read()), said["count"])

    def _status(self, files: list[int], seconds: int) -> int:
        """Hand the files over; returns the exit status of the process once it has ended."""
        try:
            with self._waiting, waiting():  # the query has limits of its own
                socket.send_fds(self._line, [b"?"], files)
                self._line.settimeout(seconds + STARTING_S)
                self._line.recv(1)  # nothing comes: the line is closed when the process ends
        except TimeoutError:
            return -signal.SIGALRM
        except OSError:  # it has ended already, or was ended meanwhile
            pass
        return self._process.wait()


def _stopped(status: int, seconds: int, memory: int) -> ForetraceError | OSError:
    if status == -signal.SIGALRM:
        words = f"the query did not end within {seconds} s"
        return LimitError("E_TOO_SLOW", "sql", words, hint=raised_by("seconds"))
    if status in _NO_MEMORY:
        words = f"the query needs more than {memory / (1 << 30):.1f} GiB of memory"
        return LimitError("E_TOO_MUCH_MEMORY", "sql", words, hint=raised_by("memory"))
    if status < 0:
        how = signal.Signals(-status).name
        return UsageError(f"sql: Polars crashed ({how}): write a shorter or less nested query")
    if status in (errno.EMFILE, errno.EFBIG):
        return OSError(status, os.strerror(status))
    return UsageError(f"sql: {sys.executable} could not run the query (exit {status})")
