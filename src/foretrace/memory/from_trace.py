"""The memory events of a trace as a history of the allocator, so that one analysis serves both.

`profile_memory=True` writes one event for each allocation and release, on GPUs and on CPUs. The
ops, ranges and Python functions around an event are its stack. What was allocated before the
recording has no event: it is one block whose kind is not known.

A snapshot has lines and no modules. A trace of the same run that was recorded with
`profile_memory` and modules has the address of each allocation in the recorded steps. The same
addresses follow each other in both.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.read.snapshot import (
    ALLOC,
    FREE,
    HeldBlock,
    History,
    Mark,
    Numbers,
    Owner,
    Segment,
    Snapshot,
    StackFrame,
)
from foretrace.trace.allocator.categories import OPTIMIZER_STEP
from foretrace.trace.allocator.view import MemoryView, ModuleNames
from foretrace.trace.analysis import Analysis
from foretrace.trace.flame import Scopes
from foretrace.trace.modules import CPU, around
from foretrace.trace.traced_memory import MemoryTable

HOST = -1  # the number of the CPU among devices
_EARLIER = 1  # the address of what was there before the recording
_PYTHON = regex(r"^([^()]*\.py)\((\d+)\): (.*)$")
_MODULE, _BACKWARD = "nn.Module: ", "autograd::engine::evaluate_function"
_CALL = StackFrame("_call_impl", "/torch/nn/modules/module.py", 0)
_ENGINE = StackFrame("torch::autograd::Engine::evaluate_function", "", 0)


def snapshot_of_trace(trace: Analysis, path: str) -> Snapshot:
    """The memory of a trace; one without memory events raises `TraceError`."""
    table = MemoryTable(trace)
    if not len(table.event):
        hint = "record with profile_memory=True, or foretrace record --memory"
        raise TraceError("E_NO_MEMORY", path, "the trace has no memory events", hint=hint)
    device = np.where(table.kind == CPU, HOST, table.device)
    wanted = [each for each in np.unique(device).tolist() if each != HOST] or [HOST]
    stacks = _Chains(trace, table)
    parts = [_device(table, stacks, np.flatnonzero(device == each), each) for each in wanted]
    return Snapshot(
        path,
        [history for history, _ in parts],
        [segment for _, segment in parts],
        stacks.frames,
        list(stacks.stacks),
        list(_marks(trace)),
        False,
        [Owner(_EARLIER, "unknown", "")],
        "CPU" if wanted == [HOST] else "",
    )


def _device(
    table: MemoryTable, stacks: _Chains, rows: Numbers, device: int
) -> tuple[History, Segment]:
    """The events of a device, and a segment that holds what no event of the trace allocated."""
    size, addr = table.bytes[rows], table.address[rows]
    action = np.where(size > 0, ALLOC, FREE)
    time = table.trace.host.start[table.event[rows]] // 1_000
    history = History(device, action, addr, np.abs(size), time, stacks.of[rows])
    total, reserved = table.allocated[rows], table.reserved[rows]
    first = int(total[0] - size[0]) if total[0] >= 0 else 0
    # less what the trace frees and never allocated
    known = size[np.unique(addr, return_index=True)[1]]
    earlier = max(first + int(known[known < 0].sum()), 0)
    blocks = [HeldBlock(_EARLIER, earlier, earlier, "active_allocated", 0)] if earlier else []
    held = max(int(reserved.max()), int(total.max()), 0)
    return history, Segment(device, _EARLIER, held, False, False, blocks)


class _Chains:
    """The stack of each memory event, by the host events around it."""

    def __init__(self, trace: Analysis, table: MemoryTable) -> None:
        host = trace.host
        python = host.is_kind("python_function")
        chosen = host.is_op | host.is_region | python
        paths = host.paths(chosen & host.lasting)
        row = around(host, paths, table.event)
        self.stacks: dict[tuple[int, ...], int] = {(): 0}
        self._numbers: dict[StackFrame, int] = {}
        self._has_python = bool(python.any())
        number, first, back = np.unique(paths.numbers(row), return_index=True, return_inverse=True)
        known = np.array([self._stack(paths.names(int(row[at]), host.names)) for at in first])
        self.of = known[back] if len(number) else np.zeros(0, np.int64)
        self.frames = list(self._numbers)

    def _stack(self, names: tuple[str, ...]) -> int:
        frames = [frame for name in reversed(names) if (frame := _frame(name)) is not None]
        passes = any(frame == _ENGINE or "/torch/optim/" in frame.file for frame in frames)
        if not self._has_python and frames and not passes:
            frames.append(_CALL)  # without Python functions nothing says that a module was called
        stack = tuple(self._numbers.setdefault(frame, len(self._numbers)) for frame in frames)
        return self.stacks.setdefault(stack, len(self.stacks))


def _frame(name: str) -> StackFrame | None:
    if found := _PYTHON.match(name):
        file = found[1] if found[1].startswith(("/", "<")) else f"/{found[1]}"
        return StackFrame(found[3], file, int(found[2]))
    if name.startswith(_MODULE):
        return _CALL
    if name.startswith(_BACKWARD):
        return _ENGINE
    if name.startswith("Optimizer."):
        called = name.partition("#")[0].removeprefix("Optimizer.")
        return StackFrame(called, "/torch/optim/optimizer.py", 0)
    return None if name.startswith("ProfilerStep") else StackFrame(name, "", 0)


def _marks(trace: Analysis) -> Iterator[Mark]:
    """The optimizer's steps, as a snapshot has them."""
    host = trace.host
    for row in np.flatnonzero(host.is_region & host.lasting).tolist():
        name = host.names[host.name[row]]
        if name.startswith(OPTIMIZER_STEP):
            yield Mark(name, True, int(host.start[row]) // 1_000)
            yield Mark(name, False, int(host.end[row]) // 1_000)


ENOUGH = 16  # addresses in a row that are no chance
_WIDTH = 8  # bytes of an address


def module_names(view: MemoryView, trace: Analysis) -> ModuleNames:
    """The modules of each place in a step: those of the recorded steps hold for all.

    Empty where the trace has no modules, no memory events, or those of another run.
    """
    table = MemoryTable(trace)
    device = view.history.device
    rows = np.flatnonzero((table.kind != CPU) & (table.device == device) & (table.bytes > 0))
    made = np.flatnonzero(~view.lives.before)
    # where the first addresses of the trace stand in the history
    traced = table.address[rows]
    wanted = traced[:ENOUGH].astype(np.int64).tobytes()
    text = np.ascontiguousarray(view.lives.addr[made], np.int64).tobytes()
    at = text.find(wanted) if len(traced) >= ENOUGH else -1
    while at >= 0 and at % _WIDTH:
        at = text.find(wanted, at + 1)
    first = at // _WIDTH
    if at < 0 or not trace.module_calls.is_module.any():
        return {}
    count = min(len(rows), len(made) - first)
    rows, made = rows[:count], made[first : first + count]
    same = table.address[rows] == view.lives.addr[made]
    rows, made = rows[same], made[same]
    host = trace.host
    scopes = Scopes(trace, around(host, host.paths(host.is_op & host.lasting), table.event[rows]))
    return {view.places[row]: scopes.names(at) for at, row in enumerate(made.tolist())}
