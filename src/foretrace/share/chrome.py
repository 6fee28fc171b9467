"""A trace written out again as the JSON that profilers and Perfetto read, field by field from a
list of what may be in it.

Nothing is copied from the file the trace was read from: every record is made from the tables, so a
field that is not named here cannot get out.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from foretrace.model.arguments import Signature
from foretrace.model.trace import Trace
from foretrace.share.words import Words

# Side table -> {column: key of `args`}. Numbers and launch sizes only; texts are listed apart.
NUMBERS = {
    "gpu": {
        "device": "device",
        "stream": "stream",
        "registers": "registers per thread",
        "shared_memory": "shared memory",
        "blocks_per_sm": "blocks per SM",
        "warps_per_sm": "warps per SM",
        "occupancy": "est. achieved occupancy %",
        "graph_id": "graph id",
        "graph_node": "graph node id",
        "bytes": "bytes",
    },
    "autograd": {"sequence": "Sequence number", "forward_thread": "Fwd thread id"},
    "comms": {
        "in_elements": "In msg nelems",
        "out_elements": "Out msg nelems",
        "group_size": "Group size",
    },
    "syncs": {
        "stream": "stream",
        "wait_stream": "wait_on_stream",
        "wait_record": "wait_on_cuda_event_record_corr_id",
    },
    "memory": {
        "device_type": "Device Type",
        "device_id": "Device Id",
        "bytes": "Bytes",
        "total_allocated": "Total Allocated",
        "total_reserved": "Total Reserved",
    },
}
TEXTS = {
    "comms": {"collective": "Collective name", "dtype": "dtype"},
    "syncs": {"sync_kind": "cuda_sync_kind"},
    "triton": {"backend": "kernel_backend", "num_warps": "num_warps", "num_stages": "num_stages"},
}
STACKS = {"stacks": {"call_stack": "Call stack", "module_path": "Module Hierarchy"}}
HEADER = (
    "schemaVersion",
    "record_shapes",
    "profile_memory",
    "with_flops",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "cupti_version",
)
CARD = (
    "id",
    "totalGlobalMem",
    "computeMajor",
    "computeMinor",
    "maxThreadsPerBlock",
    "maxThreadsPerMultiprocessor",
    "regsPerBlock",
    "warpSize",
    "sharedMemPerBlock",
    "numSms",
    "regsPerMultiprocessor",
    "sharedMemPerBlockOptin",
    "sharedMemPerMultiprocessor",
)
KINDS = (
    "cpu_op",
    "user_annotation",
    "gpu_user_annotation",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "overhead",
    "cuda_sync",
    "cuda_event",
)
_TYPE = re.compile(
    r"(?:c10::\w{1,24}|(?:unsigned |signed )?(?:char|short|int|long|long long)(?: "
    r"int)?|float|double|bool|Scalar"
    r"|ScalarList|TensorList|GenericList|Tensor|Device|Generator|None|)"
)
_FLOWS = 1 << 40  # ids of launch arrows, apart from every other id


def write(
    trace: Trace,
    path: Path,
    words: Words,
    keep: frozenset[str] = frozenset(),
    extra: Iterable[dict[str, Any]] = (),
) -> int:
    """Write the trace as `.json.gz`; `extra` records follow its own. Returns how many records were
    written.
    """
    header = header_of(trace, words, keep)
    count = 0
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.write(json.dumps(header).encode()[:-1] + b',"traceEvents":[\n')
        for record in _chained(records(trace, words, keep), extra):
            file.write((b",\n" if count else b"") + json.dumps(record).encode())
            count += 1
        file.write(b"\n]}\n")
    return count


def _chained(*parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from part


def header_of(trace: Trace, words: Words, keep: frozenset[str]) -> dict[str, Any]:
    """What the document says about itself: the card, the versions, the rank, and where times count
    from.
    """
    found = trace.tables.header
    header: dict[str, Any] = {
        name: found[name] for name in HEADER if isinstance(found.get(name), int)
    }
    cards = found.get("deviceProperties")
    header["deviceProperties"] = [
        {"name": words.clean(str(card.get("name", "")))}
        | {name: card[name] for name in CARD if isinstance(card.get(name), int)}
        for card in (cards if isinstance(cards, list) else [])
        if isinstance(card, dict)
    ]
    if trace.about.rank is not None:
        header["distributedInfo"] = {"rank": trace.about.rank, "world_size": trace.about.world_size}
    if "stacks" in keep:
        header["with_stack"] = 1
    if trace.tables.base_ns is not None:
        header["baseTimeNanoseconds"] = trace.tables.base_ns
    return header


def records(trace: Trace, words: Words, keep: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Tracks, then every event that may be shared, each with an arrow from its launch."""
    places = places_of(trace)
    yield from _tracks(trace, places, words, keep)
    arguments = _Arguments(trace, words, keep)
    kinds = {*KINDS, *(("python_function",) if "stacks" in keep else ())}
    base = trace.tables.base_ns or 0
    wanted = trace.events.select(
        "id", "ts_ns", "dur_ns", "kind", "name", "track", "correlation", "external_id"
    )
    for event, ts, dur, kind, name, track, correlation, external in wanted.iter_rows():
        if kind not in kinds or ts is None or dur is None:
            continue
        pid, tid = places[track]
        args = (
            arguments.of(event)
            | ({} if correlation is None else {"correlation": correlation})
            | ({} if external is None else {"External id": external})
        )
        yield complete(kind, words.clean(name), pid, tid, ts - base, dur, args)
    yield from _arrows(trace, places, base)


def complete(
    category: str, name: str, pid: int, tid: int, ts_ns: int, dur_ns: int, args: dict[str, Any]
) -> dict[str, Any]:
    """One record that lasts; times in microseconds, exact to the nanosecond."""
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts_ns / 1000,
        "dur": dur_ns / 1000,
        "args": args,
    }


def places_of(trace: Trace) -> list[tuple[int, int]]:
    """A numeric pid and tid for every track; where the file has words (they may name a host) a
    number stands in.
    """
    rows = trace.tracks.select("id", "pid", "tid").iter_rows()
    return [(_number(pid, 1_000_000 + track), _number(tid, track)) for track, pid, tid in rows]


def _number(text: str | None, instead: int) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,15}", text) else instead


def _tracks(
    trace: Trace, places: list[tuple[int, int]], words: Words, keep: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Names of processes and threads: those of the machine only when hosts are kept, else what they
    are.
    """
    gpu = {int(track) for track in set(trace.host.track[trace.gpu.id].tolist())}
    for row in trace.tracks.iter_rows(named=True):
        pid, tid = places[row["id"]]
        on_gpu = row["id"] in gpu
        named = words.clean(row["thread"]) if "hosts" in keep and row["thread"] else f"thread {tid}"
        thread = f"stream {tid}" if on_gpu else named
        yield {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "tid": 0,
            "args": {"name": f"GPU {pid}" if on_gpu else "python"},
        }
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _arrows(trace: Trace, places: list[tuple[int, int]], base: int) -> Iterator[dict[str, Any]]:
    host, gpu = trace.host, trace.gpu
    for event, launch, usable in zip(
        gpu.id.tolist(), gpu.launch.tolist(), gpu.usable.tolist(), strict=True
    ):
        if launch >= 0 and usable and host.timed[launch]:
            for phase, end, more in (("s", launch, {}), ("f", event, {"bp": "e"})):
                pid, tid = places[int(host.track[end])]
                yield {
                    "ph": phase,
                    "id": _FLOWS + event,
                    "cat": "ac2g",
                    "name": "ac2g",
                    "pid": pid,
                    "tid": tid,
                    "ts": (int(host.start[end]) - base) / 1000,
                } | more


class _Arguments:
    """The `args` of every event, from the side tables."""

    def __init__(self, trace: Trace, words: Words, keep: frozenset[str]) -> None:
        self._found: dict[int, dict[str, Any]] = {}
        self._take(trace, NUMBERS, lambda value: value)
        self._take(trace, TEXTS, lambda value: words.clean(str(value)))
        self._take_lists(trace, words, keep)
        if "inputs" in keep:
            self._take(
                trace,
                {"triton": {"kwargs": "kernel_kwargs"}},
                lambda value: _cleaned(_parsed(value), words),
            )
        if "stacks" in keep:
            self._take(trace, STACKS, lambda value: _cleaned(_parsed(value), words))

    def _take(
        self, trace: Trace, tables: dict[str, dict[str, str]], shown: Callable[[Any], Any]
    ) -> None:
        known: dict[Any, Any] = {}
        for table, columns in tables.items():
            for column, key in columns.items():
                for event, value in trace.tables[table].select("event", column).iter_rows():
                    if value is None:
                        continue
                    if value not in known:
                        known[value] = shown(value)
                    self._found.setdefault(event, {})[key] = known[value]

    def _take_lists(self, trace: Trace, words: Words, keep: frozenset[str]) -> None:
        """Sizes and types are lists of numbers and of type names: nothing else passes."""
        shown = [_arguments(form, words, keep) for form in trace.arguments.signatures]
        for event, signature in trace.tables["shapes"].iter_rows():
            self._found.setdefault(event, {}).update(shown[signature])
        for event, grid, block in trace.tables["gpu"].select("event", "grid", "block").iter_rows():
            sizes = {"grid": grid, "block": block}
            self._found.setdefault(event, {}).update({k: v for k, v in sizes.items() if v})

    def of(self, event: int) -> dict[str, Any]:
        return self._found.get(event, {})


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _arguments(form: Signature, words: Words, keep: frozenset[str]) -> dict[str, Any]:
    more = {
        "Input Strides": [size or [] for size in form.strides],
        "Input type": [name if _TYPE.fullmatch(name) else "" for name in form.types],
        "Concrete Inputs": _cleaned(form.concrete, words) if "inputs" in keep else [],
    }
    given = {key: value for key, value in more.items() if value}
    return {"Input Dims": [size or [] for size in form.dims]} | given


def _cleaned(value: Any, words: Words) -> Any:
    if isinstance(value, dict):
        return {words.clean(str(key)): _cleaned(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, words) for item in value]
    return words.clean(value) if isinstance(value, str) else value
