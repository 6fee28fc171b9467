"""Trees and ranges of any depth: every shortcut gives what a walk step by step gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpus.builder import TraceBuilder
from foretrace.check.language import glob as named
from foretrace.trace import host, intervals
from foretrace.trace.host import DEEPEST, ELLIPSIS, Paths
from foretrace.trace.spans import NESTED
from opened_traces import open_made
from sweep import looped

SEEDS = range(60)


def _forest(seed: int, count: int = 120) -> tuple[np.ndarray, np.random.Generator]:
    """Parents that come before their children; one chain is deep."""
    chance = np.random.default_rng(seed)
    parent = np.array([int(chance.integers(-1, at)) if at else -1 for at in range(count)])
    parent[count // 2 + 1 :] = np.arange(count // 2, count - 1)
    return parent, chance


def _above(parent: np.ndarray, event: int) -> list[int]:
    found = []
    while event >= 0:
        found.append(event)
        event = int(parent[event])
    return found


@looped("seed", SEEDS)
def test_nearest_and_sums_are_those_of_a_walk(seed: int) -> None:
    parent, chance = _forest(seed)
    chosen, values = chance.random(len(parent)) < 0.1, chance.integers(0, 9, len(parent))
    events = np.arange(-1, len(parent))
    walks = [_above(parent, int(event)) for event in events]
    nearest = [next((each for each in walk if chosen[each]), -1) for walk in walks]
    assert host.nearest(parent, events, chosen).tolist() == nearest
    below = np.zeros(len(parent), np.int64)
    for event, walk in zip(events.tolist(), walks, strict=True):
        below[walk] += values[event] if event >= 0 else 0
    assert host.summed(parent, values).tolist() == below.tolist()
    above = [float(values[walk].sum()) for walk in walks[1:]]
    assert host.sums_above(parent, values.astype(float)).tolist() == above


@looped("seed", SEEDS)
def test_paths_are_numbered_by_their_names(seed: int) -> None:
    parent, chance = _forest(seed)
    chosen, name = chance.random(len(parent)) < 0.6, chance.integers(0, 3, len(parent))
    found = Paths(parent, name, chosen)
    events = np.flatnonzero(chosen)
    written = [
        tuple(name[each] for each in _above(parent, event) if chosen[each]) for event in events
    ]
    numbers = found.numbers(events).tolist()
    assert len(set(numbers)) == len(set(written)) == len(set(zip(numbers, written, strict=True)))
    words = ["a", "b", "c"]
    for event, path in zip(events.tolist(), written, strict=True):
        told = tuple(words[each] for each in reversed(path[:DEEPEST]))
        assert found.names(event, words) == ((ELLIPSIS,) if len(path) > DEEPEST else ()) + told


@looped("seed", SEEDS)
def test_the_tree_of_crossing_ranges_is_that_of_a_search(seed: int) -> None:
    """10,000 overlapping ranges on one thread took 17.5 s."""
    chance = np.random.default_rng(seed)
    count = 40
    track, start = chance.integers(0, 3, count), chance.integers(0, 30, count)
    end, is_call = start + chance.integers(0, 20, count), chance.random(count) < 0.2
    order = np.lexsort((-end, start))
    track, start, end, is_call = track[order], start[order], end[order], is_call[order]
    parent, depth, _ = host.call_tree(track, start, end, is_call)
    finish = 2 * end + (end == start)
    crosses = {int(track[at]) for at in range(count) if _crosses(at, track, start, finish)}
    for at in range(count):
        if int(track[at]) in crosses:
            wanted = _parent(at, track, start, finish, is_call)
            assert parent[at] == wanted
            assert depth[at] == (depth[wanted] + 1 if wanted >= 0 else 0)


def _crosses(at: int, track: np.ndarray, start: np.ndarray, finish: np.ndarray) -> bool:
    earlier = [e for e in range(at) if track[e] == track[at] and finish[e] > 2 * start[at]]
    return any(finish[e] < finish[at] for e in earlier)


def _parent(
    at: int, track: np.ndarray, start: np.ndarray, finish: np.ndarray, is_call: np.ndarray
) -> int:
    """The latest earlier range that contains it, or, for a call, in which it starts."""
    least = 2 * start[at] + 1 if is_call[at] else finish[at]
    found = [
        e for e in range(at) if track[e] == track[at] and not is_call[e] and finish[e] >= least
    ]
    return max((e for e in found if finish[e] > 2 * start[at]), default=-1)


@looped("seed", SEEDS)
def test_the_innermost_range_is_that_of_a_search(seed: int) -> None:
    chance = np.random.default_rng(seed)
    start = np.sort(chance.integers(0, 50, 30))
    end, points = start + chance.integers(0, 40, 30), chance.integers(-5, 100, 60)
    wanted = [
        max((at for at in range(30) if start[at] <= point < end[at]), default=-1)
        for point in points.tolist()
    ]
    assert intervals.innermost(start, end, points).tolist() == wanted


def test_open_ranges_are_counted_per_rank() -> None:
    rank, start = np.array([0, 1, 0, 0, 1]), np.array([0, 0, 5, 10, 20])
    end = np.array([100, 10, 10, 12, 30])
    assert intervals.open_at_start(rank, start, end).tolist() == [0, 0, 1, 1, 0]


def test_regions_inside_many_others_are_left_out_and_noted(tmp_path: Path) -> None:
    """Nested annotations: each shares all its work with those around it."""
    builder = TraceBuilder()
    for at in range(NESTED + 3):
        builder.region(f"block_{at}", at, 1_000 - 2 * at)
    trace = open_made(
        builder.op("aten::mm", 200, 9).launch(201, 2).kernel("sgemm", 210, 5), tmp_path
    )
    assert len(trace.spans.regions) == NESTED
    assert {note.code: note.count for note in trace.ledger.notes}["regions_left_out"] == 3


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a*", "abc", True),
        ("*c", "abc", True),
        ("a*c", "ac", True),
        ("a*a", "a", False),
        ("*b*b*", "abcb", True),
        ("*b*b*", "abc", False),
        ("a*b*a", "aba", True),
        ("ab", "abc", False),
        ("*", "", True),
        ("*a*a*a*a*a*a*a*ab", "a" * 200_000, False),
    ],
)
def test_stars_stand_for_anything(pattern: str, name: str, fits: bool) -> None:
    """A guess with eight `*` took over 60 s."""
    assert named(pattern, name) is fits
