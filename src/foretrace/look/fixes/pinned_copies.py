"""Copy from pinned memory, without waiting.

What it looks for: large copies from pageable memory of the host, which hold the host until the data
is read, and large copies to it.

What must hold: each step makes them, with tensors of recorded shapes. A copy to the host is waited
for as before, because the host reads its result.

What changes: the link moves the bytes at its own speed, and the host goes on at once, so that the
copy runs while the GPU works on what came before. Pinning a tensor costs a copy on the host: a
DataLoader does that in a thread of its own.
"""

from __future__ import annotations

from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._host import HostCopy, host_copies, link_rate
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix

LOADER = "enumerate(DataLoader)"
SLOW = 0.5  # of the link's speed, where a host does not reach it


@fix("Copy from pinned memory", "gpu shapes")
def _find(step: Step) -> Proposals:
    up = [each for each in host_copies(step, "HtoD") if each.pageable]
    if up:
        loaded = step.trace.host.named(lambda name: name.startswith(LOADER)) & step.inside
        pin = "DataLoader(pin_memory=True)" if loaded.any() else "x.pin_memory() once"
        yield _proposal(step, up, f"{pin}, then .to('cuda', non_blocking=True)", "from")
    down = [each for each in host_copies(step, "DtoH") if each.pageable]
    if down:
        yield _proposal(step, down, "copy into a pinned buffer (buffer.copy_(x))", "to")


def _proposal(step: Step, copies: list[HostCopy], order: str, way: str) -> Proposal:
    size = bytes_text(sum(each.bytes for each in copies))
    what = plural(len(copies), "copy", "copies")
    free = step.waits_below([each.op for each in copies if way == "from"])

    def at(rate: float) -> GraphChange:
        new = {each.row: min(step.ns([each.row]), each.bytes / rate * 1e9) for each in copies}
        return GraphChange(length=new, unwaited=free)

    why = f"the host waits in {what} per step {way} pageable memory ({size})"
    change, worst = at(link_rate(step)), at(SLOW * link_rate(step))
    events = step.events([each.row for each in copies])
    return Proposal(order, why, change, worst=worst, events=events)
