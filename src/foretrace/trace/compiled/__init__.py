"""What torch.compile made of the program, from its records beside a trace.

`read/compiler` reads the records of a log. `assemble` turns them into a `CompilerRun`, and
`launches` joins that with the launches of a trace. Nothing runs the code that a log holds: graphs
and kernels are parsed as text. `look` checks every trace for records. So this module imports the
parsers only after it has found some.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from foretrace.base.errors import ForetraceError, LimitError, TraceError, warn
from foretrace.read.tables import Tables
from foretrace.trace.arguments import Arguments
from foretrace.trace.gpu import Gpu
from foretrace.trace.host import Host

if TYPE_CHECKING:
    from foretrace.base.budget import Limits
    from foretrace.read.compiler import CompilerLogs
    from foretrace.read.compiler.records import CompiledLaunch, CompilerRun
    from foretrace.trace.compiled.launches import Launches

_GENERATED = ("inductor_triton", "inductor_cpp")


def load(path: str | os.PathLike[str], limits: Limits | None = None) -> CompilerRun:
    """Everything that the compiler's records say: of a bundle, a log, or those beside a trace.

    Raises `foretrace.TraceError` where none is found, or where they cannot be read.
    """
    from foretrace.read.compiler import one_run, read
    from foretrace.trace.compiled.assemble import assemble

    return assemble(one_run(read(os.fspath(path), limits)))


class CompiledTrace:
    """The compiler's records that belong to one trace, read at first use."""

    def __init__(
        self,
        path: str,
        tables: Tables,
        host: Host,
        gpu: Gpu,
        arguments: Arguments,
        rank: int | None,
    ) -> None:
        self.path, self.tables, self.host, self.gpu = path, tables, host, gpu
        self.arguments, self.rank = arguments, rank

    @cached_property
    def run(self) -> CompilerRun | None:
        """What the records say; None where the trace has none that can be read."""
        return self._beside()

    @cached_property
    def launches(self) -> Launches | None:
        """The launches of compiled code in the trace, joined with the records."""
        if self.run is None:
            return None
        from foretrace.trace.compiled.launches import join

        return join(self.run, self.host, self.gpu, self.tables, self.arguments, self.rank)

    def use(self, run: CompilerRun | None) -> None:
        """Use records that were read already; with None, use no records."""
        self.__dict__.pop("launches", None)
        self.run = run

    def by_event(self) -> Mapping[int, CompiledLaunch]:
        """The call of compiled code that made each launch. Records that fail are not used."""
        try:
            if self.run is None or self.launches is None:
                return {}
            from foretrace.trace.compiled.launches import launched

            return launched(self.run, self.launches)
        except (LimitError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001 - a log nobody has seen must not cost a trace
            what = f"{type(problem).__name__}: {problem}"
            warn(f"the compiler's records beside {self.path} are not used: {what}")
            self.use(None)
            return {}

    def own_run(self, logs: CompilerLogs) -> CompilerLogs:
        """The logs of the trace's run alone. Raises `TraceError` where they are of another run."""
        from foretrace.base.units import whole
        from foretrace.read.compiler import one_run, stranger
        from foretrace.read.compiler.bundle import HINT
        from foretrace.work import families

        numbers = [whole(text) for text in self.tables["tracks"]["pid"].to_list()]
        named = [name for name in self.host.names if name.startswith(("triton_", "cpp_"))]
        generated = {name for name in named if families.decode(name).family in _GENERATED}
        pids = {pid for pid in numbers if pid}
        reason = stranger(logs, self.path, pids, generated)
        if reason:
            raise TraceError("E_OTHER_RUN", logs.path, reason, hint=HINT)
        return one_run(logs, pids)

    def _beside(self) -> CompilerRun | None:
        from foretrace.read.compiler import beside, read

        found = beside(self.path)
        if found is None:
            return None
        from foretrace.trace.compiled.assemble import assemble

        try:
            logs = self.own_run(read(found))
        except (ForetraceError, OSError):
            return None
        run = assemble(logs)
        return run if run.compilations else None
