"""Reads a snapshot of torch's allocator. Nothing in the file is executed.

`torch.cuda.memory._dump_snapshot` writes a pickle, which may be packed with gzip, xz or zstd. The
stack machine builds plain containers out of it, and makes columns of the events while it reads.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.bytestream import first_bytes, open_stream
from foretrace.read.event_layouts import (
    DeviceEvents,
    PackedStacks,
    StackTable,
    plain_text,
    whole,
)
from foretrace.read.pickles import PickleDamage
from foretrace.read.snapshot_machine import TRACES_KEY, SnapshotMachine
from foretrace.schema.ledger import CODES, LedgerBuilder
from foretrace.schema.run_record import SNAPSHOTS
from foretrace.schema.snapshot import HeldBlock, History, Mark, Owner, Segment, Snapshot

OWN_KEY = "foretrace"  # what `record --memory` adds; other readers ignore it
_HINT = "torch.cuda.memory._dump_snapshot writes one"
_OFTEN = 4096  # records between two checks of the ceilings


def trace_beside(snapshot: str) -> Path | None:
    """The trace of the same run: `run.memory.pickle` lies beside `run.json.gz`."""
    stem = snapshot.removesuffix(SNAPSHOTS[0])
    found = (Path(stem + end) for end in (".json.gz", ".json"))
    return None if stem == snapshot else next((path for path in found if path.is_file()), None)


def read_snapshot(path: str, limits: Limits | None = None) -> Snapshot:
    """The snapshot in a file (`-` is stdin); what is no snapshot raises `TraceError`.

    Damage ends the reading. What came before it is kept, and `lost` counts the rest.
    """
    limits = limits or Limits()
    ledger = LedgerBuilder()
    with budget.ceiling(path, limits):
        stream = open_stream(path, limits, ledger)
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        plain = size if size == stream.likely_size else 0  # that of a packed one is estimated
        machine = SnapshotMachine(stream.label, stream.blocks, limits, plain)
        try:
            tree, damage = _run(machine)
            at = machine.offset
            _count_rest(machine, damage)
        finally:
            machine.end()
        for code, count in ledger.counts.items():
            machine.lost[ledger.texts.get(code, CODES[code][1])] += count
        if isinstance(tree, dict) and isinstance(tree.get("segments"), list):
            found = _tables(path, tree, machine.stacks, machine.lost)
            if not damage or found.histories or found.segments:
                return found
        what = f"not an allocator snapshot: {damage}" if damage else "not an allocator snapshot"
        raise TraceError("E_NOT_A_SNAPSHOT", path, what, offset=at, hint=_HINT)


def _run(machine: SnapshotMachine) -> tuple[Any, str]:
    """What the pickle holds, and what ended it early."""
    try:
        machine.run()
    except PickleDamage as found:
        return machine.salvage(), f"the pickle {found}"
    return machine.stack[0], ""


def _count_rest(machine: SnapshotMachine, damage: str) -> None:
    """Count the bytes that were not read."""
    rest = len(machine.data) - machine.at + sum(map(len, machine.blocks))
    if damage:
        machine.lost[f"times that {damage}"] += 1
    if rest:
        where = "after damage" if damage else "after the end of the snapshot"
        machine.lost[f"bytes {where}"] += rest


def from_tree(path: str, tree: Any) -> Snapshot:
    """The tables of an unpickled snapshot."""
    if not isinstance(tree, dict) or not isinstance(tree.get("segments"), list):
        raise TraceError("E_NOT_A_SNAPSHOT", path, "not an allocator snapshot", hint=_HINT)
    stacks = StackTable(Counter())
    return _tables(path, tree, stacks, stacks.lost)


def _tables(path: str, tree: dict[Any, Any], stacks: StackTable, lost: Counter[str]) -> Snapshot:
    histories = list(_histories(tree.get(TRACES_KEY), stacks, lost))
    segments = [_segment(each, stacks, lost) for each in _often(tree["segments"])]
    known = (tree.get(key) for key in (OWN_KEY, "allocator_settings"))
    own, settings = (each if isinstance(each, dict) else {} for each in known)
    plain = (bool, int, float, str)
    marks = list(_marks(_items(tree, "external_annotations"), lost))
    owners = list(_owners(_items(own, "owners"), lost))
    if copied := whole(own.get("lost")):
        lost["records that were missing before this copy was made"] += copied
    return Snapshot(
        path,
        histories,
        [segment for segment in segments if segment is not None],
        list(stacks.frames),
        PackedStacks(list(stacks.packed)),
        marks,
        {k: v for k, v in settings.items() if isinstance(k, str) and isinstance(v, plain)},
        owners,
        plain_text(own.get("card")),
        whole(own.get("card_bytes")) or 0,
        dict(lost),
    )


def _items(tree: dict[Any, Any], key: str) -> list[Any]:
    """The list under a key."""
    found = tree.get(key)
    return found if isinstance(found, list) else []


def _often(found: Iterable[Any]) -> Iterator[Any]:
    """Each record; one list may stand in many places of a hostile file."""
    for number, each in enumerate(found):
        if number % _OFTEN == 0:
            budget.check()
        yield each


def _histories(traces: Any, stacks: StackTable, lost: Counter[str]) -> Iterator[History]:
    """One for each device that has events."""
    for device, found in enumerate(traces if isinstance(traces, list) else []):
        events = found if isinstance(found, DeviceEvents) else DeviceEvents()
        for event in found if isinstance(found, list) else []:
            if problem := events.add(event, stacks):
                lost[problem] += 1
        if not isinstance(found, list | DeviceEvents):
            lost["devices without a list of events"] += 1
        if events.count:
            action, addr, size, time_us, stream, stack = events.columns()
            yield History(device, action, addr, size, time_us, stream, stack)


def _segment(found: Any, stacks: StackTable, lost: Counter[str]) -> Segment | None:
    numbers = [
        whole(found.get(name)) if isinstance(found, dict) else None
        for name in ("device", "address", "total_size", "stream")
    ]
    if None in numbers:
        lost["segments with a number that cannot be one"] += 1
        return None
    device, address, size, stream = (number or 0 for number in numbers)
    pool = found.get("segment_pool_id")
    graph = isinstance(pool, list | tuple) and any(pool)
    blocks = list(_blocks(_items(found, "blocks"), address, stacks, lost))
    return Segment(device, address, size, stream, graph, bool(found.get("is_expandable")), blocks)


def _blocks(
    found: Iterable[Any], address: int, stacks: StackTable, lost: Counter[str]
) -> Iterator[HeldBlock]:
    at = address  # a block of an old torch has no address of its own
    for block in _often(found):
        size = whole(block.get("size")) if isinstance(block, dict) else None
        if size is None:
            lost["blocks with a number that cannot be one"] += 1
            continue
        at = whole(block.get("address")) or at
        asked = whole(block.get("requested_size"))
        state, stack = plain_text(block.get("state")), stacks.number(block.get("frames"))
        yield HeldBlock(at, size, size if asked is None else asked, state, stack)
        at += size


def _marks(found: Iterable[Any], lost: Counter[str]) -> Iterator[Mark]:
    for each in _often(found):
        time_us = whole(each.get("time_us")) if isinstance(each, dict) else None
        if time_us is None:
            lost["annotations that are no records"] += 1
            continue
        device = whole(each.get("device")) or 0
        yield Mark(plain_text(each.get("name")), each.get("stage") == "START", device, time_us)


def _owners(found: Iterable[Any], lost: Counter[str]) -> Iterator[Owner]:
    for each in _often(found):
        if not isinstance(each, list | tuple) or len(each) < 4:
            lost["owners that are no records"] += 1
            continue
        addr, size, *words = each
        if whole(addr) is None or whole(size) is None:
            lost["owners with a number that cannot be one"] += 1
            continue
        yield Owner(addr, size, *map(plain_text, words[:3]))


def is_snapshot(path: str, limits: Limits) -> bool:
    """Whether a file begins as a pickle does."""
    try:
        return re.match(rb"\x80[\x02-\x05]", first_bytes(path, limits, 2)) is not None
    except TraceError:  # reading it says what is wrong
        return False
