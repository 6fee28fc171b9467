"""Keeps what torch.compile logs during a run, and writes it beside the trace as `run.why/`.

torch has two logs. The structured one goes to the logger `torch.__trace`. The text goes to one
logger per module and artifact, and a logger exists once its module is imported. Each log gets one
more handler; the user's own handlers still get what the user requested. The logs hold lines of the
user's code, so only the user may read the folder.

Dynamo's counters and compilation metrics change from version to version (2.6 to 2.13 are known), so
any field may be missing.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from torch._logging import _internal, structured

from foretrace.base.private import words
from foretrace.base.version import __version__
from foretrace.record.profiling.export import (
    BUNDLE,
    GZIP_LEVEL,
    MANIFEST,
    bundle_path,
    is_bundle,
    replacing_folder,
)
from foretrace.record.profiling.patches import applied, for_records, replaced

# Fields of a metric: in microseconds where torch has them, else in seconds.
STARTED = ("start_time_us", "start_time")
TAKEN = ("duration_us", "entire_frame_compile_time_s")


@dataclass(frozen=True, slots=True)
class CompileWatch:
    """Remembers Dynamo's counters; `report()` says what came since."""

    begun_s: float = field(default_factory=time.time)
    before: dict[str, dict[str, int]] = field(default_factory=lambda: _counters())

    def report(self) -> dict[str, Any]:
        """Seconds, frames, graphs, graph breaks {reason: count}, recompiles and gave_up [reason].

        A frame that Dynamo gave up on, for example at its recompile limit, runs eagerly from then
        on; `gave_up` is the only sign of it.
        """
        listed: list[Any] = getattr(_dynamo(), "get_compilation_metrics", list)()
        metrics = [metric for metric in listed if _seconds(metric, STARTED) >= self.begun_s]
        failures = [getattr(metric, "fail_reason", None) for metric in metrics]
        reasons = [
            getattr(metric, "recompile_reason", None)
            for metric, why in zip(metrics, failures, strict=True)
            if not why
        ]
        breaks: Counter[str] = Counter()
        for why in _counters().get("graph_break", {}):
            breaks[_first_line(why)] += self._since("graph_break", why)
        return {
            "seconds": round(sum(_seconds(metric, TAKEN) for metric in metrics), 6),
            "frames": self._since("frames", "ok"),
            "graphs": self._since("stats", "unique_graphs"),
            "graph_breaks": dict(+breaks),
            "recompiles": [_first_line(str(reason)) for reason in reasons if reason],
            "gave_up": [_first_line(str(why)) for why in failures if why],
        }

    def _since(self, group: str, name: str) -> int:
        return _counters().get(group, {}).get(name, 0) - self.before.get(group, {}).get(name, 0)


def _dynamo() -> Any:
    # Not imported here, which takes a second: if nothing imported Dynamo, nothing was compiled.
    return sys.modules.get("torch._dynamo.utils")


def _counters() -> dict[str, dict[str, int]]:
    counters = getattr(_dynamo(), "counters", {})
    return {
        str(group): {str(name): int(count) for name, count in values.items()}
        for group, values in counters.items()
    }


def _seconds(metric: Any, names: tuple[str, str]) -> float:
    """A time of one compilation, by Dynamo's metric or by its record in the structured log."""
    known = metric if isinstance(metric, dict) else {n: getattr(metric, n, None) for n in names}
    micros, seconds = (known.get(name) for name in names)
    return float(seconds or 0.0) if micros is None else micros / 1e6


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else text


# The artifacts of `TORCH_LOGS` that hold reasons; a torch that lacks one never logs it.
CHANNELS = words("""
    fusion ir_pre_fusion ir_post_fusion output_code recompiles graph_breaks perf_hints schedule
    cudagraphs
""")
_COPIED = 1 << 20  # bytes read at a time


class KeptLog(logging.Handler):
    """A log in a file without a name, which is gone when the process ends, however it ends.

    Only the process that opened it writes: what a forked worker says belongs to no trace. Nothing
    is buffered, so a fork has nothing to write twice. `lost` counts what could not be written.
    """

    def __init__(self, folder: Path, formatter: logging.Formatter) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(formatter)
        self.spent_ns = self.records = self.lost = self.size = 0
        self._home = os.getpid()
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        if os.getpid() != self._home:
            return
        began = perf_counter_ns()
        try:
            line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
            written = 0  # the next one begins where the last whole one ended
            while written < len(line):
                written += os.pwrite(self._file.fileno(), line[written:], self.size + written)
            self.size += len(line)
            self.records += 1
        except Exception:  # noqa: BLE001 (a full disk, or a text that fails: never the script's)
            self.lost += 1
        self.spent_ns += perf_counter_ns() - began

    def blocks(self) -> Iterator[bytes]:
        """What was written until now."""
        size, at = self.size, 0
        while at < size and (block := os.pread(self._file.fileno(), min(_COPIED, size - at), at)):
            at += len(block)
            yield block

    def close(self) -> None:
        """The log is gone."""
        self._file.close()
        super().close()


class Structured(KeptLog):
    """The structured log; `compiled` says whether anything was compiled, and for how long."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _internal.TorchLogsFormatter(trace=True))
        self.compiled, self.compile_s = False, 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; those of a compilation have its number, or hold what it made."""
        metadata = getattr(record, "metadata", {})
        self.compiled |= "frame_id" in metadata or "inductor_output_code" in metadata
        # Dynamo itself remembers the last 64
        for name in ("compilation_metrics", "bwd_compilation_metrics"):
            self.compile_s += _seconds(metadata.get(name), TAKEN)
        super().emit(record)


class Text(KeptLog):
    """The text log. A record that the user requested goes on to the handlers above its logger."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _internal.TorchLogsFormatter())
        self._before: dict[str, tuple[int, bool]] = {}

    @property
    def heard(self) -> list[str]:
        """The names of the loggers that it listens to."""
        return list(self._before)

    def listen(self, logger: logging.Logger) -> None:
        """Take everything of this logger, which is as torch configured it for the user."""
        self._before[logger.name] = logger.level, logger.propagate
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)

    def leave(self, logger: logging.Logger) -> None:
        """Put a logger back as it was, unless torch did so itself because the user set logs."""
        level, propagate = self._before.pop(logger.name, (logger.level, logger.propagate))
        if not logger.propagate:
            logger.propagate = propagate
            logger.setLevel(level)
        logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, and pass it on where it would have gone."""
        super().emit(record)
        above = logging.getLogger(record.name).parent
        level, propagates = self._before.get(record.name, (0, False))
        if propagates and above and record.levelno >= (level or above.getEffectiveLevel()):
            above.callHandlers(record)


class CompilerLog:
    """Between `start` and `close`, keeps both logs of everything that is compiled."""

    def __init__(self, folder: Path) -> None:
        self.structured, self.text = Structured(folder), Text(folder)
        self._within = ExitStack()
        self._overhead_before = _torch_overhead_s()

    def start(self) -> None:
        """Keep records from here on; torch's settings give complete ones."""
        # torch 2.6 says so about its own settings with every record of a compile
        warnings.filterwarnings("ignore", message="Skipping serialization of")
        for part in (applied(for_records()), _heard(self.structured), _listening(self.text)):
            self._within.enter_context(part)

    def close(self) -> None:
        """Put torch's logging and settings back as they were, and forget the records."""
        self._within.close()
        self.structured.close()
        self.text.close()

    @property
    def records(self) -> int:
        """How many records both logs have."""
        return self.structured.records + self.text.records

    @property
    def overhead_s(self) -> float:
        """Seconds that compiling spent on these records: making their content, and writing them."""
        made = _torch_overhead_s() - self._overhead_before
        return max(made, self.structured.spent_ns / 1e9) + self.text.spent_ns / 1e9


@contextmanager
def _heard(handler: Structured) -> Iterator[None]:
    """Let `handler` hear the structured log, first of all: torch's own may remove itself."""
    log = _internal.trace_log
    # texts that have a number already are not logged again
    for text, number in list(getattr(structured, "INTERN_TABLE", {}).items()):
        extra = {"metadata": {"str": (text, number)}, "payload": None}
        where = (_internal.__file__, 0, "", (), None)
        handler.handle(log.makeRecord(log.name, logging.DEBUG, *where, extra=extra))
    log.handlers.insert(0, handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def _listening(text: Text) -> Iterator[None]:
    """Let `text` hear every channel: loggers that exist, and those that torch makes later."""
    configure, enabled = _internal.configure_artifact_log, _internal.LogState.is_artifact_enabled
    asking_for_user = False

    def configured(logger: Any) -> None:
        nonlocal asking_for_user
        text.leave(logger)
        asking_for_user = True
        try:
            configure(logger)
        finally:
            asking_for_user = False
        if logger.artifact_name in CHANNELS:
            text.listen(logger)

    def is_enabled(state: Any, name: str) -> bool:
        # Dynamo asks this before it words the reason of a recompilation
        return (name in CHANNELS and not asking_for_user) or enabled(state, name)

    with (
        replaced(_internal, "configure_artifact_log", lambda _: configured),
        replaced(_internal.LogState, "is_artifact_enabled", lambda _: is_enabled),
    ):
        for name in list(_internal.log_registry.get_artifact_log_qnames()):
            logger: Any = logging.getLogger(name)
            if logger.artifact_name in CHANNELS:
                text.listen(logger)
        try:
            yield
        finally:
            for name in text.heard:
                text.leave(logging.getLogger(name))


def _torch_overhead_s() -> float:
    """What torch says that structured logging took, in all compilations of this process."""
    return float(sum(getattr(_internal, "structured_logging_overhead", {}).values()))


NOTHING = (
    "nothing was compiled while the records were kept: start recording before the first call of "
    "the compiled function, or call torch._dynamo.reset() so that it is compiled again"
)


class CompilerRecords:
    """Keeps the compiler's records from `start` to `finish`, if they are wanted.

    `keep` writes them beside a trace as soon as the trace is there, and `finish` once more where
    others followed. `notes` says what went wrong; nothing here costs the user a trace.
    """

    def __init__(self, folder: Path, *, wanted: bool) -> None:
        self.bundles: dict[Path, Bundle] = {}  # by trace
        self.notes: list[str] = []
        self._folder, self._wanted = folder, wanted
        self._log: CompilerLog | None = None
        self._written = 0

    def start(self) -> None:
        """Keep records from here on."""
        if self._wanted and self._log is None:
            try:
                self._log = CompilerLog(self._folder)
                self._log.start()
            except (OSError, AttributeError, TypeError) as problem:  # a torch that changed
                self.notes.append(f"not all of the compiler's records are kept: {problem}")

    def keep(self, trace: Path) -> None:
        """Write what there is beside `trace`."""
        if self._log is not None and self._log.structured.compiled:
            self._written = self._log.records
            try:
                self.bundles[trace] = write_bundle(self._log, trace)
            except OSError as problem:
                self.notes.append(f"the compiler's records are not kept: {problem}")

    def finish(self) -> None:
        """Write what was compiled since, and put torch back as it was."""
        log, self._wanted = self._log, False
        if log is None:
            return
        if log.records > self._written:
            for trace in list(self.bundles):
                self.keep(trace)
        self.notes += [] if log.structured.compiled else [NOTHING]
        self._log = None
        log.close()


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written."""

    folder: Path
    bytes: int
    compile_seconds: float
    overhead_seconds: float

    @property
    def text(self) -> str:
        """One line for the user."""
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e6 else f"{self.bytes / 1e3:.0f} kB"
        kept = f"kept the compiler's records in {self.folder} ({size})"
        logs = f"{self.overhead_seconds:.2f} s of it for the records"
        return f"{kept}; compiling took {self.compile_seconds:.1f} s, {logs}"


def write_bundle(log: CompilerLog, trace: Path) -> Bundle:
    """Write the records so far beside `trace`, in the place of an earlier bundle of ours."""
    target = bundle_path(trace)
    with replacing_folder(target, is_bundle) as draft:
        logs = {"torch_trace.log.gz": log.structured, "torch_logs.txt.gz": log.text}
        kept = {name: _pack(each, draft / name) for name, each in logs.items() if each.size}
        rank = os.environ.get("RANK", "")
        manifest: dict[str, Any] = {
            "kind": BUNDLE,
            "schema": 1,
            "foretrace": __version__,
            "trace": trace.name,
            "torch": str(torch.__version__),
            "pid": os.getpid(),
            "rank": int(rank) if rank.isdigit() else None,
            "files": list(kept),
            "records": log.records,
            "lost": log.structured.lost + log.text.lost,
            "compile_seconds": round(log.structured.compile_s, 6),
            "overhead_seconds": round(log.overhead_s, 6),
        }
        _private(draft / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    took, spent = manifest["compile_seconds"], manifest["overhead_seconds"]
    return Bundle(target, sum(kept.values()), took, spent)


def _pack(log: KeptLog, target: Path) -> int:
    with _private(target).open("wb") as raw, gzip.GzipFile("", "wb", GZIP_LEVEL, raw) as packed:
        for block in log.blocks():
            packed.write(block)
    return target.stat().st_size


def _private(path: Path) -> Path:
    path.touch(0o600)
    return path
