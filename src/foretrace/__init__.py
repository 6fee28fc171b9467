"""foretrace: guess first, then look. Capture, read, check and compare PyTorch profiler traces.

    import foretrace as ft
    trace = ft.open("trace.json.gz")  # tables: trace.kernels, trace.ops
    ft.look(trace)                    # the document of `foretrace look --json`; print it
    ft.findings(trace)                # what the rules found
    ft.compare("a.json.gz", "b.json.gz")  # paths and names of recordings do as well
    ft.lesson(1)                      # in a notebook: predict what a program does, see at once why

These names are the public interface. Each is imported when it is first used, so that
`import foretrace` costs nothing and capturing needs torch alone.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from foretrace.base.version import __version__

if TYPE_CHECKING:
    from foretrace.analyze.compare import Comparison, compare
    from foretrace.analyze.findings import findings
    from foretrace.analyze.guess import check, expect
    from foretrace.base.errors import ForetraceError, MissingError, TraceError, UsageError
    from foretrace.learn.lessons.lesson_page import lesson
    from foretrace.model.opening import open, open_all  # noqa: A004 - the public name
    from foretrace.model.trace import Trace
    from foretrace.record.profiling import capture, handler
    from foretrace.schema.documents.look import Look
    from foretrace.schema.finding import Finding, Verdict
    from foretrace.show.overview import look

# Where the public names live; `module:name` where it has another name there. The imports above are
# the same list for type checkers, and a test holds the two together.
_PLACES = {
    "model.opening": "open open_all",
    "show.overview": "look",
    "analyze.findings:findings": "findings",
    "analyze.compare": "Comparison compare",
    "analyze.guess": "check expect",
    "learn.lessons.lesson_page": "lesson",
    "record.profiling": "capture handler",
    "model.trace": "Trace",
    "schema.documents.look": "Look",
    "schema.finding": "Finding Verdict",
    "base.errors": "ForetraceError MissingError TraceError UsageError",
}
_PUBLIC = {name: place for place, names in _PLACES.items() for name in names.split()}
__all__ = [
    "Comparison",
    "Finding",
    "ForetraceError",
    "Look",
    "MissingError",
    "Trace",
    "TraceError",
    "UsageError",
    "Verdict",
    "__version__",
    "capture",
    "check",
    "compare",
    "expect",
    "findings",
    "handler",
    "lesson",
    "look",
    "open",
    "open_all",
]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'foretrace' has no attribute {name!r}")
    from foretrace.schema.display import LOADERS

    LOADERS[:] = [_drawings]
    if "IPython" in sys.modules:
        # a machine that only captures lacks what drawings need
        with suppress(ImportError):
            _drawings()
    module, _, other = _PUBLIC[name].partition(":")
    found: object = getattr(import_module(f"foretrace.{module}"), other or name)
    globals()[name] = found
    return found


def _drawings() -> None:
    """Register how results are drawn and printed."""
    from foretrace.show.html import notebook  # noqa: F401


def __dir__() -> list[str]:
    return sorted(__all__)
