"""Rows about serving: prefill and decode apart, by batch, with what bounds them and their floor."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.base.arrays import median
from foretrace.base.units import count_text, percent_text, plural, ratio_text, time_text
from foretrace.model import bounds
from foretrace.model.idle import unrecorded_wait
from foretrace.model.serving import ServedBatch
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.model.utilization import floor, utilization
from foretrace.schema.documents.look import Look, ServingRow
from foretrace.show.overview.page import Line

FLOORS = {
    "memory": "weights and KV cache read once",
    "weights": "weights read once; the KV cache is not known",
    "compute": "its FLOP at the peak",
}
SHOWN = 3  # kinds of batches on the first screen; `--json` has all


def serving_rows(trace: Trace) -> list[ServingRow]:
    """One row for each kind of batch: equal kinds with equally many requests are one."""
    alike: dict[tuple[str, int], list[tuple[Span, ServedBatch]]] = {}
    for span, batch in zip(trace.served.spans, trace.served.batches, strict=True):
        count = batch.prefill.count + batch.decode.count
        alike.setdefault((batch.kind, count), []).append((span, batch))
    wait = unrecorded_wait(trace)
    rows = [row for pairs in alike.values() if (row := _row(trace, pairs, wait)) is not None]
    return sorted(rows, key=lambda row: -row.time_ns * row.batches)


def _row(
    trace: Trace, pairs: list[tuple[Span, ServedBatch]], wait: tuple[int, int] | None
) -> ServingRow | None:
    timed = [(span, batch, time) for span, batch in pairs if (time := bounds.spent(trace, span))]
    timed = [each for each in timed if each[2].busy_ns > 0]
    if not timed:
        return None
    spans = [span for span, _, _ in timed]
    batches = [batch for _, batch, _ in timed]
    contexts = [batch.context for batch in batches if batch.context is not None]
    whole = median(max(time.wall_ns, time.busy_ns) for _, _, time in timed)
    unseen = median(_unrecorded(trace, span, wait) for span in spans)
    wall = max(whole - unseen, 1)
    used, least = utilization(trace, spans), floor(trace, spans)
    first = batches[0]
    return ServingRow(
        kind=first.kind,
        batches=len(timed),
        requests=first.prefill.count + first.decode.count,
        tokens=median(batch.tokens for batch in batches),
        context=median(contexts) if len(contexts) == len(batches) else None,
        time_ns=round(wall),
        gpu_busy_ns=round(median(time.busy_ns for _, _, time in timed)),
        tokens_per_s=median(batch.tokens for batch in batches) / wall * 1e9,
        bound=bounds.of_spans(trace, spans),
        floor_ns=None if least is None else round(least.ns),
        floor_by="" if least is None else least.by,
        mfu=used.mfu_wall and used.mfu_wall * whole / wall,
        mbu=used.mbu_wall and used.mbu_wall * whole / wall,
        profiled=used.profiled,
        unrecorded_ns=round(unseen),
    )


def _unrecorded(trace: Trace, span: Span, wait: tuple[int, int] | None) -> int:
    """How long the host waited in a batch for what the trace does not show."""
    event, ns = wait or (-1, 0)
    inside = event >= 0 and span.start_ns <= trace.host.start[event] < span.end_ns
    return ns if inside else 0


def serving_lines(look: Look) -> Iterator[Line]:
    """One line for each kind of batch, for the kinds that take most time."""
    for row in look.serving[:SHOWN]:
        yield Line(row.kind.upper(), ": ".join(_sentence(row)))


def _sentence(row: ServingRow) -> Iterator[str]:
    mean = "" if row.context is None else count_text(round(row.context / row.requests))
    each = f", mean context {mean}" if mean else ""
    yield f"{plural(row.requests, 'request')}{each}"
    speed = f"{plural(row.tokens, 'token')} in {time_text(row.time_ns)}"
    rate = "" if row.tokens_per_s is None else f", {count_text(round(row.tokens_per_s))} tokens/s"
    more = f" besides {time_text(row.unrecorded_ns)} not recorded" if row.unrecorded_ns else ""
    yield speed + more + rate + "".join(_limits(row))


def _limits(row: ServingRow) -> Iterator[str]:
    if row.floor_ns:
        what = FLOORS[row.floor_by]
        times = row.time_ns / row.floor_ns
        far = ratio_text(times) if times < 10 else f"{times:,.0f}x"
        yield f"; {far} its floor of {time_text(row.floor_ns)} ({what})"
    shares = [("MBU", row.mbu), ("MFU", row.mfu)]
    words = [f"{name} {percent_text(share)}" for name, share in shares if share is not None]
    if words:
        yield f"; {', '.join(words)}"
