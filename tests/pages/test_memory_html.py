"""The page of a snapshot: every point is exact, and a page stays small whatever it is about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foretrace.memory import memory_document
from foretrace.pages import memory_html as made
from foretrace.pages.page import pack
from foretrace.read.snapshot import (
    ALLOC,
    FREE,
    History,
    Numbers,
    Owner,
    Snapshot,
    StackFrame,
    read_snapshot,
)
from foretrace.trace.allocator.view import MemoryView, memory_views
from read.snapshots import RECORDED


def snapshot(events: int, names: list[str], device: int = 0) -> Snapshot:
    """Allocations that each live until some address is used again; a stack for each name."""
    order = np.random.default_rng(7)
    addr = order.integers(0, 200, events)
    allocs, last = np.zeros(events, np.bool_), {}
    for at, where in enumerate(addr.tolist()):
        allocs[at] = last[where] = not last.get(where, False)
    size = order.integers(1, 1 << 20, events) ** 2
    history = History(
        device,
        np.where(allocs, ALLOC, FREE),
        addr,
        size,
        np.arange(events) * 3,
        order.integers(1, len(names) + 1, events),
    )
    frames = [StackFrame(name, f"/home/{name}/a.py", at) for at, name in enumerate(names)]
    stacks = [(), *((at,) for at in range(len(names)))]
    owners = [Owner(at, "parameter", f"layers.{at % 20}.weight") for at in range(0, 200, 3)]
    return Snapshot("some.pickle", [history], [], frames, stacks, [], False, owners)


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns stay arrays: packing them is tested elsewhere."""
    monkeypatch.setattr(made, "pack", lambda columns, differences=(): columns)


def drawn(found: Snapshot) -> tuple[Any, MemoryView]:
    views = memory_views(found)
    return made.drawings(memory_document(found, views), views)[0].device(), views[0]


def live(view: MemoryView, of: Numbers, group: int, event: int) -> tuple[int, int]:
    rows = view.lives.live_at(event)
    rows = rows[of[rows] == group]
    return int(view.lives.size[rows].sum()), len(rows)


@pytest.mark.parametrize("source", ["train", "made"])
def test_groups_add_up_to_what_is_live_at_every_point(source: str) -> None:
    found = (
        snapshot(40_000, [f"f{at}" for at in range(50)])
        if source == "made"
        else read_snapshot(str(RECORDED / f"{source}.pickle.xz"))
    )
    device, view = drawn(found)
    points = device.whole.points
    event = points["event"]
    assert view.peak in event
    assert len(event) + device.whole.left_out == len(view.history)
    assert (points["live"] == view.curve[event]).all()
    assert (points["reserved"] == view.reserved[event]).all()
    count = np.array([len(view.lives.live_at(int(at))) for at in event[::97]])
    for groups, held in zip(device.groups, device.whole.held, strict=True):
        number = range(len(groups.names))
        assert (sum(held[f"bytes{at}"] for at in number) == view.curve[event]).all()
        assert (sum(held[f"count{at}"] for at in number)[::97] == count).all()


def test_allocations_and_the_stacks_of_the_peak_are_those_of_the_view() -> None:
    device, view = drawn(read_snapshot(str(RECORDED / "train.pickle.xz")))
    boxes = device.whole.boxes
    at_peak = (boxes["start"] <= view.peak) & (view.peak < boxes["end"])
    assert sorted(boxes["size"][at_peak]) == sorted(view.lives.size[view.holders])
    rows = {(s, e, z): at for at, (s, e, z) in enumerate(_lives(view))}
    for at in range(0, len(boxes["start"]), 50):
        row = rows[int(boxes["start"][at]), int(boxes["end"][at]), int(boxes["size"][at])]
        assert device.whole.lines[boxes["named"][at]] == view.line(row)
    flame = device.flame
    own = flame.boxes
    assert sum(int(own[each].sum()) for each in flame.passes) == view.peak_bytes
    assert flame.left_out_bytes == 0


def _lives(view: MemoryView) -> list[tuple[int, int, int]]:
    lives = view.lives
    return [*zip(lives.start.tolist(), lives.end.tolist(), lives.size.tolist(), strict=True)]


def test_a_page_has_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "pack", pack)
    names = [f"{'long' * 500}{at}" for at in range(3_000)]
    views = memory_views(found := snapshot(100_000, names))
    document = memory_document(found, views)
    (device,) = (each.device() for each in made.drawings(document, views))
    assert len(made.memory_html(document, views)) < 4_000_000
    assert device.whole.points.rows <= made.MOST_POINTS
    assert device.whole.boxes.rows <= made.MOST_BOXES + made.MOST_AT_PEAK
    assert device.allocations == len(views[0].lives)
