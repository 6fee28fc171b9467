"""GPU and host time as stacks: the modules around the work, the pass, the op, the kernel.

Without recorded nn.Modules the stacks begin with the `record_function` ranges around the work.
`FlameViews` has the four flame graphs of a trace. A row is one GPU operation, or one host event
with the time that it spends outside the events below it.

The line of Python that launched a kernel is the innermost frame above the launch that is not
PyTorch's own (`with_stack=True`), or what the compiler's records beside the trace say. Autograd's
thread, which launches the backward pass, runs no Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.trace.analysis import Analysis
from foretrace.trace.host import DEEPEST, ELLIPSIS, Paths, sums_above
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.module_calls import (
    FORWARD,
    NAMED,
    OUTSIDE,
    PREFIX,
    STEP,
    AutogradNodes,
    Owners,
    in_closure,
)
from foretrace.work import families

PASSES = ("forward", "backward", "recomputed")
NO_OP = "no op recorded"
Frame = tuple[str, str]  # module, range, pass, op, call or kernel; and the name


class Stack(Struct, frozen=True):
    """All GPU work, or host events, with one stack, outermost first: its time, how often it ran."""

    frames: tuple[str, ...]
    ns: int
    count: int


class Scopes:
    """The modules or ranges that some host events belong to; the autograd nodes tell whose backward
    pass they are.
    """

    def __init__(self, trace: Analysis, events: Ints | None = None) -> None:
        self.trace, self.host = trace, trace.origins.host
        modules = trace.module_calls
        self.has_modules = bool(modules.is_module.any())
        self.chosen = modules.is_module if self.has_modules else self.host.is_region
        self.paths = modules.paths if self.has_modules else self.host.paths(self.chosen)
        if events is None and self.has_modules:
            self.owners = modules.owners
        else:
            events = trace.origins.launch_or_op if events is None else events
            nodes = modules.owners.nodes if self.has_modules else AutogradNodes(trace)
            self.owners = Owners(nodes, self.chosen, events)
        self._known: dict[int, tuple[str, ...]] = {}

    def names(self, row: int) -> tuple[str, ...]:
        """The modules or ranges of an event, outermost first."""
        call = int(self.owners.call[row])
        if call < 0:
            return ()
        if call not in self._known:
            names = self.paths.names(call, self.host.names)
            self._known[call] = tuple(name.removeprefix(PREFIX) for name in names)
        return self._known[call]

    def ran(self, row: int) -> str:
        """`forward`, `backward` or `recomputed`; "" for what no module owns."""
        return PASSES[self.owners.ran[row]] if self.owners.call[row] >= 0 else ""

    def frames(self, row: int, outside: str = "") -> tuple[Frame, ...]:
        """Modules or ranges and, where it is not the forward pass, the pass."""
        kind = "module" if self.has_modules else "range"
        found = [(kind, name) for name in self.names(row)]
        if not found and outside:
            found = [(kind, outside)]
        if self.owners.ran[row] != FORWARD and (ran := self.ran(row)):
            found.append(("pass", ran))
        return tuple(found)

    @cached_property
    def number(self) -> Ints:
        """A number for the path and the pass of each event."""
        return numbered(self.paths.numbers(self.owners.call), self.owners.ran)


class Stacks(Scopes):
    """The stack of every row of `gpu`; rows with one stack share a number."""

    def __init__(self, trace: Analysis) -> None:
        super().__init__(trace)
        texts = trace.outside_modules if self.has_modules else [""] * len(trace.gpu)
        numbers = {text: at for at, text in enumerate(sorted(set(texts)))}
        self._place = np.array([numbers[text] for text in texts], np.int64)
        self._outside = list(numbers)

    def scopes(self, row: int) -> tuple[str, ...]:
        """The modules or ranges around a row's work, outermost first."""
        outside = self.outside(row)
        return self.names(row) or ((outside,) if outside else ())

    def outside(self, row: int) -> str:
        """What a row's work is called where no module owns it."""
        return self._outside[int(self._place[row])]

    @cached_property
    def stack(self) -> Ints:
        """The number of each row's stack."""
        host, op = self.host, self.trace.origins.op
        name = np.where(op >= 0, host.name[np.maximum(op, 0)], -1)
        return numbered(self.number, self._place, name, host.name[self.trace.gpu.id])

    def every(self) -> list[Stack]:
        """One entry for each distinct stack, in order of first launch."""
        return _joined(self.stack, self.trace.gpu.length, self._frames)

    def _frames(self, row: int) -> tuple[str, ...]:
        host, op = self.host, int(self.trace.origins.op[row])
        named = host.names[host.name[op]] if op >= 0 else NO_OP
        around = self.frames(row, self.outside(row))
        return (*(name for _, name in around), named, kernel_frame(self.trace, row)[1])


def _joined(
    number: Ints, lengths: Ints, frames_of: Callable[[int], tuple[str, ...]]
) -> list[Stack]:
    """Rows of one number as one stack, in order of the first row of each."""
    if not len(number):
        return []
    _, first, where = np.unique(number, return_index=True, return_inverse=True)
    times, counts = np.zeros(len(first), np.int64), np.bincount(where)
    np.add.at(times, where, lengths)
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for at in np.argsort(first).tolist():
        frames = frames_of(int(first[at]))
        ns, count = found.get(frames, (0, 0))  # two kernels may have one short name
        found[frames] = ns + int(times[at]), count + int(counts[at])
    return [Stack(frames, *both) for frames, both in found.items()]


def host_stacks(trace: Analysis) -> list[Stack]:
    """The host time of a trace by module and op, as `Stacks.every` has GPU time."""
    found = FlameViews(trace).of("host", "module")
    every = _joined(
        found.number, found.ns, lambda row: tuple(name for _, name in found.frames(row))
    )
    return [stack for stack in every if stack.ns]


def kernel_frame(trace: Analysis, row: int) -> Frame:
    """A row's kernel by its short name."""
    name = trace.host.names[trace.host.name[trace.gpu.id[row]]]
    return "kernel", families.decode(name).short or name


RAN = (*PASSES, "optimizer", "not known")
_OPTIMIZER, _UNKNOWN = 3, 4


class Stacked(Struct, frozen=True):
    """Rows in stacks: the number of each row's stack, its time and its pass (a place in `RAN`).

    `frames` gives the stack of a row, outermost first; `event` is the event of each.
    """

    number: Ints
    ns: Ints
    ran: Ints
    frames: Callable[[int], tuple[Frame, ...]]
    event: Ints


class FlameViews:
    """All four; `of` gives one."""

    def __init__(self, trace: Analysis) -> None:
        self.trace, self.host = trace, trace.origins.host

    def of(self, time: str, by: str) -> Stacked:
        """`gpu` or `host` time by `module` or by `op`."""
        make = {
            ("gpu", "module"): self._gpu_by_module,
            ("gpu", "op"): self._gpu_by_op,
            ("host", "module"): self._host_by_module,
            ("host", "op"): self._host_by_op,
        }
        return make[time, by]()

    @cached_property
    def stacks(self) -> Stacks:
        """GPU work by module."""
        return Stacks(self.trace)

    @cached_property
    def is_optimizer(self) -> Bools:
        """The ranges that `torch.optim` writes."""
        return self.host.is_region & self.host.named(lambda name: name.startswith("Optimizer."))

    @cached_property
    def gpu_ran(self) -> Ints:
        """The pass of each GPU row."""
        grouped = self.trace.grouped
        fused = np.array([name == "optimizer" for name in grouped.names], bool)[grouped.group]
        return self._ran(self.stacks, fused, self.stacks.owners.lost)

    def _ran(self, scopes: Scopes, stepping: Bools, lost: Bools) -> Ints:
        """What autograd tells, else what `torch.optim` does."""
        ran = scopes.owners.ran.copy()
        around = self.host.nearest(scopes.owners.launch, self.is_optimizer)
        called = self.host.named(lambda name: name.startswith(STEP))[around]
        inside = (around >= 0) & ~(called & in_closure(self.trace, scopes.owners.launch))
        ran[(ran == 0) & (inside | stepping)] = _OPTIMIZER
        ran[(ran == 0) & lost] = _UNKNOWN
        return ran

    def _gpu_by_module(self) -> Stacked:
        gpu, stacks = self.trace.gpu, self.stacks
        number, ops = self._ops_inside(self.trace.origins.launch_or_op, self.trace.origins.op)

        def frames(row: int) -> tuple[Frame, ...]:
            around, inside = stacks.frames(row, stacks.outside(row)), ops(row)
            return (*around, *(inside or [("op", NO_OP)]), kernel_frame(self.trace, row))

        number = numbered(stacks.stack, number)
        return Stacked(number, gpu.length, self.gpu_ran, frames, gpu.id)

    def _gpu_by_op(self) -> Stacked:
        gpu, op = self.trace.gpu, self.trace.origins.op
        kernel = self.host.name[gpu.id]
        number = numbered(self.ops.numbers(op), kernel)

        def frames(row: int) -> tuple[Frame, ...]:
            above = self._chain(self.ops, int(op[row])) or (("op", NO_OP),)
            return (*above, kernel_frame(self.trace, row))

        return Stacked(number, gpu.length, self.gpu_ran, frames, gpu.id)

    @cached_property
    def ops(self) -> Paths:
        """The paths of ops and of calls of the runtime."""
        host = self.host
        return host.paths((host.is_op | host.is_call) & host.lasting)

    @cached_property
    def _every(self) -> Paths:
        """The paths of modules, ops and calls."""
        return self.host.paths(self.ops.chosen | self.stacks.chosen)

    @cached_property
    def _scopes(self) -> Scopes:
        """The modules of all those events of this recording: a capture's are not its time."""
        events = np.flatnonzero(self._every.chosen[: self.trace.host.count])
        return Scopes(self.trace, events)

    @cached_property
    def _host_ran(self) -> Ints:
        none = np.zeros(len(self._scopes.owners.ran), bool)
        return self._ran(self._scopes, none, none)

    def _host_by_op(self) -> Stacked:
        mine = np.flatnonzero(self.ops.chosen[self._scopes.owners.launch])
        events = self._scopes.owners.launch[mine]
        return Stacked(
            self.ops.numbers(events),
            self._self_ns(self.ops, events),
            self._host_ran[mine],
            lambda row: self._chain(self.ops, int(events[row])),
            events,
        )

    def _host_by_module(self) -> Stacked:
        scopes, events = self._scopes, self._scopes.owners.launch
        number, ops = self._ops_inside(events, self.host.nearest(events, self.ops.chosen))

        def frames(row: int) -> tuple[Frame, ...]:
            return (*scopes.frames(row, self.host_outside(row)), *ops(row))

        number = numbered(scopes.number, number, self._host_ran == _OPTIMIZER)
        return Stacked(number, self.host_ns, self._host_ran, frames, events)

    @property
    def host_owners(self) -> Owners:
        """The module calls of ops, calls and the modules themselves."""
        return self._scopes.owners

    @cached_property
    def host_ns(self) -> Ints:
        """The time of each of them outside of the others."""
        return self._self_ns(self._every, self.host_owners.launch)

    def host_outside(self, row: int) -> str:
        """What one of them is called where no module owns it."""
        if not self._scopes.has_modules:
            return ""
        return NAMED["optimizer"] if self._host_ran[row] == _OPTIMIZER else OUTSIDE

    def _ops_inside(self, events: Ints, op: Ints) -> tuple[Ints, Callable[[int], list[Frame]]]:
        """The ops around each event that its innermost module is not in: a number for each distinct
        chain, and the chain of a row.
        """
        inside = self.host.nearest(events, self.stacks.chosen)
        deep = self._level[op] - self._level[self.host.nearest(inside, self.ops.chosen)]

        def chain(row: int) -> list[Frame]:
            whole = self._chain(self.ops, int(op[row]))
            return [*whole[-deep[row] :]] if deep[row] > 0 else []

        return numbered(self.ops.numbers(op), deep), chain

    @cached_property
    def _level(self) -> Ints:
        """How many ops each op is in, itself included; 0 for -1 (the last place)."""
        depth = sums_above(self.ops.above, self.ops.chosen.astype(np.float64))
        return np.append(depth, 0).astype(np.int64)

    def _self_ns(self, paths: Paths, events: Ints) -> Ints:
        """The time of each event that no chosen event below it accounts for."""
        host, above = self.host, paths.above[events].astype(np.int64)
        held = above >= 0
        inside = np.minimum(host.end[events], host.end[above]) - host.start[events]
        spent = np.bincount(above[held], weights=inside[held], minlength=host.count)
        return np.maximum(host.length[events] - spent[events].astype(np.int64), 0)

    def _chain(self, paths: Paths, event: int) -> tuple[Frame, ...]:
        """The chosen events at and above this one, outermost first, `…` for too many."""
        found: list[Frame] = []
        while event >= 0 and len(found) < DEEPEST:
            kind = "call" if self.host.is_call[event] else "op"
            found.append((kind, self.host.names[self.host.name[event]]))
            event = int(paths.above[event])
        return (*([("op", ELLIPSIS)] * (event >= 0)), *reversed(found))


_FRAME = regex(r"(?P<file>[^<>]+\.py)\((?P<line>\d+)\): .")
_LIBRARY = regex(r"(?:.*/)?torch/")


def lines_of_cases(trace: Analysis) -> list[str | None]:
    """For every row of `kernel_cases`, the line of its first launch that has one."""
    host, order = trace.origins.host, trace.order
    found = [next(iter(lines), None) for lines in recorded_lines(trace)]
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


def recorded_lines(trace: Analysis) -> list[list[str]]:
    """The lines that the compiler's records give for each case, in the order of the file."""
    if not trace.compiled:
        return [[] for _ in range(trace.kernel_cases.height)]
    found = []
    for events in trace.kernel_cases["kernels"].to_list():
        launches = (trace.compiled.get(event) for event in events)
        lines = {(each.file, each.line) for one in launches if one for each in one.lines}
        found.append([f"{file}:{line}" for file, line in sorted(lines)])
    return found


def is_library_frame(name: str) -> bool:
    """Whether a frame of Python is PyTorch's: `torch/nn/modules/module.py(1784): _call_impl`."""
    return _LIBRARY.match(name) is not None and _FRAME.match(name) is not None


def line_of(name: str) -> str:
    """The line of a frame of Python that is not PyTorch's own; \"\" for others."""
    match = _FRAME.match(name)
    return f"{match['file']}:{match['line']}" if match and not _LIBRARY.match(name) else ""
