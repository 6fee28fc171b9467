"""The line of Python that launched a kernel, where the trace has stacks (`with_stack=True`).

The innermost frame above the launch that is not PyTorch's own: `model.py:63`. Kernels of a backward
pass are launched by autograd's thread, which runs no Python. A compiled kernel has the lines that
the compiler's records beside the trace give for it.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.patterns import regex
from foretrace.model.analysis import Analysis

_FRAME = regex(r"(?P<file>[^<>]+\.py)\((?P<line>\d+)\): .")
_LIBRARY = regex(r"(?:.*/)?torch/")


def of_cases(trace: Analysis) -> list[str | None]:
    """For every row of `kernel_cases`, the line of its first launch that has one."""
    host, order = trace.origins.host, trace.order
    found = [next(iter(lines), None) for lines in recorded(trace)]
    own = host.is_kind("python_function") & host.named(line_of)
    if not own.any():
        return found
    launch = trace.origins.launch[order.row]
    frame = host.nearest(launch, own)
    rows = np.flatnonzero(frame >= 0)
    cases, first = np.unique(order.case[rows], return_index=True)
    for case, at in zip(cases.tolist(), first.tolist(), strict=True):
        found[case] = found[case] or line_of(host.names[host.name[frame[rows[at]]]])
    return found


def recorded(trace: Analysis) -> list[list[str]]:
    """The lines that the compiler's records give for each case, in the order of the file."""
    if not trace.compiled:
        return [[] for _ in range(trace.kernel_cases.height)]
    found = []
    for events in trace.kernel_cases["kernels"].to_list():
        launches = (trace.compiled.get(event) for event in events)
        lines = {(each.file, each.line) for one in launches if one for each in one.lines}
        found.append([f"{file}:{line}" for file, line in sorted(lines)])
    return found


def line_of(name: str) -> str:
    """The line of a frame of Python that is not PyTorch's own; \"\" for others."""
    match = _FRAME.match(name)
    return f"{match['file']}:{match['line']}" if match and not _LIBRARY.match(name) else ""
