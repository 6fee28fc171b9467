"""Let workers load the data.

What it looks for: time of the step in the DataLoader's own ranges
(`enumerate(DataLoader)#…__next__`): the host makes the next batch itself, or waits for workers that
make it.

What must hold: the range takes a tenth of the step on the host. A batch that is ready costs less.
On a CPU a batch takes twice what it costs to take one from a worker, and there are two cores.

Workers may have been started within the recording: the DataLoader draws a seed, no op runs for
5 ms, then it samples and asks for the first batch. A step after that waits for their start: more
workers take longer, and `persistent_workers=True` keeps them from epoch to epoch.

What changes: of the range remain 50 us, the time to fetch a batch that is ready. At worst eight
workers are not enough: a batch then takes an eighth of the time that it takes alone.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import percent_text, plural
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._host import LOADER, loading, share
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix
from foretrace.look.fixes.threads import recorded

READY_NS = 50_000
WORKERS = 8
ALONE = "SingleProcess"
ON_CPU, MORE_ON_CPU = (0.75, 1.0, 0.0), (0.5, 0.9, 0.0)  # of the time goes: workers need cores
MOST_ON_CPU = 4
# Taking a small batch from a worker: 1.1 to 1.9 ms of two busy cores (torch 2.13). Workers made a
# step of 3.1 ms with a batch of 0.7 ms take 6.1 ms.
HANDED_NS = 1_000_000
SEED = ("aten::random_", "aten::item", "aten::_local_scalar_dense")
SAMPLER_OPS = 20  # at most, from the start of the workers to the first batch
STARTING_NS = 5_000_000  # at least: two workers took 24 ms to fork (torch 2.13)
KEEP = "DataLoader(persistent_workers=True), or fewer workers"
STARTED = "the step waits for workers that were started in the recording"


def _on_cpu(step: CpuStep) -> Proposals:
    named = step.trace.host.named(lambda name: LOADER.match(name) is not None)
    long = step.trace.host.length >= 2 * HANDED_NS
    found = step.outermost(named & step.inside & long).tolist()
    single = [event for event in found if ALONE in step.name(event)]
    workers = min(recorded(step.trace)[1] or MOST_ON_CPU, MOST_ON_CPU)
    if single and workers > 1:
        why = "the step makes its batch itself (num_workers=0)"
        yield step.proposal(f"DataLoader(num_workers={workers})", why, single, ON_CPU)
    elif found and not single:
        why = "the step waits for the DataLoader's workers"
        said = (KEEP, STARTED) if started(step) else ("more DataLoader workers", why)
        yield step.proposal(*said, found, MORE_ON_CPU)


@fix("Let workers load the data", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    host, ranges = step.trace.host, loading(step)
    spent = sum(end - start for start, end in ranges)
    if spent < 0.1 * step.span.cpu_ns:
        return
    left = share(step, ranges, READY_NS * len(ranges))
    names = {host.names[name] for name in host.name[step.inside & host.is_region].tolist()}
    alone = any(ALONE in name for name in names)
    order = f"DataLoader(num_workers={WORKERS}, pin_memory=True)"
    if not alone and started(step):
        order = KEEP
    elif not alone:
        order = "give the DataLoader more workers, or a lighter transform"
    maker = "the process itself makes" if alone else "the host waits for"
    part = percent_text(spent / step.span.cpu_ns)
    why = f"{maker} {plural(len(ranges), 'batch', 'batches')} in {part} of the step"
    worst = GraphChange(ranges, max(left, 1 / WORKERS))
    yield Proposal(order, why, GraphChange(ranges, left), worst=worst)


def started(step: Step) -> bool:
    """Whether a DataLoader started workers in the recording, before or in this step."""
    host = step.trace.host
    loads = host.named(lambda name: LOADER.match(name) is not None)
    known = np.flatnonzero(host.lasting & (host.is_op | loads) & (host.start < step.span.end_ns))
    known = step.in_order(known)
    pauses = host.start[known[1:]] - np.maximum.accumulate(host.end[known])[:-1]
    for at in (np.flatnonzero(pauses >= STARTING_NS) + 1).tolist():
        before, behind = known[max(at - len(SEED), 0) : at], known[at : at + SAMPLER_OPS]
        first = behind[loads[behind]][:1].tolist()
        if tuple(map(step.name, before)) == SEED and any(ALONE not in step.name(x) for x in first):
            return True
    return False
