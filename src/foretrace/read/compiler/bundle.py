"""Which files hold the logs of a run, and where they lie beside its trace.

A bundle is what `foretrace record --why` writes: `run.why/` beside `run.json.gz`, with a manifest.
A folder that holds logs is one as well, as `TORCH_TRACE` leaves it, and so is a single log.
"""

from __future__ import annotations

import os

from foretrace.base.errors import TraceError, UsageError, printable
from foretrace.base.patterns import regex

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
