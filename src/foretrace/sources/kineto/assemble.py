"""Columns of all parts become the tables of a trace, in one canonical order.

Events are sorted by time, and ties by what the events are, never by where they stood in the file: a shuffled trace gives the
same tables. Problems with times are noted here; an event with a problem keeps its row and loses its time.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import polars as pl

from ...schema.ledger import LedgerBuilder
from ...schema.tables import Tables
from .columns import KIND, KINDS, KNOWN_CATEGORIES, NONE, Columns, kind_of
from .document import Document
from .times import Bools, Clock, Floats, Ints, clock_of, nanoseconds

_GPU_WORK = tuple(KIND[name] for name in ("kernel", "gpu_memcpy", "gpu_memset"))
_RANGES = tuple(KIND[name] for name in KINDS if name not in ("instant", "memory", "flow", "metadata", "counter", "end"))
# Who is outside when two ranges start and end together: steps and annotations, then frames, ops, and calls.
_OUTER = {name: rank for rank, name in enumerate(
    ("user_annotation", "python_function", "cpu_op", "cuda_runtime", "cuda_driver"))}
_MERGED_PID = re.compile(r"^\[([^\]]+)\]")
_FAR = np.iinfo(np.int64).max
NO_NAME, EMPTY_NAME = "(no name)", "(empty)"


def assemble(document: Document, ledger: LedgerBuilder) -> Tables:
    """Everything the model needs, from what was read."""
    parts = [part for part in document.columns if len(part)]
    joined = _Joined(parts)
    clock = clock_of(document.header, joined.ts[joined.ranged], ledger)
    times = _Times(joined, clock, ledger)
    order = _order(joined, times)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    _note_oddities(joined, parts, ledger)
    frames = {"events": _events(joined, times, order), "tracks": joined.track_frame(parts, position)}
    frames |= {side: _side_frame(side, parts, joined, position) for side in parts[0].sides if side != "labels"} if parts \
        else _empty_sides()
    return Tables("kineto", frames, document.header, ledger.freeze(), clock.base_ns, clock.resolution_ns, joined.namespaces)


class _Joined:
    """The columns of all parts under one numbering of names, sites and texts."""

    def __init__(self, parts: list[Columns]) -> None:
        names: dict[Any, int] = {}
        sites: dict[Any, int] = {}
        self.texts: dict[Any, int] = {}
        name_maps = [_renumber(part.names, names) for part in parts]
        site_maps = [_renumber(part.sites, sites) for part in parts]
        self.text_maps = [_renumber(part.texts, self.texts) for part in parts]
        name = _joined([numbers[_np(part.name, np.int32)] for part, numbers in zip(parts, name_maps, strict=True)])
        site = _joined([numbers[_np(part.site, np.int32)] for part, numbers in zip(parts, site_maps, strict=True)])
        self.ts: Floats = _joined([_np(part.ts, np.float64) for part in parts], np.float64)
        self.dur: Floats = _joined([_np(part.dur, np.float64) for part in parts], np.float64)
        self.correlation = _joined([_np(part.correlation, np.int64) for part in parts])
        self.external = _joined([_np(part.external, np.int64) for part in parts])
        self._name_ranks(list(names), name)
        self._site_columns(list(sites), site)
        self.unfinished = sum(part.unfinished for part in parts)

    def _name_ranks(self, names: list[Any], name: Ints) -> None:
        """Names numbered in sorted order, so that the numbering does not depend on the file's order."""
        shown = [NO_NAME if text is None else text or EMPTY_NAME for text in names]
        self.names = sorted(set(shown))
        rank = {text: number for number, text in enumerate(self.names)}
        self.name: Ints = np.array([rank[text] for text in shown], np.int64)[name] if shown else name

    def _site_columns(self, sites: list[tuple[str, str, Any, Any]], site: Ints) -> None:
        tracks = sorted({(pid, tid) for _, _, pid, tid in sites}, key=_track_key)
        number = {track: index for index, track in enumerate(tracks)}
        self.tracks = tracks
        self.sites = sites
        self.namespaces, spaces = _namespaces(tracks)
        columns = np.array([(kind_of(phase, category), number[(pid, tid)]) for phase, category, pid, tid in sites],
                           np.int64).reshape(-1, 2)
        self.kind: Ints = columns[site, 0] if len(site) else np.empty(0, np.int64)
        self.track: Ints = columns[site, 1] if len(site) else np.empty(0, np.int64)
        self.namespace: Ints = spaces[self.track] if len(site) else np.empty(0, np.int64)
        self.site = site
        self.ranged: Bools = np.isin(self.kind, _RANGES)

    def track_frame(self, parts: list[Columns], position: Ints) -> pl.DataFrame:
        """Names of processes and threads come from metadata events; the last one written counts."""
        found: dict[tuple[int, str], str] = {}
        base = 0
        for part, numbers in zip(parts, self.text_maps, strict=True):
            texts = list(self.texts)
            label = part.sides["labels"]
            for event, name, labels in zip(label["event"], label["name"], label["labels"], strict=True):
                row = base + event
                said = texts[numbers[name]] if name >= 0 else texts[numbers[labels]] if labels >= 0 else None
                if said is not None:
                    found[(int(self.track[row]), self.names[self.name[row]])] = _json_text(said)
            base += len(part)
        count = range(len(self.tracks))
        return pl.DataFrame({
            "id": list(count), "pid": [_text(pid) for pid, _ in self.tracks], "tid": [_text(tid) for _, tid in self.tracks],
            "process": [self._label(found, index, "process_name") for index in count],
            "thread": [found.get((index, "thread_name")) for index in count],
            "labels": [self._label(found, index, "process_labels") for index in count],
        }, schema={"id": pl.Int64, "pid": pl.String, "tid": pl.String, "process": pl.String, "thread": pl.String,
                   "labels": pl.String})

    def _label(self, found: dict[tuple[int, str], str], track: int, what: str) -> str | None:
        """A process label stands on any track of that process."""
        pid = self.tracks[track][0]
        for other, (other_pid, _) in enumerate(self.tracks):
            if other_pid == pid and (other, what) in found:
                return found[(other, what)]
        return None


class _Times:
    """Start and length of every event in nanoseconds, and which of them may be used."""

    def __init__(self, joined: _Joined, clock: Clock, ledger: LedgerBuilder) -> None:
        ts, dur, ranged = joined.ts, joined.dur, joined.ranged
        self.start, self.length = nanoseconds(ts), nanoseconds(dur)
        gpu = np.isin(joined.kind, _GPU_WORK)
        typical = float(np.median(ts[ranged & (ts > 0)])) if bool((ranged & (ts > 0)).any()) else 0.0
        stamped = ~((ts == 0) & ((clock.base_ns is not None) or typical > 1e12) & ranged)
        missing = np.isnan(ts)
        inside = (np.abs(np.where(missing, 0, ts)) < 9.0e15) & (ts >= 0) | missing
        sane = (np.abs(np.where(np.isnan(dur), 0, dur)) < 9.0e15)
        ledger.note("ts_missing", int((ranged & missing).sum()))
        ledger.note("gpu_no_timestamp", int((gpu & ~stamped).sum()))
        ledger.note("ts_out_of_window", int((ranged & ((~gpu & ~stamped) | ~inside | ~sane)).sum()))
        self.timed: Bools = ~missing & inside & stamped & sane
        unending = np.isnan(dur) & ranged & (joined.kind != KIND["begin"])
        negative = (dur < 0) & ranged
        ledger.note("dur_missing", int((unending & ~missing).sum()))
        ledger.note("dur_negative", int((negative & sane).sum()))
        self.lasting: Bools = self.timed & ranged & ~unending & ~negative
        self.start = np.where(self.timed, self.start + clock.offset_ns, 0)
        self.length = np.where(self.lasting, self.length, 0)
        _pair_begin_end(joined, self, ledger)


def _pair_begin_end(joined: _Joined, times: _Times, ledger: LedgerBuilder) -> None:
    """`B` and `E` of one thread become one range; an `E` without its `B`, or the reverse, is noted."""
    marks = np.flatnonzero((joined.kind == KIND["begin"]) | (joined.kind == KIND["end"]))
    if not marks.size:
        return
    begins: dict[int, list[int]] = {}
    lone = 0
    for row in sorted(marks.tolist(), key=lambda row: (times.start[row], joined.kind[row] == KIND["begin"])):
        waiting = begins.setdefault(int(joined.track[row]), [])
        if joined.kind[row] == KIND["begin"]:
            waiting.append(row)
        elif waiting:
            opened = waiting.pop()
            times.length[opened] = times.start[row] - times.start[opened]
            times.lasting[opened] = True
            phase_category = joined.sites[int(joined.site[opened])][1]
            joined.kind[opened] = kind_of("X", phase_category)
            joined.kind[row] = KIND["instant"]
        else:
            lone += 1
    ledger.note("dur_missing", lone + sum(len(waiting) for waiting in begins.values()))


def _order(joined: _Joined, times: _Times) -> Ints:
    """Time order; among equals the longer first, then by kind, track, name and ids."""
    key = np.where(times.timed, times.start, _FAR)
    order = np.argsort(key, kind="stable")
    placed = key[order]
    same = placed[1:] == placed[:-1]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    where = np.flatnonzero(tied)
    rows = order[where]
    rank = np.array([_OUTER.get(name, len(_OUTER) + code) for code, name in enumerate(KINDS)])
    within = np.lexsort((
        joined.external[rows], joined.correlation[rows], joined.name[rows], joined.track[rows], rank[joined.kind[rows]],
        -times.length[rows], key[rows],
    ))
    order[where] = rows[within]
    return order


def _events(joined: _Joined, times: _Times, order: Ints) -> pl.DataFrame:
    timed, lasting = times.timed[order], times.lasting[order]
    start, length = times.start[order], times.length[order]
    frame = pl.DataFrame({
        "id": np.arange(len(order), dtype=np.int64),
        "ts_ns": start, "dur_ns": length,
        "kind": pl.Series(KINDS, dtype=pl.String).gather(joined.kind[order]),
        "name": pl.Series(joined.names, dtype=pl.String).gather(joined.name[order]),
        "kind_id": joined.kind[order].astype(np.uint8), "name_id": joined.name[order].astype(np.int32),
        "track": joined.track[order].astype(np.int32),
        "correlation": joined.correlation[order], "external_id": joined.external[order],
        "namespace": joined.namespace[order].astype(np.int32),
    })
    holes = [pl.when(pl.col(name) != NONE).then(pl.col(name)).alias(name) for name in ("correlation", "external_id")]
    if not timed.all():
        holes.append(pl.when(pl.Series(timed)).then(pl.col("ts_ns")).alias("ts_ns"))
    holes.append(pl.when(pl.Series(lasting)).then(pl.col("dur_ns")).alias("dur_ns"))
    return frame.with_columns(holes)


def _side_frame(side: str, parts: list[Columns], joined: _Joined, position: Ints) -> pl.DataFrame:
    columns: dict[str, Any] = {}
    base = 0
    owners = []
    for part in parts:
        owners.append(position[_np(part.sides[side]["event"], np.int64) + base])
        base += len(part)
    event = _joined(owners)
    order = np.argsort(event, kind="stable")
    columns["event"] = event[order]
    texts = pl.Series([_decoded(text) for text in joined.texts], dtype=pl.String) if side != "shapes" else None
    for name in parts[0].sides[side]:
        if name == "event":
            continue
        code = parts[0].sides[side][name].typecode
        if code == "i":
            values = _joined([_mapped(_np(part.sides[side][name], np.int32), numbers)
                              for part, numbers in zip(parts, joined.text_maps, strict=True)])[order]
            columns |= _signatures(values, joined) if side == "shapes" else \
                {name: texts.gather(np.maximum(values, 0)).set(pl.Series(values < 0), None) if len(values) else  # type: ignore[union-attr]
                 pl.Series([], dtype=pl.String)}
        else:
            values = _joined([_np(part.sides[side][name], np.float64 if code == "d" else np.int64) for part in parts],
                             np.float64 if code == "d" else np.int64)[order]
            series = pl.Series(values)
            columns[name] = series.fill_nan(None) if code == "d" else series.set(series == NONE, None)
    return pl.DataFrame(columns)


def _signatures(values: Ints, joined: _Joined) -> dict[str, Any]:
    """Shapes are interned as one text per op call form; each form is decoded once and its parts shared."""
    used, number = np.unique(values, return_inverse=True) if len(values) else (values, values)
    texts = list(joined.texts)
    split = [tuple(_compact(piece) for piece in texts[form].split(b"\0")) for form in used.tolist()]
    forms = sorted(set(split))
    rank = {form: index for index, form in enumerate(forms)}
    columns: dict[str, Any] = {
        "signature": np.array([rank[form] for form in split], np.int64)[number] if len(values) else values
    }
    for index, name in enumerate(("dims", "types", "strides", "concrete")):
        column = pl.Series([form[index] or None for form in forms], dtype=pl.String)
        columns[name] = column.gather(columns["signature"])
    return columns


def _compact(text: bytes) -> str:
    """JSON text with its layout taken out, so that two writers of one value agree."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode() if text else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text.decode(errors="replace")


def _note_oddities(joined: _Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    counts = np.bincount(joined.site, minlength=len(joined.sites)) if len(joined.site) else np.zeros(len(joined.sites), int)
    phases = categories = 0
    for (phase, category, _, _), count in zip(joined.sites, counts.tolist(), strict=True):
        if phase not in ("X", "M", "i", "I", "s", "t", "f", "C", "B", "E"):
            phases += count
        elif phase == "X" and category.lower() not in KNOWN_CATEGORIES:
            categories += count
    ledger.note("unknown_phase", phases)
    ledger.note("unknown_category", categories)
    ledger.note("unfinished_event", joined.unfinished)
    if len(joined.namespaces) > 1:
        ledger.note("merged_trace", text=f"{len(joined.namespaces)} ranks were merged into this file: "
                                         f"{', '.join(joined.namespaces[:8])}")
    replaced = [index for index, name in enumerate(joined.names) if name == "unknown"]
    if replaced:
        ledger.note("name_replaced", int((joined.name[np.isin(joined.kind, _RANGES)] == replaced[0]).sum()))
    _note_orphans(joined, ledger)


def _note_orphans(joined: _Joined, ledger: LedgerBuilder) -> None:
    """Arrows from launch to kernel with one end only: normal in Kineto, and nothing depends on them."""
    flow = joined.kind == KIND["flow"]
    if not flow.any():
        return
    links = np.array([category.lower() not in ("fwdbwd",) for _, category, _, _ in joined.sites])
    starts = np.array([phase == "s" for phase, _, _, _ in joined.sites])
    linked = flow & links[joined.site] & (joined.correlation != NONE)
    started = starts[joined.site]
    ledger.note("flow_orphan", len(np.setxor1d(joined.correlation[linked & started], joined.correlation[linked & ~started])))


def _namespaces(tracks: list[tuple[Any, Any]]) -> tuple[tuple[str, ...], Ints]:
    """Merged files prefix each pid with its rank (`[TP00-DP01] 83`): ids mean something only within one prefix."""
    spaces: dict[str, int] = {}
    numbers = []
    for pid, _ in tracks:
        match = _MERGED_PID.match(pid) if isinstance(pid, str) else None
        numbers.append(spaces.setdefault(match[1], len(spaces)) if match else 0)
    return tuple(spaces), np.array(numbers, np.int64)


def _renumber(pool: dict[Any, int], shared: dict[Any, int]) -> Ints:
    return np.array([shared.setdefault(value, len(shared)) for value in pool], np.int64)


def _mapped(values: Any, numbers: Ints) -> Ints:
    return np.where(values >= 0, numbers[np.maximum(values, 0)], -1) if len(numbers) else values.astype(np.int64)


def _joined(pieces: list[Any], dtype: Any = np.int64) -> Any:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _np(values: Any, dtype: Any) -> Any:
    return np.frombuffer(values, dtype) if len(values) else np.empty(0, dtype)


def _track_key(track: tuple[Any, Any]) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in order, then text."""
    return tuple((isinstance(part, int), part if isinstance(part, int) else 0, "" if isinstance(part, int) else str(part))
                 for part in track)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _decoded(text: Any) -> str:
    return text if isinstance(text, str) else _json_text(text)


def _json_text(text: bytes | str) -> str:
    """A JSON string without its quotes; any other JSON value as its text."""
    if isinstance(text, str):
        return text
    if text[:1] == b'"':
        try:
            return str(msgspec.json.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return text.decode(errors="replace")
    return _compact(text)


def _empty_sides() -> dict[str, pl.DataFrame]:
    part = Columns()
    part.add([])
    columns = _Joined([part])
    return {side: _side_frame(side, [part], columns, np.empty(0, np.int64)) for side in part.sides if side != "labels"}
