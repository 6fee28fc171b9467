"""Which logs and which trace a path means: a bundle, a folder of logs, one log, or a trace."""

from __future__ import annotations

import os

from foretrace.errors import TraceError, UsageError
from foretrace.sources.compiler.bundle import RECORD, beside, files_of
from foretrace.sources.folder import FolderContents, refusal, searched
from foretrace.sources.limits import Limits

TRACES = (".json.gz", ".json", ".pt.trace.json.gz", ".pt.trace.json", ".json.zst")
BUNDLE = ".why"


def logs_of(path: str, limits: Limits | None = None) -> str:
    """The bundle, folder or log to read. Raises `TraceError` where there is none."""
    if os.path.isdir(path):
        return _in_folder(path, limits or Limits())
    if not os.path.isfile(path):
        if os.path.isdir(path + BUNDLE):  # `run` for `run.why`
            return path + BUNDLE
        stem = next((path + end for end in TRACES if os.path.isfile(path + end)), path)
        path = stem
    if not is_trace(path, limits or Limits()):
        return path
    return _beside(path)


def _beside(trace: str) -> str:
    found = beside(trace)
    if found is None:
        what = "no log of torch.compile lies beside this trace"
        raise TraceError("E_NO_LOGS", trace, what, hint=RECORD)
    return found


def _in_folder(path: str, limits: Limits) -> str:
    """The folder itself, or the bundle of the one trace in it."""
    try:
        files_of(path)
        return path
    except TraceError:
        held = searched(path, limits)
        bundles = {found for trace in held.traces if (found := beside(trace))} if held else set()
        if not bundles:
            raise
    if len(bundles) > 1:
        listed = ", ".join(sorted(bundles)[:4])
        raise UsageError(f"{path} holds logs of {len(bundles)} runs; choose one: {listed}")
    return bundles.pop()


def trace_of(path: str, limits: Limits | None = None) -> str | None:
    """The trace that belongs to what `logs_of` found; None for a log alone."""
    bounds = limits or Limits()
    if os.path.isdir(path):
        stem = path.rstrip("/").removesuffix(BUNDLE)
        if stem != path.rstrip("/"):
            return next((stem + end for end in TRACES if os.path.isfile(stem + end)), None)
        held = searched(path, bounds)
        return _only(path, held) if held else None
    if not os.path.isfile(path):
        return next((path + end for end in TRACES if os.path.isfile(path + end)), None)
    return path if is_trace(path, bounds) else None


def _only(path: str, held: FolderContents) -> str | None:
    if len(held.traces) > 1:
        listed = ", ".join(os.path.basename(each) for each in held.traces[:4])
        raise UsageError(f"{path} holds {len(held.traces)} traces; choose one: {listed}")
    return held.traces[0] if held.traces else None


def is_trace(path: str, limits: Limits) -> bool:
    """Whether a file is a trace, told by its first bytes."""
    return os.path.isfile(path) and refusal(path, limits) is None
