"""Let workers load the data.

What it looks for: time of the step in the DataLoader's own ranges
(`enumerate(DataLoader)#…__next__`): the host makes the next batch itself, or waits for workers that
make it.

What must hold: the range takes a tenth of the step on the host. A batch that is ready costs less.

What changes: of the range remain 50 us, the time to fetch a batch that is ready. At worst eight
workers are not enough: a batch then takes an eighth of the time that it takes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._host import loading, share
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import percent_text, plural
from foretrace.model.replay import GraphChange

READY_NS = 50_000
LEAST = 0.1
WORKERS = 8
ALONE = "SingleProcess"


def _find(step: Step) -> Iterator[Proposal]:
    ranges = loading(step)
    spent = sum(end - start for start, end in ranges)
    if spent < LEAST * step.span.cpu_ns:
        return
    left = share(step, ranges, READY_NS * len(ranges))
    alone = any(ALONE in name for name in _names(step))
    order = f"DataLoader(num_workers={WORKERS}, pin_memory=True)"
    if not alone:
        order = "give the DataLoader more workers, or a lighter transform"
    maker = "the process itself makes" if alone else "the host waits for"
    part = percent_text(spent / step.span.cpu_ns)
    yield Proposal(
        order,
        f"{maker} {plural(len(ranges), 'batch', 'batches')} in {part} of the step",
        GraphChange(removed=ranges, left=left),
        worst=GraphChange(removed=ranges, left=max(left, 1 / WORKERS)),
    )


def _names(step: Step) -> set[str]:
    host = step.trace.host
    return {host.names[name] for name in host.name[step.inside & host.is_region].tolist()}


FIX = Fix("data_loader", "Let workers load the data", _find)
