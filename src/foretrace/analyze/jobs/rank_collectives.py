"""The collectives of one rank: message, group, and what the rank did before each.

What the profiler writes beside a kernel, or beside the op that launched it, is read once, in
`model/collectives.py`. Where it wrote nothing, the `c10d` op above the launch names the collective,
else the kernel's name: NCCL's all-to-all runs the kernel of sends and receives. A backend on the
host (gloo) annotates a range for each collective, with the sizes of its tensor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from foretrace.analyze.jobs.rank_time import COMMS, Doing, RankWork, Windows, host_comms
from foretrace.base.units import whole
from foretrace.model.collectives import message_sizes, named
from foretrace.model.costs.copy import ELEMENT_TYPES
from foretrace.model.intervals import Ints
from foretrace.names import families
from foretrace.schema.jobs import JobGroup
from foretrace.schema.tables import NONE

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_BEFORE = ("compute_ns", "copy_ns", "comms_ns", "idle_ns", "data_ns")
_STATED = (
    "dtype", "in_bytes", "out_bytes", "message_bytes", "group_size", "seq", "comms_id",
)  # fmt: skip
_ASKED = ("c10d::", "c10d_functional::", "_c10d_functional::")
# in and out are equal: the message is the tensor
_OF_ONE_SIZE = ("all-reduce", "broadcast", "reduce", "send", "receive")
_WRITTEN = {own: (name, size) for name, (own, size) in ELEMENT_TYPES.items()}


def collectives_table(trace: Trace, work: RankWork, found: Windows, now: Doing) -> pl.DataFrame:
    """The table `collectives`, in order of launch."""
    # one part and no query as a rule: a query over a few rows takes longer than the rows
    parts = [_on_host(trace, found)] if len(host_comms(trace)) or work.on_host else []
    if not work.on_host:
        parts.append(_on_gpu(trace, work, found))
    frame = pl.concat(parts, how="diagonal_relaxed") if len(parts) > 1 else parts[0]
    frame = frame[np.lexsort([frame[name].to_numpy() for name in ("id", "start_ns", "launch_ns")])]
    order, since = _since(frame, found)
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    before = now.between(since, start)
    before["comms_ns"] -= before["both_ns"]  # the five times add up
    alone = end - start - now.compute.between(start, end)
    columns = {"order": order, "since_ns": since, "alone_ns": alone}
    columns |= {name: before[name] for name in _BEFORE}
    return frame.hstack([pl.Series(name, values) for name, values in columns.items()])


def _since(frame: pl.DataFrame, found: Windows) -> tuple[list[int], Ints]:
    """The place of each in its group, and when the one before it in the group ended; for the first
    of a group, when its step began.
    """
    begins = dict(zip(found.number.tolist(), found.window_start.tolist(), strict=True))
    counts, ends = Counter[str | None](), dict[str | None, int]()
    order, since = [], []
    for group, step, start, end in zip(
        *(frame[name].to_list() for name in ("group", "step", "start_ns", "end_ns")), strict=True
    ):
        order.append(counts[group])
        since.append(min(ends.get(group, begins.get(step, start)), start))
        counts[group] += 1
        ends[group] = end
    return order, np.array(since, np.int64)


def _on_gpu(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    gpu, host, chosen = trace.gpu, trace.host, work.kind == COMMS
    rows, event = work.row[chosen], work.event[chosen]
    names, asked = host.name[event].tolist(), _ops(trace, gpu.op[rows])
    told = {name: _told(host.names[name]) for name in set(names)}
    stated = message_sizes(trace, event, gpu.op[rows])
    kinds = [
        kind or op or told[name]
        for kind, op, name in zip(stated["collective"], asked, names, strict=True)
    ]
    others = zip(kinds, stated["target_rank"], stated["source_rank"], strict=True)
    peers = [to if kind == "send" else source for kind, to, source in others]
    return pl.DataFrame(
        {
            "id": event,
            "step": found.numbers(found.owner[chosen]),
            "group": stated["group_name"],
            "collective": pl.Series(kinds, dtype=pl.String),
            **{name: stated[name] for name in _STATED},
            "peer": pl.Series(peers, dtype=pl.Int64),
            "on_host": np.zeros(len(rows), bool),
            "stream": gpu.stream[rows],
            "launch_ns": gpu.launched[rows],
            "ready_ns": _ready(trace, work, rows),
            "start_ns": gpu.start[rows],
            "end_ns": gpu.end[rows],
        }
    )


def _ready(trace: Trace, work: RankWork, rows: Ints) -> Ints:
    """When the compute and copies are over that were launched before each collective.

    NONE where other work, on a stream that it does not wait for, runs on when it starts.
    """
    gpu = trace.gpu
    other = work.row[(work.kind != COMMS) & (gpu.launch[work.row] >= 0)]
    other = other[np.argsort(gpu.launched[other], kind="stable")]
    before = np.searchsorted(gpu.launched[other], gpu.launched[rows]) - 1
    over = np.append(np.maximum.accumulate(gpu.end[other]), NONE)[before]
    known = (before >= 0) & (gpu.launch[rows] >= 0) & (over <= gpu.start[rows])
    return np.where(known, over, NONE)


def _ops(trace: Trace, ops: Ints) -> list[str | None]:
    """The collective that the `c10d` op above each op names."""
    host = trace.host
    ranges = host.is_kind("user_annotation", "cpu_op")
    above = host.nearest(ops, host.named(lambda name: name.startswith(_ASKED), ranges)).tolist()
    kinds = [named(host.names[host.name[op]]) if op >= 0 else None for op in above]
    return [kind[0] if kind else None for kind in kinds]


def _told(kernel: str) -> str | None:
    """The collective that a kernel's name states; sends and receives have one kernel."""
    told = families.decode(kernel).fields.get("coll")
    kind = named(str(told)) if told else None
    return "send-receive" if told == "SendRecv" else kind[0] if kind else None


def _on_host(trace: Trace, found: Windows) -> pl.DataFrame:
    host, rows = trace.host, host_comms(trace)
    kinds = [_kind(host.names[name].partition(":")[2]) for name in host.name[rows].tolist()]
    sizes = [_message(trace, *pair) for pair in zip(rows.tolist(), kinds, strict=True)]
    groups, asked = groups_of(trace), _asked(trace, rows, kinds)
    only = groups[0] if len(groups) == 1 else JobGroup("")  # which of several is not recorded
    peers = [_peer(trace, op, groups) for op in asked]
    return pl.DataFrame(
        {
            "id": rows,
            "step": found.numbers(found.at(host.start[rows])),
            "group": pl.repeat(only.name or None, len(rows), dtype=pl.String, eager=True),
            "group_size": pl.repeat(only.size, len(rows), dtype=pl.Int64, eager=True),
            "collective": pl.Series(kinds, dtype=pl.String),
            "dtype": pl.Series([dtype for dtype, _ in sizes], dtype=pl.String),
            "message_bytes": pl.Series([size for _, size in sizes], dtype=pl.Int64),
            "peer": pl.Series(peers, dtype=pl.Int64),
            "on_host": np.ones(len(rows), bool),
            "stream": host.track[rows].astype(np.int64),
            "launch_ns": np.minimum(host.start[rows], host.start[asked]),
            "start_ns": host.start[rows],
            "end_ns": host.end[rows],
        }
    )


def _kind(name: str) -> str:
    kind = named(name)
    return kind[0] if kind else name.removeprefix("c10d::")


def _message(trace: Trace, event: int, kind: str) -> tuple[str | None, int | None]:
    """Type and bytes of the tensor that a host collective was given."""
    found = trace.arguments.of(event)
    if found is None or not found.tensors:
        return None, None
    dtype, size = _WRITTEN.get(found.types[0] if found.types else "", (None, 0))
    known = dtype and kind in _OF_ONE_SIZE
    return dtype, math.prod(found.tensors[0]) * size if known else None


def _asked(trace: Trace, rows: Ints, kinds: list[str]) -> list[int]:
    """The `c10d` op in which the program called each, where every one has its own."""
    host, found = trace.host, list(map(int, rows))
    ops = np.flatnonzero(host.named(lambda name: name.startswith("c10d::"), host.is_op))
    asked = [_kind(host.names[name]) for name in host.name[ops].tolist()]
    for kind in set(kinds):
        mine = [at for at, each in enumerate(kinds) if each == kind]
        own = [op for op, each in zip(ops.tolist(), asked, strict=True) if each == kind]
        for at, op in zip(mine, own, strict=True) if len(mine) == len(own) else ():
            found[at] = op
    return found


def _peer(trace: Trace, op: int, groups: Sequence[JobGroup]) -> int | None:
    """The rank that `c10d::send` or `c10d::recv_` was given: a place in a group. Which group it was
    is not recorded, so all must give the same rank.
    """
    name, found = trace.host.names[trace.host.name[op]], trace.arguments.of(op)
    if not name.startswith(("c10d::send", "c10d::recv_")) or found is None:
        return None
    place = whole(found.concrete[2]) if len(found.concrete) > 2 else None
    members = [each.ranks or range(each.size or 0) for each in groups]
    ranks = {each[place] for each in members if place is not None and 0 <= place < len(each)}
    return ranks.pop() if len(ranks) == 1 else None


def groups_of(trace: Trace) -> tuple[JobGroup, ...]:
    """The process groups that the header names."""
    info = trace.tables.header.get("distributedInfo")
    listed = info.get("pg_config") if isinstance(info, dict) else None
    entries = listed if isinstance(listed, list) else []
    return tuple(_group(each) for each in entries if isinstance(each, dict))


def _group(entry: dict[str, Any]) -> JobGroup:
    ranks, size = entry.get("ranks"), entry.get("pg_size")
    members = ranks if isinstance(ranks, list) else []
    return JobGroup(
        str(entry.get("pg_name", "")),
        str(entry.get("pg_desc") or ""),
        size if isinstance(size, int) else None,
        tuple(rank for rank in members if isinstance(rank, int)),
    )
