"""`CompilerLog`: keeps what torch.compile writes down while a program runs, and prints none of it.

torch has two logs. The structured one (`TORCH_TRACE`) goes to the logger `torch.__trace`. The text
(`TORCH_LOGS`) goes to one logger per module and artifact, made when the module is first imported.
Both get one more handler each; what the user requested of either still goes where it went.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from torch._logging import _internal, structured

from foretrace.base.private.random_tokens import words
from foretrace.record.profiling.compiling import seconds_of
from foretrace.record.profiling.settings import applied, for_records

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
            self._write((self.format(record) + "\n").encode("utf-8", "backslashreplace"))
            self.records += 1
        except Exception:  # noqa: BLE001 (a full disk, or a text that fails: never the script's)
            self.lost += 1
        self.spent_ns += perf_counter_ns() - began

    def _write(self, line: bytes) -> None:
        """The whole line or nothing of it: the next one begins where the last whole one ended."""
        written = 0
        while written < len(line):
            written += os.pwrite(self._file.fileno(), line[written:], self.size + written)
        self.size += len(line)

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
            self.compile_s += seconds_of(metadata.get(name))
        super().emit(record)


class Text(KeptLog):
    """The text log. A record that the user requested goes on to the handlers above its logger."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _internal.TorchLogsFormatter())
        self._before: dict[str, tuple[int, bool]] = {}

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

    def leave_all(self) -> None:
        """Put every logger back."""
        for name in list(self._before):
            self.leave(logging.getLogger(name))

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
        _replaced(_internal, "configure_artifact_log", configured),
        _replaced(_internal.LogState, "is_artifact_enabled", is_enabled),
    ):
        for name in list(_internal.log_registry.get_artifact_log_qnames()):
            logger: Any = logging.getLogger(name)
            if logger.artifact_name in CHANNELS:
                text.listen(logger)
        try:
            yield
        finally:
            text.leave_all()


@contextmanager
def _replaced(owner: Any, name: str, value: Callable[..., Any]) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _torch_overhead_s() -> float:
    """What torch says that structured logging took, in all compilations of this process."""
    return float(sum(getattr(_internal, "structured_logging_overhead", {}).values()))
