"""foretrace: guess first, then look. Capture, read, check and compare PyTorch profiler traces.

    import foretrace as ft
    trace = ft.open("trace.json.gz")     # tables: trace.kernels, trace.ops, trace.steps,
                                         trace.sql("select ...")
    ft.look(trace)                       # the document of `foretrace look --json`
    ft.findings(trace)                   # what the rules say; this and the rest show themselves in
                                         a notebook

Everything is imported when it is first used: `import foretrace` costs nothing, and capturing needs
torch alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from foretrace.look import look as look
    from foretrace.opening import open as open
    from foretrace.opening import open_all as open_all

# public name -> where it lives; `module:name` where it has another name there
_PUBLIC = {
    "open": "opening",
    "open_all": "opening",
    "look": "look",
    "findings": "analyses:run_all",
    "compare": "compare",
    "check": "guess",
    "expect": "guess",
    "capture": "capture",
    "handler": "capture",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'foretrace' has no attribute {name!r}")
    module, _, other = _PUBLIC[name].partition(":")
    found = getattr(import_module(f".{module}", __name__), other or name)
    globals()[name] = found  # a submodule of the same name would otherwise shadow the function
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
