"""Where a trace goes, and how it gets there whole.

torch's own export says nothing when the folder is missing and leaves half a file when it is killed.
Here the folder is made first, the file is written in a private folder beside its goal, checked,
packed and moved into place in one step, so a trace that exists is a whole one. An existing trace is
never replaced unless that was asked for: the next one is numbered.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from foretrace.errors import ForetraceError, UsageError

SUFFIXES = (".json.gz", ".json")
# Level 6 packs Kineto's JSON within 3% of level 9 in a third of the time.
GZIP_LEVEL = 6


def trace_path(path: str | os.PathLike[str]) -> Path:
    """The file a trace will have: `traces/run` means `traces/run.json.gz`; `.json` asks for plain
    JSON.

    Makes the folder. With several ranks the rank joins the name, since all of them run the same
    line.
    """
    text = os.fspath(path)
    if not text or text.endswith(os.sep):
        raise UsageError(
            f"{text!r} names a folder; say which file, for example {os.path.join(text, 'run')!r}"
        )
    suffix = next((suffix for suffix in SUFFIXES if text.endswith(suffix)), "")
    stem = text.removesuffix(suffix)
    target = Path(stem + _rank_suffix() + (suffix or SUFFIXES[0]))
    make_folder(target.parent)
    return target


def make_folder(folder: Path) -> None:
    """Make `folder`, or say why nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"cannot make the folder {folder}: {problem.strerror}; choose another with -o"
        ) from problem
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
    stem, suffix, number = stem_of(path), path.name.removeprefix(stem_of(path)), 2
    free = path
    while free.exists():
        free, number = path.with_name(f"{stem}_{number}{suffix}"), number + 1
    return free


def export(profiler: Any, path: Path, *, overwrite: bool = False) -> Path:
    """Write the trace of a stopped `torch.profiler` object to `path`, or the next free number;
    returns which.
    """
    with _private_folder(path.parent) as folder:
        plain = os.path.join(folder, stem_of(path) + ".json")
        profiler.export_chrome_trace(plain)
        if not os.path.exists(plain) or os.path.getsize(plain) == 0:
            raise ForetraceError(f"torch wrote no trace for {path}: is the disk full?")
        return place(plain, path, overwrite=overwrite)


def place(plain: str, path: Path, *, overwrite: bool = False) -> Path:
    """Move a plain JSON trace to `path`, packed if its name says so."""
    target = path if overwrite else free_path(path)
    with _private_folder(path.parent) as folder:
        ready = os.path.join(folder, path.name)
        if path.name.endswith(".gz"):
            with (
                open(plain, "rb") as source,
                gzip.open(ready, "wb", compresslevel=GZIP_LEVEL) as packed,
            ):
                shutil.copyfileobj(source, packed, 1 << 20)
        else:
            shutil.copyfile(plain, ready)
        os.replace(ready, target)
    return target


def _private_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    # Beside the goal, so that the last step is a rename within one file system; mode 0700 until it
    # is whole.
    return tempfile.TemporaryDirectory(prefix=".foretrace-", dir=parent)


def _rank_suffix() -> str:
    many = os.environ.get("WORLD_SIZE", "1") not in ("", "1")
    return f"_rank{os.environ['RANK']}" if many and os.environ.get("RANK", "").isdigit() else ""
