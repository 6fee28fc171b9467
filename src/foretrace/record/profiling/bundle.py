"""The bundle beside a trace: `run.why/` holds what torch.compile wrote down in the same process.

    run.why/manifest.json         what it is, and what it cost
    run.why/torch_trace.log.gz    the structured log, as TORCH_TRACE writes it
    run.why/torch_logs.txt.gz     the text log, as TORCH_LOGS writes it

Both logs hold lines of the user's code and names of files, so nobody else may read the folder. It
is written whole under another name and renamed.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from foretrace.base import files
from foretrace.base.version import __version__
from foretrace.record.profiling.compiler_log import CompilerLog, KeptLog
from foretrace.record.profiling.export import BUNDLE, GZIP_LEVEL, MANIFEST, bundle_path, is_bundle

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

    def __enter__(self) -> CompilerRecords:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.finish()


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
    if os.path.lexists(target) and not is_bundle(target):
        raise FileExistsError(f"{target} is there, and foretrace did not write it")
    with files.scratch(trace.parent) as private:
        draft = private / target.name
        draft.mkdir(0o700)
        logs = {"torch_trace.log.gz": log.structured, "torch_logs.txt.gz": log.text}
        kept = {name: _pack(each, draft / name) for name, each in logs.items() if each.size}
        manifest = _manifest(log, trace, list(kept))
        _private(draft / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        if target.exists():
            os.rename(target, private / "before")
        os.rename(draft, target)
    took, spent = manifest["compile_seconds"], manifest["overhead_seconds"]
    return Bundle(target, sum(kept.values()), took, spent)


def _manifest(log: CompilerLog, trace: Path, names: list[str]) -> dict[str, Any]:
    rank = os.environ.get("RANK", "")
    return {
        "kind": BUNDLE,
        "schema": 1,
        "foretrace": __version__,
        "trace": trace.name,
        "torch": str(torch.__version__),
        "pid": os.getpid(),
        "rank": int(rank) if rank.isdigit() else None,
        "files": names,
        "records": log.records,
        "lost": log.structured.lost + log.text.lost,
        "compile_seconds": round(log.structured.compile_s, 6),
        "overhead_seconds": round(log.overhead_s, 6),
    }


def _pack(log: KeptLog, target: Path) -> int:
    with _private(target).open("wb") as raw, gzip.GzipFile("", "wb", GZIP_LEVEL, raw) as packed:
        for block in log.blocks():
            packed.write(block)
    return target.stat().st_size


def _private(path: Path) -> Path:
    path.touch(0o600)
    return path
