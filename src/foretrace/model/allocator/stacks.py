"""What a stack tells about an allocation: the pass it ran in, and the line to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from foretrace.schema.snapshot import Numbers, Snapshot, StackFrame

# the pass of an allocation
FORWARD, BACKWARD, OPTIMIZER, OUTSIDE = range(4)
PASSES = ("forward pass", "backward pass", "optimizer step", "outside the model")
OPTIMIZER_STEP = "Optimizer.step#"
BACKWARD_LINE = "backward pass (autograd's thread has no Python stack)"
BEFORE_LINE = "before the history began"
MODULE_CALLS = ("_wrapped_call_impl", "_call_impl")
# functions that make a model, or move it to a device
_BUILDS = frozenset(
    ("__init__", "_apply", "reset_parameters", "from_pretrained", "load_state_dict", "to_empty")
)
_PACKAGES = ("/site-packages/", "/dist-packages/")
_ENGINE = ("torch::autograd::Engine", "torch::autograd::Node", "torch::autograd::python::Python")
_NODE = re.compile(r"::(\w+Backward\d*)(?:::|_)apply")  # of autograd's graph
_OVERWRITES = ("/torch/_functorch/", "/torch/autograd/function.py")


class StackFacts(Struct, frozen=True):
    """One entry for each stack of a snapshot.

    `line` is a number of `lines`. `inner` is equal where the frames inside the model are equal,
    whatever called the model. `calls` are the numbers of frames that call a module, outermost
    first. `words` are the functions of the stack. `builds` marks those that
    make a model, `drops` those of `zero_grad`. `optimizes` are the times of the optimizer's steps.
    """

    ran: Numbers
    line: Numbers
    lines: Sequence[str]
    in_module: np.ndarray[tuple[int], np.dtype[np.bool_]]
    workspace: np.ndarray[tuple[int], np.dtype[np.bool_]]
    builds: np.ndarray[tuple[int], np.dtype[np.bool_]]
    drops: np.ndarray[tuple[int], np.dtype[np.bool_]]
    optimizes: Sequence[int]
    inner: Numbers
    words: Sequence[frozenset[str]]
    calls: Sequence[tuple[int, ...]]


def stack_facts(snapshot: Snapshot) -> StackFacts:
    """Read every stack once."""
    frames = snapshot.frames
    kinds = [frame_kind(frame) for frame in frames]
    told = any(stack for stack in snapshot.stacks)
    lines: dict[str, int] = {}
    ran, line, module, workspace, words, calls = [], [], [], [], [], []
    for stack in snapshot.stacks:
        each = [frames[at] for at in stack]
        passed = _pass(each, told)
        ran.append(passed)
        line.append(lines.setdefault(_line(each, [kinds[at] for at in stack], passed), len(lines)))
        module.append(any(frame.name == "_call_impl" for frame in each))
        workspace.append(any("orkspace" in frame.name for frame in each))
        words.append(frozenset(frame.name for frame in each))
        calls.append(_module_calls(stack, each))
    return StackFacts(
        np.array(ran, np.int64),
        np.array(line, np.int64),
        list(lines),
        np.array(module, np.bool_),
        np.array(workspace, np.bool_),
        np.array([not _BUILDS.isdisjoint(each) for each in words], np.bool_),
        np.array(["zero_grad" in each for each in words], np.bool_),
        [m.time_us for m in snapshot.marks if m.is_start and m.name.startswith(OPTIMIZER_STEP)],
        _inner(snapshot.stacks, calls),
        words,
        calls,
    )


def _pass(stack: Sequence[StackFrame], told: bool) -> int:
    """The pass of a stack; autograd's own thread has no Python frame."""
    if not stack:
        return BACKWARD if told else OUTSIDE
    names = {frame.name for frame in stack}
    if any("/torch/optim/" in frame.file for frame in stack):
        return OPTIMIZER
    if any(frame.name.startswith(_ENGINE) for frame in stack) or "unpack_hook" in names:
        return BACKWARD
    if "backward" in names and any(part in f.file for f in stack for part in _OVERWRITES):
        return BACKWARD
    return FORWARD if "_call_impl" in names else OUTSIDE


def _module_calls(stack: tuple[int, ...], frames: Sequence[StackFrame]) -> tuple[int, ...]:
    """The frames that call a module: each is outside of a `_wrapped_call_impl` or `_call_impl`."""
    python = [
        (at, frame)
        for at, frame in zip(stack, frames, strict=True)
        if frame.file.endswith(".py") or frame.name in MODULE_CALLS
    ]
    found = [
        outer
        for (_, inner), (outer, frame) in pairwise(python)
        if inner.name in MODULE_CALLS and frame.name not in MODULE_CALLS
    ]
    return tuple(reversed(found))


def _inner(stacks: Sequence[tuple[int, ...]], calls: Sequence[tuple[int, ...]]) -> Numbers:
    """Number the stacks by their frames inside the outermost call of a module."""
    known: dict[tuple[int, ...], int] = {}
    inside = [
        stack[: stack.index(called[0])] if called else stack
        for stack, called in zip(stacks, calls, strict=True)
    ]
    return np.array([known.setdefault(part, len(known)) for part in inside], np.int64)


def frame_kind(frame: StackFrame) -> int:
    """0 for a line of the user, 1 of another library, 2 of torch and Python, 3 of C++."""
    file = frame.file
    if not file.endswith(".py"):
        return 3
    if "/torch/" in file or file.startswith("<"):
        return 2
    if any(part in file for part in _PACKAGES):
        return 1
    return 2 if "/lib/python3" in file else 0


def _line(stack: Sequence[StackFrame], kinds: Sequence[int], passed: int) -> str:
    """`model.py:88 in forward`: the innermost line outside torch, else of torch.

    Autograd's thread has no line; its C++ frames, where recorded, name the node that runs.
    """
    for most in (1, 2):
        told = (f for f, kind in zip(stack, kinds, strict=True) if kind <= most and f.line)
        if (frame := next(told, None)) is not None:
            return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line} in {frame.name}"
    op = next((frame.name for frame in stack if frame.name.startswith("aten::")), None)
    if op is not None:  # a trace without Python functions has ops alone
        return f"{op} in the {PASSES[passed]}"
    if passed != BACKWARD:
        return BEFORE_LINE
    node = next((found[1] for frame in stack if (found := _NODE.search(frame.name))), None)
    return f"{node} in the backward pass" if node else BACKWARD_LINE
