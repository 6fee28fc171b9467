"""From a kernel to the source line and the compiler's reasons.

`sources/compiler` reads the records of a log. The modules here turn them into what
`schema/compiler.py` describes, and join that with the launches of a trace. Nothing runs the code
that a log holds: graphs and kernels are parsed as text. `look` asks for every trace whether it has
records of the compiler, so that nothing is imported before it has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from foretrace.base.errors import ForetraceError

if TYPE_CHECKING:
    from foretrace.analyze.why.launches import Launches
    from foretrace.base.budget import Limits
    from foretrace.model.trace import Trace
    from foretrace.schema.compiler import CompilerRun
    from foretrace.schema.documents.why import Why

_FOUND: WeakKeyDictionary[Trace, CompilerRun | None] = WeakKeyDictionary()
_JOINED: WeakKeyDictionary[Trace, Launches] = WeakKeyDictionary()


def load(path: str | os.PathLike[str], limits: Limits | None = None) -> CompilerRun:
    """Everything that the compiler's records say: of a bundle, a log, or those beside a trace.

    Raises `foretrace.TraceError` where none is found, or where they cannot be read.
    """
    from foretrace.analyze.why.assemble import assemble
    from foretrace.read.compiler import one_run, read

    return assemble(one_run(read(os.fspath(path), limits)))


def of(trace: Trace) -> CompilerRun | None:
    """The compiler's records beside a trace; None where it has none that can be read."""
    if trace not in _FOUND:
        _FOUND[trace] = _beside(trace)
    return _FOUND[trace]


def _beside(trace: Trace) -> CompilerRun | None:
    from foretrace.read.compiler import beside, read

    found = beside(trace.path)
    if found is None:
        return None
    from foretrace.analyze.why.assemble import assemble
    from foretrace.analyze.why.places import own_run

    try:
        logs = own_run(read(found), trace)
    except (ForetraceError, OSError):
        return None
    run = assemble(logs)
    return run if run.compilations else None


def adopt(trace: Trace, run: CompilerRun) -> None:
    """Let `of` answer with records that were read already."""
    _FOUND[trace] = run
    _JOINED.pop(trace, None)


def disregard(trace: Trace) -> None:
    """Let `of` answer as if there were no records: they cannot be used with this trace."""
    _FOUND[trace] = None
    _JOINED.pop(trace, None)


def joined(trace: Trace) -> Launches:
    """The launches of compiled code in a trace with the compiler's records, joined once."""
    from foretrace.analyze.why.launches import join

    if trace not in _JOINED:
        run = of(trace)
        assert run is not None  # the caller has asked
        _JOINED[trace] = join(run, trace)
    return _JOINED[trace]


def explain(run: CompilerRun, trace: Trace | None = None, other: CompilerRun | None = None) -> Why:
    """The document of `foretrace why --json`; `other` says what a second run made of pairs."""
    from foretrace.analyze.why.explained import explained

    if trace is None:
        return explained(run, None, None, other)
    adopt(trace, run)
    return explained(run, trace, joined(trace), other)
