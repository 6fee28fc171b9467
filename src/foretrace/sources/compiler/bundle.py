"""Which files hold the logs of a run, and where they lie beside its trace."""

from __future__ import annotations

import os
import re

from foretrace.errors import TraceError

_LOG = re.compile(r"(?:(?:dedicated_log_)?torch_trace.*\.log|torch_logs.*\.txt)(?:\.(?:gz|zst))?")
_TRACE_ENDS = re.compile(r"(?:\.pt\.trace)?\.json(?:\.gz|\.zst)?$")
RECORD = "record them with `foretrace record --why`, or with TORCH_TRACE=DIR"


def files_of(path: str) -> list[str]:
    """The logs that `path` means: a folder's, in the order of their names, or the file itself."""
    if not os.path.isdir(path):
        return [path]
    logs = _logs_in(path)
    if not logs:
        raise TraceError("E_NO_LOGS", path, "contains no log of torch.compile", hint=RECORD)
    return logs


def beside(trace_path: str) -> str | None:
    """The bundle that belongs to a trace: `run.why` beside `run.json.gz`, or its own folder."""
    folder, name = os.path.split(trace_path)
    bundle = os.path.join(folder, _TRACE_ENDS.sub("", name) + ".why")
    if os.path.isdir(bundle):
        return bundle
    return (folder or ".") if _logs_in(folder or ".") else None


def _logs_in(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if _LOG.fullmatch(name)]
