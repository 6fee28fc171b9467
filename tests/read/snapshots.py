"""Recorded snapshots, and what two readings of a snapshot have in common."""

from __future__ import annotations

import io
import json
import lzma
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from foretrace.read.snapshot import ACTIONS, Snapshot, UnpickledHead, snapshot_of
from foretrace.read.unpickle import Tables

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "memory"


def recorded(name: str) -> bytes:
    """The pickle of a recorded snapshot."""
    return lzma.decompress((RECORDED / f"{name}.pickle.xz").read_bytes())


def small_tree(events: int = 400) -> dict[str, Any]:
    """The recorded training with its first events."""
    tree: dict[str, Any] = pickle.loads(recorded("train"))
    tree["device_traces"] = [tree["device_traces"][0][:events]]
    tree["segments"] = tree["segments"][:3]
    return tree


def from_tree(path: str, tree: Any, size: int = 1 << 40) -> Snapshot:
    """The tables of an unpickled snapshot, made in this process."""
    made = Tables(tree, size, 1 << 40, list(ACTIONS))
    head = msgspec.json.decode(json.dumps(made.head), type=UnpickledHead)
    return snapshot_of(path, head, [np.array(each, np.int64) for each in made.columns])


def pickled(tree: Any, protocol: int, *, fast: bool = False) -> bytes:
    """A pickle; a fast one refers to nothing."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol)
    pickler.fast = fast
    pickler.dump(tree)
    return file.getvalue()


def resolved(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in a snapshot, with stacks as lines instead of numbers."""
    stacks = [tuple(snapshot.frames[at] for at in stack) for stack in snapshot.stacks]
    names = ("action", "addr", "size", "time_us")
    return {
        "histories": [
            (
                each.device,
                *(getattr(each, name).tolist() for name in names),
                [stacks[at] for at in each.stack],
            )
            for each in snapshot.histories
        ],
        "segments": [
            (
                *(
                    getattr(each, name)
                    for name in ("device", "addr", "size", "graph", "expandable")
                ),
                [(b.addr, b.size, b.requested, b.state, stacks[b.stack]) for b in each.blocks],
            )
            for each in snapshot.segments
        ],
        "marks": list(snapshot.marks),
        "expandable": snapshot.expandable,
        "owners": list(snapshot.owners),
        "card": (snapshot.card, snapshot.card_bytes),
        "lost": snapshot.lost,
    }
