"""Keeps what torch's allocator did during a run, and writes it beside the trace.

`run.memory.pickle` is of the end of the recorded steps, `run.oom.pickle` of a failed allocation.
Both are snapshots as `torch.cuda.memory._dump_snapshot` writes them, with one key of ours: which
tensor is which parameter, gradient or optimizer state. torch's memory viewer reads them too.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from foretrace.base import files
from foretrace.record.profiling.export import oom_path, snapshot_path
from foretrace.record.profiling.run_record import card

OWN_KEY = "foretrace"
MAX_ENTRIES = 100_000  # 10 MB in the file; a large model has 10,000 a step
MAX_BYTES = 200_000_000  # stacks of hundreds of frames make entries large
PROTOCOL = 4  # torch's memory viewer shows nothing for 5
NO_GPU = "a snapshot of the allocator needs a GPU: the trace alone has the allocations"
UNUSED = "the program did not use the GPU: no snapshot of its allocator"


class AllocatorHistory:
    """Records the allocator's events between `start` and `finish`, if they are wanted.

    `take` holds a snapshot, and `keep` writes it beside a trace. The recording goes on: memory may
    run out after the recorded steps. An allocation that fails is held apart, and only
    `keep_failure` writes it. Where the program records a history of its own, that one stays on.
    `notes` says what went wrong; nothing here costs the user a trace.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.notes: list[str] = []
        self._wanted, self._runs, self._observes = wanted, False, False
        self._kept = False  # what follows is for a failure
        self._home = os.getpid()
        self._taken: bytes | None = None
        self._failure: bytes | None = None
        self._theirs = False  # the program switched a history on or off
        self._original: Callable[..., None] | None = None

    def start(self) -> None:
        """Record from here on; where CUDA is not in use yet, from its first use on."""
        if not self._wanted or self._runs:
            return
        if not torch.cuda.is_available():
            self._wanted = False
            self.notes.append(NO_GPU)
            return
        self._runs = True
        # before CUDA is initialised there is no allocator, and a script may still choose its device
        torch.cuda._lazy_call(self._begin)

    def take(self) -> None:
        """Hold the allocator as it is now, for `keep`."""
        if self._taken is None and not self._kept:
            self._taken = self._snapshot()

    def keep(self, trace: Path) -> Path | None:
        """Write the snapshot of the first `trace`; the file, if any."""
        if not self._runs or self._kept:
            return None
        self.take()
        self._kept = True
        if self._taken is None and not torch.cuda.is_initialized():
            self.notes.append(UNUSED)
        taken, self._taken = self._taken, None
        return self._write(snapshot_path(trace), taken)

    def keep_failure(self, trace: Path) -> Path | None:
        """Write the allocator as it was when the last allocation failed; the file, if any."""
        failure, self._failure = self._failure, None
        return self._write(oom_path(trace), failure)

    def finish(self) -> None:
        """Switch the history off, and let go of what was not written."""
        self._wanted = self._runs = False
        self._taken = self._failure = None
        if self._original is not None and os.getpid() == self._home:
            torch.cuda.memory._record_memory_history = self._original
            if not self._theirs:
                self._original(enabled=None)
            self._original = None

    def ended(self, error: str) -> None:
        """The program raised; where memory ran out, torch may have no way to say when."""
        self.take()
        if ran_out(error) and self._failure is None:
            self._failure = self._snapshot()

    def _begin(self) -> None:
        if not self._runs or os.getpid() != self._home:
            return
        if self._original is None:
            self._original = torch.cuda.memory._record_memory_history
            torch.cuda.memory._record_memory_history = self._watched
        self._original(max_entries=MAX_ENTRIES, stacks="python")
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None and not self._observes:
            self._observes = True  # torch keeps an observer for good
            attach(self._ran_out)

    def _watched(self, *arguments: Any, **options: Any) -> None:
        assert self._original is not None
        self._theirs = True
        self._original(*arguments, **options)

    def _ran_out(self, *numbers: int) -> None:
        """Called by torch where an allocation fails, before it raises."""
        if self._runs and os.getpid() == self._home:
            self._failure = self._snapshot()

    def _snapshot(self) -> bytes | None:
        if not self._runs or not torch.cuda.is_initialized():
            return None
        try:
            return packed({**torch.cuda.memory._snapshot(), OWN_KEY: our_part()})
        except Exception as problem:  # noqa: BLE001 (never the script's problem)
            self.notes.append(f"no snapshot of the allocator: {type(problem).__name__}: {problem}")
            return None

    def _write(self, target: Path, content: bytes | None) -> Path | None:
        if content is None:
            return None
        try:
            files.write_bytes(target, content)
        except OSError as problem:
            self.notes.append(f"no snapshot of the allocator: {problem}")
            return None
        return target


def ran_out(error: str | None) -> bool:
    """Whether a program ended for lack of GPU memory, by its exception in words."""
    return error is not None and ("OutOfMemoryError" in error or "CUDA out of memory" in error)


def packed(tree: dict[str, Any]) -> bytes:
    """The pickle of a snapshot; of one that is too large, the older events are left out."""
    content = pickle.dumps(tree, PROTOCOL)
    while len(content) > MAX_BYTES and any(tree["device_traces"]):
        newer = [events[(len(events) + 1) // 2 :] for events in tree["device_traces"]]
        tree = {**tree, "device_traces": newer}
        content = pickle.dumps(tree, PROTOCOL)
    return content


def our_part() -> dict[str, Any]:
    """What torch's snapshot lacks: the names of the tensors, and the card."""
    device, named = card() or {}, []
    with contextlib.suppress(Exception):  # a user's model may raise; the snapshot is not lost
        named = [list(each) for each in owners()]
    return {
        "owners": named,
        "card": device.get("name", ""),
        "card_bytes": device.get("memory_bytes", 0),
    }


OwnerRow = tuple[int, int, str, str, str]  # address, bytes, kind, name, dtype


def owners() -> list[OwnerRow]:
    """Every parameter, buffer, gradient and optimizer state of the process, each address once."""
    modules, optimizers = [], []
    for each in gc.get_objects():
        kind = type(each)  # `isinstance` would ask proxies for their class
        if issubclass(kind, torch.nn.Module):
            # one whose __init__ has not run has no parameters yet
            modules += [each] if "_parameters" in getattr(each, "__dict__", {}) else []
        elif issubclass(kind, torch.optim.Optimizer):
            optimizers.append(each)
    names: dict[int, str] = {}
    rows = [*_of_models(modules, names), *_of_optimizers(optimizers, names)]
    return list({row[0]: row for row in reversed(rows)}.values())[::-1]


def _of_models(modules: list[Any], names: dict[int, str]) -> Iterator[OwnerRow]:
    inner = {id(child) for module in modules for child in module._modules.values()}
    roots = [module for module in modules if id(module) not in inner]
    roots = [root for root in roots if next(root.parameters(), None) is not None]
    for root in roots:
        prefix = f"{type(root).__name__}." if len(roots) > 1 else ""
        for given, parameter in root.named_parameters():
            name = prefix + given.replace("_orig_mod.", "")  # what torch.compile wraps around
            names[id(parameter)] = name
            yield from _row(parameter, "parameter", name)
            yield from _row(parameter.grad, "gradient", name)
        for given, buffer in root.named_buffers():
            yield from _row(buffer, "buffer", prefix + given.replace("_orig_mod.", ""))


def _of_optimizers(optimizers: list[Any], names: dict[int, str]) -> Iterator[OwnerRow]:
    for optimizer in optimizers:
        kind = type(optimizer).__name__
        for parameter, state in list(optimizer.state.items()):
            name = names.get(id(parameter), kind)
            for key, value in state.items() if isinstance(state, dict) else ():
                yield from _row(value, "optimizer", f"{name}.{key}")
        for group in optimizer.param_groups:  # those of no module that was found
            for parameter in group["params"]:
                if id(parameter) not in names:
                    yield from _row(parameter, "parameter", f"{kind}.parameter")
                    yield from _row(parameter.grad, "gradient", f"{kind}.parameter")


def on_gpu(tensor: Any) -> bool:
    """Whether the caching allocator holds it."""
    return bool(tensor.is_cuda)


def _row(tensor: Any, kind: str, name: str) -> Iterator[OwnerRow]:
    """The storage of a tensor on a GPU; a wrapper around other tensors has none."""
    try:
        if not isinstance(tensor, torch.Tensor) or not on_gpu(tensor):
            return
        # the part of a sharded parameter that this rank holds
        tensor = getattr(tensor, "_local_tensor", tensor)
        storage = tensor.untyped_storage()
        at, size = storage.data_ptr(), storage.nbytes()
    except Exception:  # noqa: BLE001 (fake and wrapped tensors raise what they like)
        return
    if at and size:
        yield at, size, kind, name, str(tensor.dtype).removeprefix("torch.")
