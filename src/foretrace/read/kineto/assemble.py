"""Columns of all parts become the tables of a trace, in one canonical order.

Events are sorted by time, and ties by what the events are, never by where they stood in the file: a
shuffled trace gives the same tables. Problems with times are noted here; an event with a problem
keeps its row and loses its time. Names, sites and texts of all parts get one numbering (`Joined`),
in sorted order, so that it does not depend on the order of the file.

Times are written in microseconds, in five ways over the eras of the format. A decimal with three
digits below 2^43 us is the nearest double to that decimal, so splitting whole and fraction and
rounding the fraction to thousandths gives back every nanosecond. Absolute float times of early 2024
lost their digits in the writer (a double near 1.7e15 has steps of a quarter microsecond): nothing
more is lost here, and the resolution is stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import Bools, Floats, Ints, Narrow, coded, distinct, is_in, with_gaps
from foretrace.base.patterns import regex
from foretrace.base.units import time_text, whole
from foretrace.read.kineto.document import Document
from foretrace.read.kineto.records import (
    KNOWN_CATEGORIES,
    KNOWN_PHASES,
    LAST_US,
    SIDES,
    Columns,
    Int,
    kind_of,
    kind_without_category,
)
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import KIND, KINDS, NAMELESS, NONE, WORK_KINDS, Tables

_NUMBERS = pl.List(pl.Int64)
_SIZES = pl.List(_NUMBERS)
_COLUMNS: dict[str, pl.DataType] = {
    "dims": _SIZES,
    "types": pl.List(pl.String),
    "strides": _SIZES,
    "concrete": pl.List(pl.String),
    "list_dims": pl.List(_SIZES),
    "list_strides": pl.List(_SIZES),
}
_tensors = msgspec.json.Decoder(list[list[Int]]).decode
_any = msgspec.json.Decoder().decode
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def sizes(texts: Sequence[bytes | None]) -> pl.Series:
    """Grids or blocks; null for anything but a list of whole numbers."""
    return _decoded([_json(_fitting(_listed(text or b""), list[Int])) for text in texts], _NUMBERS)


def signatures(forms: Ints, texts: Sequence[bytes]) -> tuple[Ints, pl.DataFrame]:
    """The signature of each row, and the table of signatures; `forms` are positions in `texts`.

    Each distinct text is decoded once. What fits is written again as JSON for Polars to decode:
    building nested lists from Python objects takes twenty times as long. Signatures are numbered in
    sorted order, so that they do not depend on the order of the file.
    """
    used, number = coded(forms)
    rows = [_row(texts[form]) for form in used.tolist()]
    distinct = sorted(set(rows))
    rank = {row: place for place, row in enumerate(distinct)}
    table = {
        name: _decoded([row[place] for row in distinct], kind)
        for place, (name, kind) in enumerate(_COLUMNS.items())
    }
    return np.array([rank[row] for row in rows], np.int64)[number.reshape(-1)], pl.DataFrame(table)


def _row(text: bytes) -> tuple[str, ...]:
    """The columns of one signature as JSON, from the four texts that `Columns` joined."""
    dims, types, strides, concrete = text.split(b"\0")
    plain, nested = _shapes(dims)
    plain_strides, nested_strides = _shapes(strides)
    words, values = _listed(types), _listed(concrete)
    named = words and [item if isinstance(item, str) else "" for item in words]
    shown = values and [str(item) for item in values]
    columns = (plain, named, plain_strides, shown, nested, nested_strides)
    return tuple(_json(column) for column in columns)


def _shapes(text: bytes) -> tuple[list[Any] | None, list[Any] | None]:
    """(sizes of each tensor, sizes of each TensorList's tensors)."""
    try:
        return _tensors(text), None
    except _BROKEN:
        found = _listed(text)
    if not found:
        return found, None
    nested = [_fitting(item, list[list[Int]]) if item else None for item in found]
    return [_fitting(item, list[Int]) for item in found], nested if any(nested) else None


def _fitting(item: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError:
        return None


def _listed(text: bytes) -> list[Any] | None:
    try:
        found = _any(text) if text else None
    except _BROKEN:
        return None
    return found if isinstance(found, list) else None


def _json(value: list[Any] | None) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _decoded(texts: list[str], kind: pl.DataType) -> pl.Series:
    if not any(texts):
        return pl.Series([None] * len(texts), dtype=kind)
    return pl.Series([text or None for text in texts], dtype=pl.String).str.json_decode(kind)


_LEGACY = "CPU functions"  # the process of every range that torch.autograd.profiler wrote by itself


def note_oddities(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    """Note unknown and unfinished events, repeated ids, merged ranks and lone arrows."""
    counts = np.bincount(joined.site, minlength=len(joined.sites))
    phases = categories = 0
    for (phase, category, _, _), count in zip(joined.sites, counts.tolist(), strict=True):
        if phase not in KNOWN_PHASES:
            phases += count
        elif phase == "X" and category.lower() not in KNOWN_CATEGORIES:
            categories += count
    ledger.note("legacy_format", any(pid == _LEGACY for _, _, pid, _ in joined.sites))
    ledger.note("unknown_phase", phases)
    ledger.note("unknown_category", categories)
    ledger.note("unfinished_event", joined.unfinished)
    ledger.note("arg_type", sum(part.coerced for part in parts))
    # two backward evaluations with one sequence number cannot both belong to that forward op
    evaluates = np.array(
        [name.startswith("autograd::engine::evaluate_function") for name in joined.names], np.bool_
    )
    sides = [part.sides["autograd"] for part in parts]
    rows = event_rows(parts, [side["event"] for side in sides])
    mine = evaluates[joined.name[rows]] if len(rows) else np.zeros(0, np.bool_)
    columns = ("sequence", "forward_thread")
    numbers = [joined_arrays([side[name] for side in sides])[mine] for name in columns]
    process = joined.process[joined.track[rows[mine]]]
    keys = np.stack([*numbers, process])  # processes count on their own
    order = np.lexsort(keys)
    repeats = (keys[:, order[1:]] == keys[:, order[:-1]]).all(0)
    ledger.note("seq_duplicate", int(repeats.sum()))
    if len(joined.namespaces) > 1:
        shown = ", ".join(joined.namespaces[:8])
        text = f"{len(joined.namespaces)} ranks were merged into this file: {shown}"
        ledger.note("merged_trace", text=text)
    if "unknown" in joined.names:
        replaced = joined.names.index("unknown")
        ledger.note("name_replaced", int((joined.name[joined.ranged] == replaced).sum()))
    _note_orphans(joined, ledger)


def _note_orphans(joined: Joined, ledger: LedgerBuilder) -> None:
    """Arrows from launch to kernel with one end only: normal in Kineto; nothing depends on them."""
    flow = joined.kind == KIND["flow"]
    if not flow.any():
        return
    links = np.array([category.lower() != "fwdbwd" for _, category, _, _ in joined.sites])
    starts = np.array([phase == "s" for phase, _, _, _ in joined.sites])
    linked = flow & links[joined.site] & (joined.correlation != NONE)
    # sorted, an id that both sides have stands beside itself
    sides = (starts[joined.site], ~starts[joined.site])
    ends = [np.sort(joined.correlation[linked & side]) for side in sides]
    once = [mine[np.diff(mine, prepend=NONE) != 0] for mine in ends]
    both = np.sort(np.concatenate(once))
    ledger.note("flow_orphan", len(both) - 2 * int((both[1:] == both[:-1]).sum()))


def assemble(document: Document, ledger: LedgerBuilder) -> Tables:
    """Everything the model needs, from what was read."""
    parts = [part for part in document.columns if len(part)] or [Columns()]
    joined = Joined(parts)
    clock = clock_of(document.header, joined, ledger)
    times = EventTimes(joined, clock, ledger)
    # the times as written are not needed any more: those of millions of events take room
    joined.ts = joined.dur = np.empty(0, np.float64)
    lag_ns = align(joined, times, ledger)
    order = time_order(joined, times)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    note_oddities(joined, parts, ledger)
    correlation, external = joined.correlation[order], joined.external[order]
    frames = {
        "events": pl.DataFrame(
            {
                "ts_ns": with_gaps(times.start[order], times.timed[order]),
                "dur_ns": with_gaps(times.length[order], times.lasting[order]),
                "kind_id": joined.kind[order],
                "name_id": joined.name[order],
                "track": joined.track[order],
                "correlation": with_gaps(correlation, correlation != NONE),
                "external_id": with_gaps(external, external != NONE),
                "namespace": joined.namespace[order],
            }
        ),
        "names": pl.DataFrame({"name": joined.names}, schema={"name": pl.String}),
        "tracks": joined.track_frame(),
    }
    frames |= {
        side: _side_frame(side, parts, joined, position) for side in SIDES if side != "labels"
    }
    event, forms = frames["shapes"]
    signature, frames["signatures"] = signatures(forms.to_numpy(), joined.text_list)
    frames["shapes"] = pl.DataFrame({"event": event, "signature": signature})
    return Tables(
        "kineto",
        frames,
        document.header,
        ledger.freeze(),
        clock.base_ns,
        clock.resolution_ns,
        joined.namespaces,
        lag_ns,
        _last(joined, times, position) if ledger.counts.get("trace_truncated") else -1,
    )


_ADDED = {"span", "gpu_user_annotation", "metadata"}  # behind all that the program did


def _last(joined: Joined, times: EventTimes, position: Ints) -> int:
    """The event that a cut file ends with. Each thread and stream stands by itself there, in order
    of time: what begins later is missing.
    """
    rows = np.flatnonzero(times.lasting)[-1:]
    kinds = {KINDS[kind] for kind in joined.kind[[*rows, -1]]} if len(rows) else _ADDED
    return int(position[rows[0]]) if kinds.isdisjoint(_ADDED) else -1


def _side_frame(side: str, parts: list[Columns], joined: Joined, position: Ints) -> pl.DataFrame:
    """One side table: its events under their final numbers, in that order."""
    event = position[event_rows(parts, [part.sides[side]["event"] for part in parts])]
    order = np.argsort(event, kind="stable")
    columns: dict[str, Any] = {"event": event[order]}
    for name, code, _ in SIDES[side]:
        written = [part.sides[side][name] for part in parts]
        if code in "il":
            forms = mapped(written, joined.text_maps)[order]
            columns[name] = forms if side == "shapes" else _values(forms, joined, code)
        else:
            values = joined_arrays(written, np.float64 if code == "d" else np.int64)
            there = ~np.isnan(values) if code == "d" else values != NONE
            columns[name] = with_gaps(values, there)[order]
    return pl.DataFrame(columns)


def _values(forms: Ints, joined: Joined, code: str) -> pl.Series:
    """Interned texts, or the lists they hold, by their number; a negative number is null."""
    used, number = coded(forms)
    texts = [None if form < 0 else joined.text_list[form] for form in used.tolist()]
    if code == "l":
        return sizes(texts)[number.reshape(-1)]
    shown = [None if text is None else json_text(text) for text in texts]
    return pl.Series(shown, dtype=pl.String)[number.reshape(-1)]


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


_DAY, _MINUTE = 86_400 * 10**9, 60 * 10**9
_MOST_TOGETHER = 1 << 62
_MOST_APART = 1 << 58  # GPU work may lie as far again beside the host's, and trees double it
_SPREADS = 10  # a recording reaches no further than this many times where nine tenths of it lie
_SAME_CLOCK = 0.1  # the share of GPU events near the host's that proves one clock
_GPU_CLOCK = (*WORK_KINDS, "gpu_user_annotation", "cuda_sync", "cuda_event")


def outliers(joined: Joined, start: Ints, length: Ints, timed: Bools) -> Bools:
    """The events whose time cannot be that of this recording: another clock stamped them.

    Host events lie around their median, however long the pauses between them. GPU events lie in the
    host's stretch of time, or follow it without a long gap: a queue may outlast its host. Where
    hardly any of them do, the GPU has a clock of its own, which the model notes; then its events
    lie around their own median.

    All durations together take less than 2^62 ns, and so do the stretches of time of all threads
    and streams laid end to end: no sum that is derived from them leaves 64 bits.
    """
    seen = timed & (joined.ranged | (joined.kind == KIND["memory"]))
    own_clock = is_one_of(joined.kind, tuple(KIND[name] for name in _GPU_CLOCK))
    host, gpu = np.flatnonzero(seen & ~own_clock), np.flatnonzero(seen & own_clock)
    odd = np.zeros(len(start), np.bool_)
    most = _MOST_APART // max(joined.lanes, 1)
    odd[host] = _far(start[host], length[host], most)
    kept = host[~odd[host]]
    far = _far(start[gpu], length[gpu], most)
    odd[gpu] = _beside(start[kept], length[kept], start[gpu], length[gpu], far)
    rows = np.flatnonzero(seen & ~odd)
    if length[rows].sum(dtype=np.float64) >= _MOST_TOGETHER:
        odd[rows] |= length[rows] > _MOST_TOGETHER // len(rows)
    return odd


def _far(start: Ints, length: Ints, most: int) -> Bools:
    """What lies far from the median; a day is not far, unless it is beyond `most`."""
    day = min(_DAY, most)
    if not len(start) or (int(start.max() - start.min()) <= day and int(length.max()) <= day):
        return np.zeros(len(start), np.bool_)
    low, middle, high = (int(at) for at in np.quantile(start, (0.05, 0.5, 0.95), method="lower"))
    reach = min(max(_DAY, _SPREADS * (high - low)), most)
    return (np.abs(start - middle) > reach) | (length > reach)


def _beside(host: Ints, host_length: Ints, start: Ints, length: Ints, far: Bools) -> Bools:
    """The GPU events that are not beside the host's; without host events, those far from others."""
    if not len(host) or not len(start):
        return far
    low, high = int(host.min()), int((host + host_length).max())
    slack = max(high - low, _MINUTE)
    late = np.flatnonzero((start > high) & ~far)
    late = late[np.argsort(start[late], kind="stable")]
    ends = (start + np.minimum(length, slack))[late]
    gap = start[late] - np.maximum.accumulate(np.concatenate(([high], ends[:-1])))[: len(late)]
    following = late[np.cumsum(gap > slack) == 0]
    near = (start >= low - slack) & (start <= high) & ~far
    near[following] = True
    return far if near.sum() < _SAME_CLOCK * len(start) else ~near


BASE = "baseTimeNanoseconds"
_UNUSABLE_BASE = f"{BASE} is unusable: times are relative, ranks cannot be aligned"
_LAST_BASE = 4 * 10**18  # the year 2096: a base and a time of ten years fit 62 bits
_EPOCH_US = 10**14  # later than 1973: a time this large counts from 1970
# which range is outside when two start and end together
_OUTER = ("user_annotation", "python_function", "cpu_op", "cuda_runtime", "cuda_driver")
_FAR = np.iinfo(np.int64).max


class Clock(Struct, frozen=True):
    """How this trace counts: what its times start from, and how fine they are."""

    base_ns: int | None
    offset_ns: int
    resolution_ns: int


def nanoseconds(us: Floats) -> Ints:
    """Exact for every relative time; unusable values come out as 0."""
    usable = np.abs(us) < LAST_US
    safe = np.where(usable, us, 0.0)
    whole = np.floor(safe)
    fraction = np.rint((safe - whole) * 1000.0)
    result: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return result


def clock_of(header: dict[str, Any], joined: Joined, ledger: LedgerBuilder) -> Clock:
    """Which era wrote these times; their precision and a missing origin are noted."""
    ts = joined.ts[joined.ranged]
    positive = ts[(ts > 0) & (ts < LAST_US)]
    typical = float(np.median(positive)) if positive.size else 0.0
    if typical >= _EPOCH_US:
        text, resolution = "times are whole microseconds: +-1000 ns", 1000
        if len(joined.exact_event):
            text = "absolute times as floating point: the writer may have lost up to +-250 ns"
            resolution = 250
        ledger.note("ts_precision", text=text)
        return Clock(0, 0, resolution)
    value = header.get(BASE)
    if isinstance(value, str):
        value = whole(value)
    base = value if isinstance(value, int) and 0 <= value < _LAST_BASE else None
    if base is None:
        if positive.size:
            ledger.note("base_missing", text=_UNUSABLE_BASE if BASE in header else "")
        return Clock(None, 0, 1)
    return Clock(base, base, 1)


class EventTimes:
    """Start and length of every event in nanoseconds, and which of them may be used."""

    def __init__(self, joined: Joined, clock: Clock, ledger: LedgerBuilder) -> None:
        ts, dur, ranged = joined.ts, joined.dur, joined.ranged
        self.start, self.length = nanoseconds(ts), nanoseconds(dur)
        self.start[joined.exact_event] = joined.exact_ns
        gpu = is_one_of(joined.kind, GPU_WORK)
        stamped = ~_lost_times(joined, gpu)
        missing = np.isnan(ts)
        inside = (ts >= 0) & (ts < LAST_US - clock.offset_ns / 1000) | missing
        sane = ~(np.abs(dur) >= LAST_US)
        ledger.note("ts_missing", int((ranged & missing).sum()))
        ledger.note("gpu_no_timestamp", int((gpu & ~stamped).sum()))
        ledger.note("ts_out_of_window", int((ranged & ((~gpu & ~stamped) | ~inside | ~sane)).sum()))
        self.timed: Bools = ~missing & inside & stamped & sane
        unending = np.isnan(dur) & ranged & (joined.kind != KIND["begin"])
        negative = (dur < 0) & ranged
        ledger.note("dur_missing", int((unending & ~missing).sum()))
        ledger.note("dur_negative", int((negative & sane).sum()))
        self.lasting: Bools = self.timed & ranged & ~unending & ~negative
        self.length = np.where(self.lasting, self.length, 0)
        _pair_begin_end(joined, self, ledger)
        odd = outliers(joined, self.start, self.length, self.timed)
        ledger.note("time_outlier", int(odd.sum()))
        self.timed, self.lasting = self.timed & ~odd, self.lasting & ~odd
        self.start = np.where(self.timed, self.start + clock.offset_ns, 0)
        self.length = np.where(self.lasting, self.length, 0)


def _lost_times(joined: Joined, gpu: Bools) -> Bools:
    """Which events have a time of 0 that is none.

    A recording that begins at 0 has other events near it, or inside the one that begins there. GPU
    work at 0 follows a host event, and on its stream nothing else begins with it.
    """
    ts, ranged = joined.ts, joined.ranged
    positive, host = ts[ranged & (ts > 0)], ranged & ~gpu
    zero: Bools = (ts == 0) & ranged
    if not zero.any():
        return zero
    most = np.quantile(positive, (0.05, 0.95), method="lower") if positive.size else (0.0, 0.0)
    low, high = map(float, most)
    if low > high - low and not (joined.dur[zero] >= low).any():
        return zero
    alone = np.bincount(joined.track[zero & gpu], minlength=len(joined.tracks)) == 1
    begins = not host.any() or bool((zero & host).any())
    lost: Bools = zero & gpu & ~(alone[joined.track] & begins)
    return lost


def _pair_begin_end(joined: Joined, times: EventTimes, ledger: LedgerBuilder) -> None:
    """Make one range of each `B` and its `E` on one thread; note those without a partner."""
    marks = np.flatnonzero((joined.kind == KIND["begin"]) | (joined.kind == KIND["end"]))
    if not marks.size:
        return
    begins: dict[int, list[int]] = {}
    lone = 0
    for row in sorted(
        marks.tolist(), key=lambda row: (times.start[row], joined.kind[row] == KIND["begin"])
    ):
        waiting = begins.setdefault(int(joined.track[row]), [])
        if not times.timed[row]:
            lone += 1
        elif joined.kind[row] == KIND["begin"]:
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


def time_order(joined: Joined, times: EventTimes) -> Ints:
    """Time order; among equals the longer first, then by kind, track, ids and name."""
    key = np.where(times.timed, times.start, _FAR)
    order = np.argsort(key, kind="stable")
    placed = key[order]
    same = placed[1:] == placed[:-1]
    if not same.any():
        return order
    ranks = [_OUTER.index(name) if name in _OUTER else 99 + KIND[name] for name in KINDS]
    rank = np.array(ranks, np.int64)
    for next_key in (
        lambda rows: -times.length[rows],
        lambda rows: (rank[joined.kind[rows]] << 32) + joined.track[rows],
        lambda rows: joined.external[rows],  # an outer op was numbered before the one it calls
        lambda rows: joined.correlation[rows],
        lambda rows: joined.name[rows],
    ):
        # sort each run of equals by one more key
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        where = np.flatnonzero(tied)
        rows = order[where]
        run = np.cumsum(np.concatenate(([True], ~same))[where])
        values = next_key(rows)
        within = np.lexsort((values, run))
        order[where] = rows[within]
        values = values[within]
        # what is still equal to its neighbour
        still = (values[1:] == values[:-1]) & (run[1:] == run[:-1])
        same = np.zeros_like(same)
        same[where[1:][still] - 1] = True
    return order


# How far the GPU's clock is from the host's, by what launches and waits say.
#
# Nothing starts before its launch, and a call that waits for the GPU returns after its work. On an
# idle GPU work starts some microseconds after its launch, and a long wait returns some microseconds
# after what it waited for. A shift of one clock changes all these times by the same amount, so the
# least of them say where the clock stands:
#
#     launches  where the GPU was idle before two or more of the quickest
#     waits     otherwise, where a call waited long for all of the work: launches met a busy GPU
#     nothing   otherwise; then the quickest launch is taken as quick, and the offset is proven only
#               where work starts before its launch, or a wait returns before the work has ended
#
# A proven offset beyond `APART_NS` is corrected. What is left of it goes with the tables
# (`gpu_lag_ns`): whoever compares times of both clocks adds it to the host's, so that no answer
# depends on it.

# The quickest launch of a recording takes this long, from its call to its work. On recorded traces:
# 5 to 18 us on H200, H100, B200 and A100, 5 to 26 us on MI210, MI250 and MI300X.
QUICKEST_NS = 7_000
# A wait returns this long after the work; 4 to 28 us on the same traces.
RETURN_NS = 8_000
# A wait this long waited: with nothing to wait for it takes at most 68 us on the same traces.
LONG_NS = 100_000
# Before work that starts after so long a pause the GPU was idle; in a queue work follows sooner.
PAUSE_NS = 20_000
# Launches on an idle GPU take up to this much longer than the quickest.
SPREAD_NS = 20_000
# Clocks that are nearer agree, as far as launches and waits tell.
APART_NS = 100_000
_OUTLIERS = 100  # one launch of so many may have a false time
_CALLS = (KIND["cuda_runtime"], KIND["cuda_driver"])
_STAMPED = (*GPU_WORK, KIND["gpu_user_annotation"])  # by the GPU's clock
_WAITS_FOR_ALL = regex(r"(?:cuda|cu|hip)(?:Device|Ctx|Context)Synchronize\w*")
_WAITS_FOR_STREAM = regex(r"(?:cuda|cu|hip)StreamSynchronize\w*|hipMemcpyWithStream|cudaMemcpy")


class LaunchedWork(Struct, frozen=True):
    """GPU operations in order of time: the call that launched each and when, when it ran, and a
    number for its device.
    """

    launch: Ints
    called: Ints
    start: Ints
    end: Ints
    device: Ints


class GpuLag(Struct, frozen=True):
    """How much later the GPU's clock is; `proven` where launches or waits leave no other."""

    ns: int = 0
    proven: bool = False


def align(joined: Joined, times: EventTimes, ledger: LedgerBuilder) -> int:
    """Put GPU times on the host's clock where they are far from it; returns what is left."""
    lags = [_lag_of(joined, times, space) for space in range(max(len(joined.namespaces), 1))]
    merged = len(lags) > 1  # what is left is that of one
    apart = [lag.ns if lag.proven and (merged or abs(lag.ns) > APART_NS) else 0 for lag in lags]
    if any(apart):
        moved = np.array(apart, np.int64)[joined.namespace]
        times.start -= np.where(is_one_of(joined.kind, _STAMPED) & times.timed, moved, 0)
        ns = max(apart, key=abs)
        if abs(ns) > APART_NS:
            side = "late" if ns > 0 else "early"
            text = f"GPU times were {time_text(abs(ns))} {side} by the host's clock"
            ledger.note("clock_offset", text=f"{text}, as launches and waits tell: corrected")
    return 0 if merged else lags[0].ns - apart[0]


def _lag_of(joined: Joined, times: EventTimes, space: int) -> GpuLag:
    """The offset of one rank."""
    mine = times.lasting & (joined.namespace == space)
    calls = np.flatnonzero(mine & is_one_of(joined.kind, _CALLS))
    rows = np.flatnonzero(mine & is_one_of(joined.kind, GPU_WORK) & (joined.correlation > 0))
    rows, call = _linked(joined, calls, rows[np.argsort(times.start[rows], kind="stable")])
    device = joined.process[joined.track[rows]]
    end = times.start + times.length
    work = LaunchedWork(call, times.start[call], times.start[rows], end[rows], device)
    one_stream = len(distinct(joined.track[rows])) == 1
    # calls that return after all work that was launched before them
    for_all = [_WAITS_FOR_ALL, _WAITS_FOR_STREAM] if one_stream else [_WAITS_FOR_ALL]
    waits = np.array(
        [any(each.fullmatch(name) for each in for_all) for name in joined.names], np.bool_
    )
    waiting = calls[waits[joined.name[calls]]]
    # what was launched last must be in the trace: else the wait may have been for what is not
    issued = calls[is_in(joined.name[calls], distinct(joined.name[call]))]
    issued = issued[np.argsort(times.start[issued], kind="stable")]
    last = np.searchsorted(times.start[issued], times.start[waiting], side="right") - 1
    known = is_in(np.append(issued, -1)[last], call) & (len(distinct(device)) == 1)
    waiting = waiting[known]
    return gpu_lag(work, times.start[waiting], end[waiting])


def _linked(joined: Joined, calls: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The operations whose id one call has, and that call; other ids may be of two processes."""
    ids = joined.correlation
    given, first, count = np.unique(ids[calls], return_index=True, return_counts=True)
    given, first = given[count == 1], first[count == 1]
    rows = rows[is_in(ids[rows], given)]
    return rows, calls[first[np.searchsorted(given, ids[rows])]]


def gpu_lag(work: LaunchedWork, wait_start: Ints, wait_end: Ints) -> GpuLag:
    """The offset of the GPU's clock; each wait is for all work launched before it, and for some."""
    if not len(work.start):
        return GpuLag()
    first = np.unique(work.launch, return_index=True)[1]
    delay = (work.start - work.called)[first]
    paused = _after_pause(work)[first]
    # where the GPU is never idle but between steps, the quickest launches are fewer than one of a
    # hundred: those that met it idle, where two agree
    idle = np.sort(delay[paused])
    found = int(np.sort(delay)[(len(delay) - 1) // _OUTLIERS])
    agree = np.flatnonzero(np.diff(idle) <= SPREAD_NS)
    quick = int(idle[agree[0] + 1]) if len(agree) else found
    quickest = quick if quick < found - SPREAD_NS else found
    by_launch = quickest - QUICKEST_NS
    free = paused & (delay <= quickest + SPREAD_NS)
    if free.sum() > 1:
        return GpuLag(by_launch, True)
    # how long after the work that came before it each wait returned
    order = np.argsort(work.called, kind="stable")
    before = np.searchsorted(work.called[order], wait_start, side="right")
    done = np.maximum.accumulate(work.end[order])
    returned = wait_end - done[before - 1]
    waited = returned[wait_end - wait_start > LONG_NS]
    if len(waited):
        return GpuLag(min(by_launch, RETURN_NS - int(waited.min())), True)
    return GpuLag(by_launch, min(quickest, int(returned.min(initial=0))) < 0)


def _after_pause(work: LaunchedWork) -> Bools:
    """Before which operations their device was idle for long."""
    found = np.zeros(len(work.start), np.bool_)
    for device in distinct(work.device).tolist():
        rows = np.flatnonzero(work.device == device)
        busy_until = np.maximum.accumulate(work.end[rows])[:-1]
        found[rows[1:]] = work.start[rows[1:]] - busy_until > PAUSE_NS
    return found
