"""Where a trace goes, and how it is written whole.

torch's own export is silent when the folder is missing and leaves half a file when it is killed.
Here the folder is made first, and the file is written to a private folder, checked, compressed and
moved into place. An existing trace is replaced only on request: the next one is numbered.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foretrace.base import files
from foretrace.base.errors import ForetraceError, UsageError

SUFFIXES = (".json.gz", ".json")
# Level 6 compresses Kineto's JSON within 3% of level 9 in a third of the time.
GZIP_LEVEL = 6
BUNDLE = "foretrace-why"  # what the manifest of a bundle says it is
MANIFEST = "manifest.json"


def trace_path(path: str | os.PathLike[str]) -> Path:
    """The file of a trace: `traces/run` means `traces/run.json.gz`; `.json` asks for plain JSON.

    Makes the folder. With several ranks the rank is part of the name: all ranks run the same line.
    """
    text = os.fspath(path)
    if not text or text.endswith(os.sep):
        example = os.path.join(text, "run")
        raise UsageError(f"{text!r} is a folder: give a file, for example {example!r}")
    suffix = next((suffix for suffix in SUFFIXES if text.endswith(suffix)), "")
    stem, rank, world = (text.removesuffix(suffix), *map(os.environ.get, ("RANK", "WORLD_SIZE")))
    rank = f"_rank{rank}" if world not in (None, "", "1") and (rank or "").isdigit() else ""
    named = re.search(rf"{rank}(?!\d)", os.path.basename(stem))  # a name that was made here
    target = Path(stem + ("" if named else rank) + (suffix or SUFFIXES[0]))
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


def _beside(ending: str) -> Callable[[Path], Path]:
    return lambda trace: trace.with_name(stem_of(trace) + ending)


# what lies beside `run.json.gz`, in the same folder
record_path = _beside(".run.json")
bundle_path = _beside(".why")  # the compiler's records
captures_path = _beside(".captures")  # of its graphs
snapshot_path = _beside(".memory.pickle")  # of the allocator
oom_path = _beside(".oom.pickle")  # of the allocator when memory ran out
_BESIDE = (record_path, bundle_path, captures_path, snapshot_path, oom_path)


def is_captures(folder: Path) -> bool:
    """Whether this is a folder that holds nothing but captures that we wrote."""
    named = os.listdir(folder) if folder.is_dir() else [""]
    return not folder.is_symlink() and all(name.startswith("graph_") for name in named)


def is_bundle(folder: Path) -> bool:
    """Whether this is a folder of compiler's records that we wrote."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found = json.loads((folder / MANIFEST).read_bytes())
        return not folder.is_symlink() and found.get("kind") == BUNDLE
    return False


@contextlib.contextmanager
def replacing_folder(target: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """A private draft, which takes the place of an earlier folder of ours at the end."""
    if os.path.lexists(target) and not is_ours(target):
        raise FileExistsError(f"{target} is there, and foretrace did not write it")
    with files.scratch(target.parent) as private:
        draft = private / target.name
        draft.mkdir(0o700)
        yield draft
        if target.exists():
            os.rename(target, private / "before")
        os.rename(draft, target)


def numbered(path: Path) -> Iterator[Path]:
    """`path`, then `run_2`, `run_3`, ...; a name with a run record, compiler's records, captures or
    a snapshot belongs to another trace.
    """
    stem, suffix = stem_of(path), path.name.removeprefix(stem_of(path))
    others = (path.with_name(f"{stem}_{number}{suffix}") for number in itertools.count(2))
    return (
        free
        for free in itertools.chain([path], others)
        if not any(path(free).exists() for path in _BESIDE)
    )


def export(profiler: Any, path: Path, *, overwrite: bool = False) -> Path:
    """Write the trace of a stopped profiler to `path` or the next free number; returns which."""
    with files.scratch(path.parent) as folder:
        plain = os.path.join(folder, stem_of(path) + ".json")
        profiler.export_chrome_trace(plain)
        if not os.path.exists(plain) or os.path.getsize(plain) == 0:
            raise ForetraceError(f"torch wrote no trace for {path}: is the disk full?")
        return place(plain, path, overwrite=overwrite)


def place(plain: str, path: Path, *, overwrite: bool = False) -> Path:
    """Move a plain JSON trace to `path`, compressed if its name says so."""
    with files.scratch(path.parent) as folder:
        draft = folder / path.name
        copy_trace(plain, draft, GZIP_LEVEL)
        if overwrite:
            os.replace(draft, path)
            # their reasons and their ops are those of the trace before
            for place_of, is_ours in ((bundle_path, is_bundle), (captures_path, is_captures)):
                if is_ours(place_of(path)):
                    shutil.rmtree(place_of(path), ignore_errors=True)
            for beside in (snapshot_path(path), oom_path(path)):
                beside.unlink(missing_ok=True)
            return path
        return next(target for target in numbered(path) if _taken(draft, target))


def _taken(draft: Path, target: Path) -> bool:
    """Give the draft this name unless it is in use: several processes may export at once."""
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            target.touch(exist_ok=False)
        except FileExistsError:
            return False
        os.replace(draft, target)
    return True


def copy_trace(plain: str, target: Path, level: int = 9) -> None:
    """Copy a plain JSON trace, compressed if the name of the target ends in `.gz`."""
    if target.name.endswith(".gz"):
        with open(plain, "rb") as source, gzip.open(target, "wb", level) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)
    else:
        shutil.copyfile(plain, target)
