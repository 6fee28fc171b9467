"""A step or call that a CPU computed: its op tree, what computes, and what only changes metadata.

A CPU has no kernels and no launches: an op that computes does so itself, in the thread that called
it and those that help. Equal parts of the tree below one op are one row with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field

from foretrace.base.tables import Line
from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.look.documents import WHOLE, CpuOpRow, GroupRow
from foretrace.read.compiler import rows as compiled
from foretrace.trace.cpu_ops import computing_ops, cpu_call, cpu_does, runs_on_cpu
from foretrace.trace.intervals import Bools
from foretrace.trace.modules import PYTHON
from foretrace.trace.reach import is_view
from foretrace.trace.trace import Trace
from foretrace.work.families import decode

COMPUTES, METADATA, LOADS = "computes", "metadata only", "loads data"
_LOADER = "enumerate(DataLoader)"
MOST_OPS = 500_000  # of a call; the tree of a longer one is left out
_BIAS = "bias of aten::addmm"


class OpNode(Struct):
    """Equal parts of the op tree: their calls, and what they call in turn."""

    name: str
    events: list[int]
    computes: bool
    below: list[OpNode] = field(default_factory=list)

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for parts that run the same ops."""
        return (self.name, self.computes, *(each.shape for each in self.below))


def cpu_tree(trace: Trace, region: str = "") -> list[CpuOpRow]:
    """The op tree of the call of median length; empty where no CPU computed, or it is too long."""
    if not runs_on_cpu(trace):
        return []
    host, call = trace.host, cpu_call(trace, region)
    loading = host.named(lambda name: name.startswith(_LOADER))
    events = np.flatnonzero((host.is_op | loading) & host.lasting & host.timed)
    if call is not None:
        start = host.start[events]
        events = events[(start >= call.start_ns) & (start < call.end_ns)]
    events = events[np.argsort(host.start[events], kind="stable")]
    computes, callers = computing_ops(trace)
    if not computes[events].any() or len(events) > MOST_OPS:
        return []
    roots = _merged(_nested(trace, events.tolist(), computes))
    length = call.cpu_ns if call else int(host.end[events].max() - host.start[events].min())
    inside = sum(int(host.length[event]) for node in roots for event in node.events)
    title = call.name if call else WHOLE
    first = CpuOpRow(title, 0, 1, length, max(length - inside, 0), "")
    return [first, *(row for node in roots for row in _rows(trace, node, callers, 1))]


def _nested(trace: Trace, events: Sequence[int], computes: Bools) -> list[OpNode]:
    """The ops below each other; an op whose parent began before the call is outermost."""
    host = trace.host
    nodes = {
        event: OpNode(host.names[host.name[event]], [event], bool(computes[event]))
        for event in events
    }
    roots: list[OpNode] = []
    for event, node in nodes.items():
        above = int(host.parent[event])
        while above >= 0 and above not in nodes:
            above = int(host.parent[above])
        (nodes[above].below if above >= 0 else roots).append(node)
    return roots


def _merged(nodes: Sequence[OpNode]) -> list[OpNode]:
    found: dict[tuple[object, ...], OpNode] = {}
    for node in nodes:
        node.below = _merged(node.below)
        known = found.setdefault(node.shape, node)
        if known is not node:
            _add(known, node)
    return list(found.values())


def _add(known: OpNode, other: OpNode) -> None:
    known.events += other.events
    for one, more in zip(known.below, other.below, strict=True):
        _add(one, more)


def _rows(trace: Trace, node: OpNode, callers: Bools, depth: int) -> Iterator[CpuOpRow]:
    host, events = trace.host, node.events
    calls = bool(callers[events[0]])
    does, note = METADATA if is_view(node.name) and not calls else "", ""
    total, inside = int(host.length[events].sum()), [each.events for each in node.below]
    # ranges between two ops are no ops: their time is that of the op around them
    spent = total - sum(int(host.length[called].sum()) for called in inside)
    if node.computes:
        does, note = COMPUTES, _note(trace, node)
    elif node.name.startswith(_LOADER):
        does = LOADS
    yield CpuOpRow(node.name, depth, len(events), total, max(spent, 0), does, note)
    for each in node.below:
        yield from _rows(trace, each, callers, depth + 1)


def _note(trace: Trace, node: OpNode) -> str:
    if _is_generated(node.name):
        ops = [op for op in sorted(cpu_does(node.name)) if not op.endswith("view")]
        return f"one C++ loop for {', '.join(ops)}"
    chain = trace.host.op_chain(int(trace.host.parent[node.events[0]]))
    return _BIAS if node.name == "aten::copy_" and "aten::addmm" in chain else ""


def cpu_groups(tree: Sequence[CpuOpRow]) -> list[GroupRow]:
    """Where the time of the call goes: ops that compute, views, and everything around them."""
    whole = max(tree[0].total_ns, 1)
    names: dict[tuple[str, str], list[CpuOpRow]] = {}
    for row in tree:
        key = (row.name, row.note) if row.does == COMPUTES else (_around(row), "")
        names.setdefault(key, []).append(row)
    rows = [
        GroupRow(
            name,
            time_ns=sum(row.self_ns for row in found),
            share=sum(row.self_ns for row in found) / whole,
            count=sum(row.count for row in found if row.depth),
            limited_by=note,
        )
        for (name, note), found in names.items()
    ]
    return sorted(rows, key=lambda row: -row.time_ns)


def _around(row: CpuOpRow) -> str:
    if row.does == LOADS:
        return "in the DataLoader"  # it waits for workers, or loads by itself
    if not row.depth:
        return PYTHON
    return "views (metadata only)" if row.does == METADATA else "wrappers and allocations"


def cpu_lines(tree: Sequence[CpuOpRow]) -> Iterator[Line]:
    """What a reader of a CPU trace looks for: what computes, what is fused, what is copied."""
    if not tree:
        return
    ops = sum(row.count for row in tree[1:] if row.does != LOADS)
    computing = [row for row in tree if row.does == COMPUTES]
    views = [row for row in tree if row.does == METADATA]
    spent = sum(row.self_ns for row in computing)
    share = percent_text(spent / max(tree[0].total_ns, 1))
    yield Line(
        "CPU",
        f"{count_text(sum(row.count for row in computing))} of {plural(ops, 'op')} compute, "
        f"{time_text(spent)} of {time_text(tree[0].total_ns)} ({share}) in {tree[0].name}; "
        f"{count_text(sum(row.count for row in views))} only change metadata "
        f"({time_text(sum(row.self_ns for row in views))})",
    )
    yield from _unrecorded(tree)
    copies = [row for row in computing if row.note == _BIAS]
    if copies:
        time, calls = sum(row.total_ns for row in copies), sum(row.count for row in copies)
        matmuls = sum(row.total_ns for row in tree if row.name == "aten::addmm")
        yield Line(
            "BIAS",
            f"aten::addmm copies its bias into the output before the matmul adds to it: "
            f"{plural(calls, 'copy', 'copies')}, {time_text(time)} of its {time_text(matmuls)}",
        )


def _unrecorded(tree: Sequence[CpuOpRow]) -> Iterator[Line]:
    """Inductor's C++ kernels are ops only where it was told so before it compiled."""
    regions = [row for row in tree if row.name.startswith(compiled.REGION)]
    if regions and not any(_is_generated(row.name) for row in tree):
        time = time_text(sum(row.self_ns for row in regions))
        yield Line(
            "COMPILED",
            f"the C++ kernels of compiled code are not in the trace: at most {time} of this call. "
            "Set torch._inductor.config.cpp.enable_kernel_profile = True before it compiles",
        )


def _is_generated(name: str) -> bool:
    return decode(name).family == "inductor_cpp"
