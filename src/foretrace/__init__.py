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
from types import ModuleType
from typing import TYPE_CHECKING

from foretrace.base.version import __version__

if TYPE_CHECKING:
    from foretrace.base.errors import ForetraceError, MissingError, TraceError, UsageError
    from foretrace.check import check
    from foretrace.check.expecting import expect
    from foretrace.check.verdict import Verdict
    from foretrace.compare import Comparison, compare
    from foretrace.learn.lessons.lesson_page import lesson
    from foretrace.look import look
    from foretrace.look.documents import Finding, Look
    from foretrace.look.savings import findings
    from foretrace.record.profiling import capture, handler
    from foretrace.trace.opening import open, open_all  # noqa: A004 - the public name
    from foretrace.trace.trace import Trace

# Where the public names live; `module:name` where it has another name there. The imports above are
# the same list for type checkers, and a test holds the two together.
_PLACES = {
    "trace.opening": "open open_all",
    "trace.trace": "Trace",
    "look": "look",
    "look.documents": "Finding Look",
    "look.savings": "findings",
    "check": "check",
    "check.expecting": "expect",
    "check.verdict": "Verdict",
    "compare": "Comparison compare",
    "record.profiling": "capture handler",
    "learn.lessons.lesson_page": "lesson",
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
    from foretrace.base.display import LOADERS

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
    from foretrace.pages import notebook  # noqa: F401


class _Face(ModuleType):
    """Python sets a room as an attribute of its package, where `look`, `check` and `compare` are
    functions: those stay.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def __dir__() -> list[str]:
    return sorted(__all__)
