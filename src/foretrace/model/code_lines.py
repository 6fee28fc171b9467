"""The line of Python that launched a kernel, where the trace has stacks (`with_stack=True`).

The innermost frame above the launch that is not PyTorch's own: `model.py:63`. Kernels of a backward
pass are launched by autograd's thread, which runs no Python. A compiled kernel has the lines that
the compiler's records beside the trace give for it: the first of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_FRAME = re.compile(r"(?P<file>[^<>]+\.py)\((?P<line>\d+)\): .")
_LIBRARY = re.compile(r"(?:.*/)?torch/")


def of_cases(trace: Trace) -> list[str | None]:
    """For every row of `kernel_cases`, the line of its first launch that has one."""
    found = _recorded(trace)
    host, order = trace.host, trace.order
    own = host.is_kind("python_function") & host.named(_line)
    if not own.any():
        return found
    launch = trace.gpu.launch[order.row]
    frame = host.nearest(launch, own)
    rows = np.flatnonzero(frame >= 0)
    cases, first = np.unique(order.case[rows], return_index=True)
    for case, at in zip(cases.tolist(), first.tolist(), strict=True):
        found[case] = found[case] or _line(host.names[host.name[frame[rows[at]]]])
    return found


def _recorded(trace: Trace) -> list[str | None]:
    """For every row of `kernel_cases`, the line that the compiler's records give for it."""
    found: list[str | None] = [None] * trace.kernel_cases.height
    if trace.compiled:
        for case, events in enumerate(trace.kernel_cases["kernels"].to_list()):
            launches = (trace.compiled.get(event) for event in events)
            lines = (each.call.sources[0] for each in launches if each and each.call.sources)
            line = next(lines, None)
            found[case] = f"{line.file}:{line.line}" if line else None
    return found


def _line(name: str) -> str:
    match = _FRAME.match(name)
    return f"{match['file']}:{match['line']}" if match and not _LIBRARY.match(name) else ""
