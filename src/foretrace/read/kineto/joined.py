"""The columns of all parts of a file under one numbering of names, sites and texts.

Numbers follow the sorted order of what they stand for, so that they do not depend on the order of
the file.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from foretrace.base.arrays import Bools, Floats, Ints, Narrow, distinct
from foretrace.base.patterns import regex
from foretrace.read.kineto.columns import Columns
from foretrace.read.kineto.records import kind_of, kind_without_category
from foretrace.read.tables import KIND, KINDS, NAMELESS, WORK_KINDS

GPU_WORK = tuple(KIND[name] for name in WORK_KINDS)
_NO_RANGE = ("instant", "memory", "flow", "metadata", "counter", "end", "unknown")
RANGES = tuple(KIND[name] for name in KINDS if name not in _NO_RANGE)
_MERGED_PID = regex(r"^\[([^\]]+)\]")
_PROCESS = ("process_name", "process_labels")
NO_NAME, EMPTY_NAME = NAMELESS


class Joined:
    """The columns of all parts under one numbering of names, sites and texts."""

    def __init__(self, parts: list[Columns]) -> None:
        names, name_maps = _renumber([part.names for part in parts])
        sites, site_maps = _renumber([part.sites for part in parts])
        self.text_list, self.text_maps = _renumber([part.texts for part in parts])
        name = _renumbered([part.name for part in parts], name_maps)
        site = _renumbered([part.site for part in parts], site_maps)
        self.ts: Floats = joined_arrays([part.ts for part in parts], np.float64)
        self.dur: Floats = joined_arrays([part.dur for part in parts], np.float64)
        self.exact_event = event_rows(parts, [part.exact_event for part in parts])
        self.exact_ns: Ints = joined_arrays([part.exact_ns for part in parts])
        self.correlation: Ints = joined_arrays([part.correlation for part in parts])
        self.external: Ints = joined_arrays([part.external for part in parts])
        shown = [NO_NAME if text is None else text or EMPTY_NAME for text in names]
        self.names = sorted(set(shown))
        rank = {text: number for number, text in enumerate(self.names)}
        self.name: Narrow = np.array([rank[text] for text in shown], np.int32)[name]
        self._site_columns(sites, site)
        self._labels = self._found_labels(parts)
        self._kinds_without_category()
        self.ranged: Bools = is_one_of(self.kind, RANGES)
        self.unfinished = sum(part.unfinished for part in parts)
        sides = [part.sides["gpu"] for part in parts]
        stated = [joined_arrays([side[name] for side in sides]) for name in ("device", "stream")]
        # at most how many streams of all devices the GPU events state
        streams = min(len(stated[0]), len(distinct(stated[0])) * len(distinct(stated[1])))
        self.lanes = len(self.tracks) + streams

    def _site_columns(self, sites: list[tuple[str, str, Any, Any]], site: Narrow) -> None:
        tracks = sorted({(pid, tid) for _, _, pid, tid in sites}, key=_track_key)
        number = {track: index for index, track in enumerate(tracks)}
        self.tracks = tracks
        first = {pid: at for at, (pid, _) in enumerate(tracks)}
        self.process = np.array([first[pid] for pid, _ in tracks], np.int64)  # of each track
        self.sites = sites
        self.namespaces, spaces = _namespaces(tracks)
        kinds = np.array([kind_of(phase, category) for phase, category, _, _ in sites], np.uint8)
        places = np.array([number[(pid, tid)] for _, _, pid, tid in sites], np.int32)
        self.kind: Narrow = kinds[site]
        self.track: Narrow = places[site]
        self.namespace: Narrow = spaces[self.track]
        self.site = site

    def _kinds_without_category(self) -> None:
        """Rows of devices are no ops; copies and fills among them are told by their names."""
        kinds = np.array([KIND["cpu_op"]] * len(self.sites), np.uint8)
        for at, (phase, category, pid, tid) in enumerate(self.sites):
            if phase == "X" and not category:
                thread = self._labels.get((pid, tid, "thread_name"), "")
                names = (self._labels.get((pid, what), "") for what in _PROCESS)
                kinds[at] = kind_without_category((str(pid), *names), thread)
        rows = np.flatnonzero((kinds != KIND["cpu_op"])[self.site])
        if not len(rows):
            return
        self.kind[rows] = kinds[self.site[rows]]
        for word, kind in (("Memcpy", "gpu_memcpy"), ("Memset", "gpu_memset")):
            named = np.array([name.startswith(word) for name in self.names])
            mine = rows[(self.kind[rows] == KIND["kernel"]) & named[self.name[rows]]]
            self.kind[mine] = KIND[kind]

    def _found_labels(self, parts: list[Columns]) -> dict[tuple[Any, ...], str]:
        """Names of processes (pid, what) and threads (pid, tid, what), from metadata events.

        The last one written counts; a process label may stand on any track of that process.
        """
        found: dict[tuple[int, str], str] = {}
        base = 0
        for part, numbers in zip(parts, self.text_maps, strict=True):
            texts = self.text_list
            label = part.sides["labels"]
            for event, *said in zip(label["event"], label["name"], label["labels"], strict=True):
                text = next((texts[numbers[number]] for number in said if number >= 0), None)
                if text is not None:
                    row = base + event
                    found[(int(self.track[row]), self.names[self.name[row]])] = json_text(text)
            base += len(part)
        labels: dict[tuple[Any, ...], str] = {}
        for (track, what), stated in sorted(found.items()):
            pid, tid = self.tracks[track]
            labels.setdefault((pid, what) if what in _PROCESS else (pid, tid, what), stated)
        return labels

    def track_frame(self) -> pl.DataFrame:
        """One row per process and thread, with their names."""
        label = self._labels.get
        rows = [
            (
                at,
                *("" if part is None else str(part) for part in (pid, tid)),
                label((pid, "process_name")),
                label((pid, tid, "thread_name")),
                label((pid, "process_labels")),
            )
            for at, (pid, tid) in enumerate(self.tracks)
        ]
        texts_of = dict.fromkeys(("pid", "tid", "process", "thread", "labels"), pl.String)
        return pl.DataFrame(rows, {"id": pl.Int64, **texts_of}, orient="row")


def _namespaces(tracks: list[tuple[Any, Any]]) -> tuple[tuple[str, ...], Narrow]:
    """Merged files prefix each pid with its rank (`[TP00-DP01] 83`): ids hold within a prefix."""
    spaces: dict[str, int] = {}
    numbers = []
    for pid, _ in tracks:
        match = _MERGED_PID.match(pid) if isinstance(pid, str) else None
        numbers.append(spaces.setdefault(match[1], len(spaces)) if match else 0)
    return tuple(spaces), np.array(numbers, np.int32)


def is_one_of(kind: Narrow, chosen: tuple[int, ...]) -> Bools:
    """Which events are of one of these kinds."""
    table = np.zeros(len(KINDS), np.bool_)
    table[list(chosen)] = True
    found: Bools = table[kind]
    return found


def _renumber(pools: list[dict[Any, int]]) -> tuple[list[Any], list[Narrow]]:
    """What all pools hold, and for each pool the shared number of each of its values."""
    shared: dict[Any, int] = {}
    maps: dict[int, Narrow] = {}
    for pool in pools:
        if id(pool) not in maps:  # parts of one worker share theirs
            numbers = [shared.setdefault(value, len(shared)) for value in pool]
            maps[id(pool)] = np.array(numbers, np.int32)
    return list(shared), [maps[id(pool)] for pool in pools]


def mapped(written: list[Any], maps: list[Narrow]) -> Ints:
    """Interned numbers of all parts under the shared numbering; a negative one stays."""
    pieces = []
    for values, numbers in zip(written, maps, strict=True):
        own = as_numpy(values, np.int32)
        pieces.append(np.where(own >= 0, numbers[np.maximum(own, 0)], -1) if len(numbers) else own)
    return np.concatenate(pieces).astype(np.int64)


def _renumbered(written: list[Any], maps: list[Narrow]) -> Narrow:
    pairs = zip(written, maps, strict=True)
    return np.concatenate([numbers[as_numpy(values, np.int32)] for values, numbers in pairs])


def joined_arrays(written: list[Any], dtype: Any = np.int64) -> Any:
    """One array from those of all parts."""
    return np.concatenate([as_numpy(values, dtype) for values in written])


def event_rows(parts: list[Columns], written: list[Any]) -> Ints:
    """Numbers of events in their parts as numbers in the file."""
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    found = zip(written, starts, strict=False)
    return np.concatenate([as_numpy(values, np.int64) + start for values, start in found])


def as_numpy(values: Any, dtype: Any) -> Any:
    """An `array` as NumPy, without a copy."""
    return np.frombuffer(values, dtype) if len(values) else np.empty(0, dtype)


def _track_key(track: tuple[Any, Any]) -> tuple[tuple[bool, int, str], ...]:
    """Text, then numbers in order."""
    return tuple(
        (True, part, "") if isinstance(part, int) else (False, 0, str(part)) for part in track
    )


def json_text(text: bytes | str) -> str:
    """A JSON string without its quotes; any other JSON value as compact JSON."""
    if isinstance(text, str):
        return text
    try:
        found = msgspec.json.decode(text)
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text.decode(errors="replace")
