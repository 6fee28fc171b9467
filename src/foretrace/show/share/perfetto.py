"""A copy of a trace for Perfetto, with what foretrace found as tracks of their own.

Findings are slices over the events that prove them, one track each; `decoded` repeats every stream
with readable names; `op` has the op that launched each kernel, memcpy and memset. Slices on one
track never overlap: Perfetto would drop what does not nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.analyze.rules import run_all
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.show.html.timeline import free_rows
from foretrace.show.share import chrome
from foretrace.show.share.pseudonyms import Pseudonyms
from foretrace.show.share.redact import KEEP

PID = 900_000_000  # far from any process or device
_CATEGORY = "foretrace"


class Track(Struct, frozen=True):
    """One added track: its label, and (start, length, name, arguments) of its slices."""

    label: str
    slices: tuple[tuple[int, int, str, dict[str, Any]], ...]


def annotated(trace: Trace, path: Path) -> dict[str, int]:
    """Write the copy; returns how many slices each added track holds."""
    tracks = [*_findings(trace), *_streams(trace)]
    # the copy stays on this machine, so everything is kept
    extra = _records(tracks, trace.tables.base_ns or 0)
    chrome.write(trace, path, _Unchanged(), frozenset(KEEP), extra)
    return {track.label: len(track.slices) for track in tracks}


class _Unchanged(Pseudonyms):
    """Replaces nothing: for a copy that stays with its owner."""

    def clean(self, text: str) -> str:
        return text

    def word(self, text: str, told: Callable[[str], str | None], kind: str = "word") -> str | None:
        return text


def _records(tracks: list[Track], base: int) -> Iterator[chrome.Record]:
    yield chrome.metadata("process_name", PID, 0, name="foretrace")
    yield chrome.metadata("process_sort_index", PID, 0, sort_index=-1)
    for number, track in enumerate(tracks, 1):
        yield chrome.metadata("thread_name", PID, number, name=track.label)
        yield chrome.metadata("thread_sort_index", PID, number, sort_index=number)
        for start, length, name, args in track.slices:
            yield chrome.complete(_CATEGORY, name, PID, number, start - base, length, args)


def _findings(trace: Trace) -> Iterator[Track]:
    host = trace.host
    for finding in run_all(trace):
        events = np.array([event for event in finding.events if host.lasting[event]], np.int64)
        if finding.state == "found" and len(events):
            said = {
                "rule": finding.rule,
                "detail": finding.detail,
                "at most ns": finding.at_most_ns,
            }
            places = _joined(host.start[events], host.end[events])
            slices = tuple((start, length, finding.title, said) for start, length in places)
            yield Track(f"finding: {finding.rule}", slices)


def _joined(start: Ints, end: Ints) -> list[tuple[int, int]]:
    """The same intervals, those that overlap made into one."""
    joined: list[list[int]] = []
    for begin, finish in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if joined and begin < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], finish)
        else:
            joined.append([begin, finish])
    return [(begin, finish - begin) for begin, finish in joined]


def _streams(trace: Trace) -> Iterator[Track]:
    """Two tracks for each stream, more where its work overlaps."""
    gpu = trace.gpu
    for lane in np.unique(gpu.lane).tolist():
        mine = np.flatnonzero((gpu.lane == lane) & gpu.usable)
        rows = free_rows(gpu.start[mine], gpu.end[mine])
        for row in np.unique(rows).tolist():
            yield from _stream(trace, mine[rows == row], f" ({row + 1})" if row else "")


def _stream(trace: Trace, work: Ints, more: str) -> Iterator[Track]:
    gpu, host, origins = trace.gpu, trace.host, trace.origins
    stream = f"GPU {gpu.device[work[0]]} stream {gpu.stream[work[0]]}{more}"
    times = list(zip(gpu.start[work].tolist(), gpu.length[work].tolist(), strict=True))
    names = [host.names[number] for number in host.name[gpu.id[work]].tolist()]
    decoded = (
        (*time, families.decode(name).short or name, {"name": name})
        for time, name in zip(times, names, strict=True)
    )
    ops = (
        (*time, chain[-1], {"chain": " > ".join(chain)})
        for time, op in zip(times, origins.op[work].tolist(), strict=True)
        if (chain := origins.host.op_chain(op))
    )
    yield Track(f"decoded: {stream}", tuple(decoded))
    yield Track(f"op: {stream}", tuple(ops))
