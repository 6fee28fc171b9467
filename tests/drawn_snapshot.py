"""A made-up snapshot of the allocator: allocations and releases with stacks, one call a line."""

from __future__ import annotations

import lzma
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from foretrace.read import recordings
from foretrace.read.snapshot import Snapshot, read_snapshot
from foretrace.trace.allocator.view import MemoryView
from read.snapshots import from_tree

RECORDED = Path(__file__).parent / "recorded" / "memory"
# stacks, innermost first: `file:line name`
_CALL = (
    "/torch/nn/modules/module.py:9 _call_impl",
    "/torch/nn/modules/module.py:8 _wrapped_call_impl",
)
MODEL = ("model.py:20 forward", *_CALL, "train.py:5 step")
BLOCK = ("model.py:10 forward", *_CALL, "model.py:21 forward", *_CALL, "train.py:5 step")
LOSS = ("/torch/nn/functional.py:1 cross_entropy", "train.py:6 step")
LOOP = ("train.py:4 step",)
BACKWARD = ()  # autograd's thread has no Python frame
ADAM = ("/torch/optim/adam.py:1 _multi_tensor_adam", "train.py:8 step")
ZERO = ("/torch/optim/optimizer.py:3 zero_grad", "train.py:9 step")
BUILD = ("/torch/nn/modules/linear.py:1 __init__", "train.py:1 main")
STEP = "Optimizer.step#AdamW.step"


class DrawnSnapshot:
    """Each event takes a microsecond; an address is used once."""

    def __init__(self, **settings: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.owners: list[list[Any]] = []
        self.settings, self._live, self._next, self.reserved = settings, {}, 1 << 20, 0

    def alloc(self, size: int, stack: tuple[str, ...] = LOOP) -> int:
        """Allocate, and return the address."""
        addr, self._next = self._next, self._next + size
        self._live[addr] = (size, stack)
        self._event("alloc", addr, size, stack)
        return addr

    def free(self, *addrs: int, stack: tuple[str, ...] = ()) -> None:
        """Release addresses."""
        for addr in addrs:
            size, _ = self._live.pop(addr)
            self._event("free_requested", addr, size, stack)
            self._event("free_completed", addr, size, stack)

    def before(self, size: int, freed_by: tuple[str, ...] | None = None) -> int:
        """A block that was live when the history began; released now where a stack is given."""
        addr, self._next = self._next, self._next + size
        self._live[addr] = (size, ())
        if freed_by is not None:
            self.free(addr, stack=freed_by)
        return addr

    def segment(self, size: int) -> None:
        """Take memory from the driver."""
        self.reserved += size
        self._event("segment_alloc", 1 << 40, size, ())

    def oom(self, size: int, stack: tuple[str, ...] = LOOP) -> None:
        """An allocation that fails."""
        self._event("oom", 0, size, stack)

    def step(self) -> None:
        """The optimizer's step ends here: torch annotates it."""
        for stage in ("START", "END"):
            at = len(self.events) - 1
            self.marks.append({"name": STEP, "stage": stage, "device": 0, "time_us": at})

    def _event(self, action: str, addr: int, size: int, stack: tuple[str, ...]) -> None:
        event = {"action": action, "addr": addr, "size": size, "stream": 0}
        self.events.append({**event, "time_us": len(self.events), "frames": _frames(stack)})

    def tree(self) -> dict[str, Any]:
        """The snapshot as torch has it."""
        blocks = [
            {
                "address": addr,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": _frames(stack),
            }
            for addr, (size, stack) in self._live.items()
        ]
        held = {"device": 0, "address": 1 << 20, "total_size": self.reserved, "stream": 0}
        return {
            "segments": [{**held, "blocks": blocks}],
            "device_traces": [self.events],
            "external_annotations": self.marks,
            "allocator_settings": self.settings,
            "foretrace": {"owners": self.owners},
        }

    @property
    def snapshot(self) -> Snapshot:
        """As foretrace reads it."""
        return from_tree("drawn.pickle", self.tree())

    @property
    def view(self) -> MemoryView:
        """The memory of its device."""
        snapshot = self.snapshot
        return MemoryView(snapshot, snapshot.histories[0])


@cache
def _frames(stack: tuple[str, ...]) -> list[dict[str, Any]]:
    found = [frame.split(" ") for frame in stack]
    return [
        {"name": name, "filename": place.split(":")[0], "line": int(place.split(":")[1])}
        for place, name in found
    ]


@cache
def raw(name: str) -> dict[str, Any]:
    """A recorded snapshot as Python's own pickle reads it: the files are ours."""
    tree: dict[str, Any] = pickle.loads(lzma.decompress(path_of(name).read_bytes()))
    return tree


def path_of(name: str) -> Path:
    """The file of a recorded snapshot; some ship with the package."""
    shipped = {"leak": "gpt_leak", "logits_50k": "gpt_logits", "no_grad": "gpt_no_grad"}
    if name in shipped:
        return recordings.snapshots()[shipped[name]]
    return RECORDED / f"{name}.pickle.xz"


@cache
def recorded(name: str) -> MemoryView:
    """The memory of the one device of a recorded snapshot."""
    snapshot = read_snapshot(str(path_of(name)))
    return MemoryView(snapshot, snapshot.histories[0])


@cache
def truth() -> dict[str, Any]:
    """What torch's counters said of each recorded program, and its tensors' owners."""
    found = lzma.decompress((RECORDED / "truth.json.xz").read_bytes())
    read: dict[str, Any] = msgspec.json.decode(found)
    return read


@cache
def named(name: str) -> MemoryView:
    """A recorded snapshot with the owners of its tensors, as `record --memory` writes them."""
    tree = {**raw(name), "foretrace": {"owners": truth()[name]["bad"]["owners"]}}
    snapshot = from_tree(name, tree)
    return MemoryView(snapshot, snapshot.histories[0])
