"""Where a trace goes, and how it is written whole.

torch's own export is silent when the folder is missing and leaves half a file when it is killed.
Here the folder is made first, and the file is written to a private folder, checked, compressed and
renamed into place. An existing trace is replaced only on request: the next one is numbered.
"""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from foretrace import files
from foretrace.errors import ForetraceError, UsageError

SUFFIXES = (".json.gz", ".json")
# Level 6 compresses Kineto's JSON within 3% of level 9 in a third of the time.
GZIP_LEVEL = 6


def trace_path(path: str | os.PathLike[str]) -> Path:
    """The file of a trace: `traces/run` means `traces/run.json.gz`; `.json` asks for plain JSON.

    Makes the folder. With several ranks the rank is part of the name: all ranks run the same line.
    """
    text = os.fspath(path)
    if not text or text.endswith(os.sep):
        example = os.path.join(text, "run")
        raise UsageError(f"{text!r} is a folder: give a file, for example {example!r}")
    suffix = next((suffix for suffix in SUFFIXES if text.endswith(suffix)), "")
    target = Path(text.removesuffix(suffix) + _rank_suffix() + (suffix or SUFFIXES[0]))
    make_folder(target.parent)
    return target


def make_folder(folder: Path) -> None:
    """Make `folder`, or say why nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = f"cannot create the folder {folder}: {problem.strerror}"
        raise UsageError(f"{reason}; choose another with -o") from problem
    if not os.access(folder, os.W_OK):
        raise UsageError(f"the folder {folder} is not writable; choose another with -o")


def stem_of(path: Path) -> str:
    """`traces/run.json.gz` -> `run`."""
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), path.suffix)
    return path.name.removesuffix(suffix)


def record_path(trace: Path) -> Path:
    """The run record of a trace: `run.json.gz` -> `run.run.json`, in the same folder."""
    return trace.with_name(stem_of(trace) + ".run.json")


def free_path(path: Path) -> Path:
    """`path`, or the first of `run_2`, `run_3`, ... that is free."""
    stem, suffix = stem_of(path), path.name.removeprefix(stem_of(path))
    numbered = (path.with_name(f"{stem}_{number}{suffix}") for number in itertools.count(2))
    return next(free for free in itertools.chain([path], numbered) if not free.exists())


def export(profiler: Any, path: Path, *, overwrite: bool = False) -> Path:
    """Write the trace of a stopped profiler to `path` or the next free number; returns which."""
    with tempfile.TemporaryDirectory(prefix=".foretrace-", dir=path.parent) as folder:
        plain = os.path.join(folder, stem_of(path) + ".json")
        profiler.export_chrome_trace(plain)
        if not os.path.exists(plain) or os.path.getsize(plain) == 0:
            raise ForetraceError(f"torch wrote no trace for {path}: is the disk full?")
        return place(plain, path, overwrite=overwrite)


def place(plain: str, path: Path, *, overwrite: bool = False) -> Path:
    """Move a plain JSON trace to `path`, compressed if its name says so."""
    target = path if overwrite else free_path(path)
    with files.replacing(target) as draft:
        copy_trace(plain, draft, GZIP_LEVEL)
    return target


def copy_trace(plain: str, target: Path, level: int = 9) -> None:
    """Copy a plain JSON trace, compressed if the name of the target ends in `.gz`."""
    if target.name.endswith(".gz"):
        with open(plain, "rb") as source, gzip.open(target, "wb", level) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)
    else:
        shutil.copyfile(plain, target)


def _rank_suffix() -> str:
    many = os.environ.get("WORLD_SIZE", "1") not in ("", "1")
    return f"_rank{os.environ['RANK']}" if many and os.environ.get("RANK", "").isdigit() else ""
