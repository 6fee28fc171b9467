"""A copy of a trace for Perfetto, with what foretrace found as tracks of their own.

Findings are slices over the events that prove them, one track each; `decoded` repeats every stream
with names that people read; `asked for by` says which op each piece of GPU work belongs to. Slices
on one track never overlap: Perfetto would drop what does not nest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretrace import families
from foretrace.analyses import run_all
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.render.html.timeline import free_rows
from foretrace.share import chrome
from foretrace.share.words import Words

PID = 900_000_000  # far from any process or device
_CATEGORY = "foretrace"


@dataclass(frozen=True, slots=True)
class Track:
    """One added track: its label, and (start, length, name, arguments) of its slices."""

    label: str
    slices: tuple[tuple[int, int, str, dict[str, Any]], ...]


def annotated(trace: Trace, path: Path) -> dict[str, int]:
    """Write the copy; returns how many slices each added track holds."""
    tracks = added_tracks(trace)
    keep = frozenset({"stacks", "paths", "inputs", "hosts"})  # the copy stays on this machine
    chrome.write(trace, path, _Unchanged(), keep, _records(tracks, trace.tables.base_ns or 0))
    return {track.label: len(track.slices) for track in tracks}


class _Unchanged(Words):
    """Words of one's own trace, as they are."""

    def clean(self, text: str) -> str:
        return text


def added_tracks(trace: Trace) -> list[Track]:
    return [*_findings(trace), *_streams(trace)]


def _records(tracks: list[Track], base: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": {"name": "foretrace"}}
    yield {
        "ph": "M",
        "name": "process_sort_index",
        "pid": PID,
        "tid": 0,
        "args": {"sort_index": -1},
    }
    for number, track in enumerate(tracks, 1):
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": PID,
            "tid": number,
            "args": {"name": track.label},
        }
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": PID,
            "tid": number,
            "args": {"sort_index": number},
        }
        for start, length, name, args in track.slices:
            yield chrome.complete(_CATEGORY, name, PID, number, start - base, length, args)


def _findings(trace: Trace) -> Iterator[Track]:
    host = trace.host
    for finding in run_all(trace):
        events = np.array([event for event in finding.events if host.lasting[event]], np.int64)
        if finding.state == "found" and len(events):
            args = {
                "rule": finding.rule,
                "detail": finding.detail,
                "at most ns": finding.at_most_ns,
            }
            places = _apart(host.start[events], host.end[events])
            yield Track(
                f"finding: {finding.rule}",
                tuple((start, length, finding.title, args) for start, length in places),
            )


def _apart(start: Ints, end: Ints) -> list[tuple[int, int]]:
    """The same stretches of time, those that overlap made into one."""
    joined: list[list[int]] = []
    for begin, finish in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if joined and begin < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], finish)
        else:
            joined.append([begin, finish])
    return [(begin, finish - begin) for begin, finish in joined]


def _streams(trace: Trace) -> Iterator[Track]:
    gpu, host = trace.gpu, trace.host
    for lane in np.unique(gpu.lane).tolist():
        mine = np.flatnonzero((gpu.lane == lane) & gpu.usable)
        rows = free_rows(gpu.start[mine], gpu.end[mine])
        for row in np.unique(rows).tolist():
            work = mine[rows == row]
            more = f" ({row + 1})" if row else ""
            stream = f"GPU {gpu.device[work[0]]} stream {gpu.stream[work[0]]}{more}"
            names = [host.names[number] for number in host.name[gpu.id[work]].tolist()]
            ops = [host.op_chain(op) for op in gpu.op[work].tolist()]
            times = list(zip(gpu.start[work].tolist(), gpu.length[work].tolist(), strict=True))
            yield Track(
                f"decoded: {stream}",
                tuple(
                    (*time, families.decode(name).short or name, {"name": name})
                    for time, name in zip(times, names, strict=True)
                ),
            )
            yield Track(
                f"asked for by: {stream}",
                tuple(
                    (*time, chain[-1], {"chain": " > ".join(chain)})
                    for time, chain in zip(times, ops, strict=True)
                    if chain
                ),
            )
