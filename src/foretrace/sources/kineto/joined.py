"""The columns of all parts of a file under one numbering of names, sites and texts.

Numbers follow the sorted order of what they stand for, so that they do not depend on the order of
the file.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import polars as pl

from foretrace.schema.gaps import Bools, Floats, Ints, Narrow
from foretrace.schema.tables import KIND, KINDS, WORK_KINDS
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.layout import kind_of

GPU_WORK = tuple(KIND[name] for name in WORK_KINDS)
_NO_RANGE = ("instant", "memory", "flow", "metadata", "counter", "end", "unknown")
RANGES = tuple(KIND[name] for name in KINDS if name not in _NO_RANGE)
_MERGED_PID = re.compile(r"^\[([^\]]+)\]")
NO_NAME, EMPTY_NAME = "(no name)", "(empty)"


class Joined:
    """The columns of all parts under one numbering of names, sites and texts."""

    def __init__(self, parts: list[Columns]) -> None:
        names: dict[Any, int] = {}
        sites: dict[Any, int] = {}
        self.texts: dict[Any, int] = {}
        name_maps = [_renumber(part.names, names) for part in parts]
        site_maps = [_renumber(part.sites, sites) for part in parts]
        self.text_maps = [_renumber(part.texts, self.texts) for part in parts]
        self.text_list = list(self.texts)
        name = concatenated(
            [
                numbers[as_numpy(part.name, np.int32)]
                for part, numbers in zip(parts, name_maps, strict=True)
            ]
        )
        site = concatenated(
            [
                numbers[as_numpy(part.site, np.int32)]
                for part, numbers in zip(parts, site_maps, strict=True)
            ]
        )
        self.ts: Floats = concatenated(
            [as_numpy(part.ts, np.float64) for part in parts], np.float64
        )
        self.dur: Floats = concatenated(
            [as_numpy(part.dur, np.float64) for part in parts], np.float64
        )
        self.correlation = concatenated([as_numpy(part.correlation, np.int64) for part in parts])
        self.external = concatenated([as_numpy(part.external, np.int64) for part in parts])
        self._name_ranks(list(names), name)
        self._site_columns(list(sites), site)
        self.unfinished = sum(part.unfinished for part in parts)

    def forget_times(self) -> None:
        """Times as written are not needed once they are nanoseconds, and a trace of millions of
        events has little room.
        """
        self.ts = self.dur = np.empty(0, np.float64)

    def _name_ranks(self, names: list[Any], name: Narrow) -> None:
        """Names numbered in sorted order, so that the numbering does not depend on the file's
        order.
        """
        shown = [NO_NAME if text is None else text or EMPTY_NAME for text in names]
        self.names = sorted(set(shown))
        rank = {text: number for number, text in enumerate(self.names)}
        self.name: Narrow = (
            np.array([rank[text] for text in shown], np.int32)[name] if shown else name
        )

    def _site_columns(self, sites: list[tuple[str, str, Any, Any]], site: Narrow) -> None:
        tracks = sorted({(pid, tid) for _, _, pid, tid in sites}, key=_track_key)
        number = {track: index for index, track in enumerate(tracks)}
        self.tracks = tracks
        self.sites = sites
        self.namespaces, spaces = _namespaces(tracks)
        self.kind: Narrow = np.array(
            [kind_of(phase, category) for phase, category, _, _ in sites], np.uint8
        )[site]
        self.track: Narrow = np.array([number[(pid, tid)] for _, _, pid, tid in sites], np.int32)[
            site
        ]
        self.namespace: Narrow = spaces[self.track]
        self.site = site
        self.ranged: Bools = is_one_of(self.kind, RANGES)

    def track_frame(self, parts: list[Columns], position: Ints) -> pl.DataFrame:
        """Names of processes and threads come from metadata events; the last one written counts."""
        found: dict[tuple[int, str], str] = {}
        base = 0
        for part, numbers in zip(parts, self.text_maps, strict=True):
            texts = self.text_list
            label = part.sides["labels"]
            for event, name, labels in zip(
                label["event"], label["name"], label["labels"], strict=True
            ):
                row = base + event
                said = (
                    texts[numbers[name]]
                    if name >= 0
                    else texts[numbers[labels]]
                    if labels >= 0
                    else None
                )
                if said is not None:
                    found[(int(self.track[row]), self.names[self.name[row]])] = json_text(said)
            base += len(part)
        count = range(len(self.tracks))
        return pl.DataFrame(
            {
                "id": list(count),
                "pid": [_text(pid) for pid, _ in self.tracks],
                "tid": [_text(tid) for _, tid in self.tracks],
                "process": [self._label(found, index, "process_name") for index in count],
                "thread": [found.get((index, "thread_name")) for index in count],
                "labels": [self._label(found, index, "process_labels") for index in count],
            },
            schema={
                "id": pl.Int64,
                "pid": pl.String,
                "tid": pl.String,
                "process": pl.String,
                "thread": pl.String,
                "labels": pl.String,
            },
        )

    def _label(self, found: dict[tuple[int, str], str], track: int, what: str) -> str | None:
        """A process label stands on any track of that process."""
        pid = self.tracks[track][0]
        for other, (other_pid, _) in enumerate(self.tracks):
            if other_pid == pid and (other, what) in found:
                return found[(other, what)]
        return None


def _namespaces(tracks: list[tuple[Any, Any]]) -> tuple[tuple[str, ...], Narrow]:
    """Merged files prefix each pid with its rank (`[TP00-DP01] 83`): ids mean something only within
    one prefix.
    """
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


def _renumber(pool: dict[Any, int], shared: dict[Any, int]) -> Narrow:
    return np.array([shared.setdefault(value, len(shared)) for value in pool], np.int32)


def mapped(values: Any, numbers: Narrow) -> Ints:
    return (
        np.where(values >= 0, numbers[np.maximum(values, 0)], -1)
        if len(numbers)
        else values.astype(np.int64)
    )


def concatenated(pieces: list[Any], dtype: Any = np.int64) -> Any:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def as_numpy(values: Any, dtype: Any) -> Any:
    return np.frombuffer(values, dtype) if len(values) else np.empty(0, dtype)


def _track_key(track: tuple[Any, Any]) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in order, then text."""
    return tuple(
        (
            isinstance(part, int),
            part if isinstance(part, int) else 0,
            "" if isinstance(part, int) else str(part),
        )
        for part in track
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def compact(text: bytes) -> str:
    """JSON text with its layout taken out, so that two writers of one value agree."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode() if text else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text.decode(errors="replace")


def json_text(text: bytes | str) -> str:
    """A JSON string without its quotes; any other JSON value as its text."""
    if isinstance(text, str):
        return text
    if text[:1] == b'"':
        try:
            return str(msgspec.json.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return text.decode(errors="replace")
    return compact(text)
