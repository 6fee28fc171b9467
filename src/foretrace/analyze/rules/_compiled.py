"""What the compiler's records beside a trace say about the kernels of a case."""

from __future__ import annotations

from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.compiler import CompiledLaunch


def launches(trace: Trace, case: Case) -> list[CompiledLaunch]:
    """The distinct calls of compiled code that launched a case; none without records."""
    if not trace.compiled:
        return []
    events = trace.kernel_cases["kernels"][case.number].to_list()
    found = (trace.compiled.get(event) for event in events)
    return list({id(each.call): each for each in found if each is not None}.values())


def ops(trace: Trace, case: Case) -> list[str]:
    """The ops of the program that a case performs, at least in part, by the alphabet."""
    found = launches(trace, case)
    if not found:
        return []
    from foretrace.model.compiled.program_ops import begun, performed

    return sorted(frozenset().union(*(performed(each) | begun(each) for each in found)))


def lines(trace: Trace, case: Case) -> list[str]:
    """The lines of the user's code that a case comes from: `model.py:41`."""
    found = {line for each in launches(trace, case) for line in each.lines}
    return list(dict.fromkeys(line.place for line in sorted(found)))
