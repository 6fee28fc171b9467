"""The tables `spans`, `host` and `kernels` of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import polars as pl

from foretrace.analyze.jobs.gpu_time import COMMS, COPY, KINDS, RankWork, data_ranges, host_comms
from foretrace.analyze.jobs.windows import Windows
from foretrace.model.arguments import Signature, distinct_lists, json_text
from foretrace.model.intervals import Bools, Ints
from foretrace.names import families
from foretrace.schema.gaps import with_gaps
from foretrace.schema.jobs import PAUSE_NS

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_MOST_TEXT = 160  # characters of sizes; what follows is told apart by a checksum


def spans_table(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    """Work of one kind, step and stream without a pause; each is named after its longest part."""
    host, gpu = trace.host, trace.gpu
    lane = host.track[work.event].astype(np.int64) if work.on_host else gpu.lane[work.row]
    order = np.lexsort((work.end, work.start, lane))
    lane, event, kind, start, end, owner = (
        each[order] for each in (lane, work.event, work.kind, work.start, work.end, found.owner)
    )
    stream = lane if work.on_host else gpu.stream[work.row][order]
    first = np.flatnonzero(_opens(lane, kind, owner, start, end))
    number = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(start))))
    longest = np.lexsort((-np.arange(len(start)), end - start, number))
    longest = longest[np.append(first[1:], len(start)) - 1] if len(first) else longest
    names = host.name[event[longest]]
    short = {at: families.decode(host.names[at]).short for at in np.unique(names).tolist()}
    return pl.DataFrame(
        {
            "step": found.numbers(owner[first]),
            "kind": pl.Series(KINDS, dtype=pl.String)[kind[first]],
            "stream": stream[first],
            "start_ns": start[first],
            "end_ns": np.maximum.reduceat(end, first) if len(first) else end,
            "count": np.diff(np.append(first, len(start))),
            "name": pl.Series([short[name] for name in names.tolist()], dtype=pl.String),
            "collective": with_gaps(event[first], kind[first] == COMMS),
        }
    )


def _opens(lane: Ints, kind: Ints, owner: Ints, start: Ints, end: Ints) -> Bools:
    """Which work begins a span; it is sorted by lane and time."""
    opens = np.ones(len(start), bool)
    if not len(start):
        return opens
    shift = lane * (int(end.max()) - int(start.min()) + 1) - int(start.min())
    reach = np.maximum.accumulate(end + shift) - shift  # of the lane so far
    changes = [each[1:] != each[:-1] for each in (lane, kind, owner)]
    pauses, talks = start[1:] - reach[:-1] > PAUSE_NS, kind[1:] == COMMS
    opens[1:] = np.logical_or.reduce([*changes, pauses, talks])
    return opens


def host_table(trace: Trace, found: Windows) -> pl.DataFrame:
    """What the host waits for: data, the GPU, collectives on the host."""
    host = trace.host
    waits = np.flatnonzero(host.is_wait & host.lasting & (host.length > PAUSE_NS))
    kinds = {"data": data_ranges(trace), "sync": waits, "comms": host_comms(trace)}
    event = np.concatenate(list(kinds.values()))
    order = np.argsort(host.start[event], kind="stable")
    event = event[order]
    kind = np.repeat(np.arange(len(kinds)), [len(each) for each in kinds.values()])[order]
    return pl.DataFrame(
        {
            "step": found.numbers(found.at(host.start[event])),
            "kind": pl.Series(list(kinds), dtype=pl.String)[kind],
            "start_ns": host.start[event],
            "end_ns": host.end[event],
            "name": pl.Series(
                [host.names[at] for at in host.name[event].tolist()], dtype=pl.String
            ),
        }
    )


def kernels_table(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    """The kernels of the whole steps by name and sizes; of all steps where none is whole."""
    host, steps = trace.host, found.whole if found.whole.any() else np.ones_like(found.whole)
    chosen = (found.owner >= 0) & steps[found.owner] & (work.kind != COPY) & (not work.on_host)
    sizes, texts = _sizes(trace, work.row[chosen])
    frame = pl.DataFrame(
        {
            "name": host.name[work.event[chosen]],
            "size": sizes,
            "ns": (work.end - work.start)[chosen],
        }
    )
    counted = frame.group_by("name", "size").agg(
        pl.len().alias("count"), pl.col("ns").sum().alias("total_ns")
    )
    ids = [families.decode(host.names[name]) for name in counted["name"].to_list()]
    return counted.select(
        pl.Series("name", [each.name for each in ids], pl.String),
        pl.Series("short", [each.short for each in ids], pl.String),
        pl.Series("role", [each.role for each in ids], pl.String),
        pl.Series("signature", [texts[size] for size in counted["size"].to_list()], pl.String),
        "count",
        "total_ns",
        (pl.col("count") / int(steps.sum())).alias("per_step"),
    ).sort("name", "signature")


def _sizes(trace: Trace, rows: Ints) -> tuple[Ints, list[str]]:
    """A number for the sizes of each kernel's op, and their text; without sizes, the grid's."""
    arguments, gpu = trace.origins.arguments, trace.gpu
    stated = arguments.numbers(trace.origins.op[rows])
    grids, grid = distinct_lists(
        trace.tables["gpu"]["grid"].gather(np.maximum(gpu.side_row[rows], 0))
    )
    texts = [_text(each) for each in arguments.signatures]
    texts += [f"grid {json_text(each)}" if each else "" for each in grids]
    distinct = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    number = np.array([distinct[text] for text in texts], np.int64)
    place = np.where(stated >= 0, stated, len(arguments.signatures) + grid)
    return number[place] if len(rows) else place, list(distinct)


def _text(signature: Signature) -> str:
    text = json_text([size for size in signature.dims if size])
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… {crc32(text.encode()):08x}"
