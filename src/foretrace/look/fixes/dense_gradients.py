"""Sparse gradients for a large embedding.

What it looks for: `embedding_dense_backward` for a table of at least 64 MB (on a CPU 1 MB) of which
a step reads at most a tenth of the rows. The gradient of the whole table is filled with zeros, and
the optimizer goes through all of it.

What must hold: no matmul writes a gradient of the same shape (a table that is the output layer too
has a dense gradient anyway), and the optimizer's kernels state their bytes.

What changes: the fill becomes a write of the rows that were read. The optimizer's time shrinks by
the share of the table in what it moves. `SparseAdam` makes indices unique in small kernels, for
which a fixed time is added. On a CPU nine tenths of the ops on tensors of the table's shape go.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.base.units import bytes_text
from foretrace.look.fixes._changes import Speed, at_speeds, joined
from foretrace.look.fixes._cpu import MATMULS, CpuStep, dense
from foretrace.look.fixes._step import Case, GraphChange, Proposal, Proposals, Step, fix

BACKWARD = "aten::embedding_dense_backward"
LARGE, LARGE_ON_CPU = 64 << 20, 1 << 20
ON_CPU = (0.9, 0.97, 0.5)  # of the time of ops on the whole table
UNIQUE_NS = 150_000
MOST_OF_OPTIMIZER = 0.95
MOVES = 7  # an Adam reads four tensors of the table's size and writes three
READS = ("embedding", "index_select", "index")
ORDER = "use nn.Embedding(sparse=True) with SparseAdam"
RISK = "only SGD, Adagrad and SparseAdam take sparse gradients; momenta of unread rows stay"


class DenseTable(Struct, frozen=True):
    """An embedding's gradient: the op, the bytes of the table, and of the rows that are read."""

    event: int
    size: int
    read: int
    dims: tuple[int, ...]

    @property
    def why(self) -> str:
        """What is filled for nothing."""
        share = f"{100 * self.read / self.size:.1f}%"
        return f"a gradient of {bytes_text(self.size)} is filled, of which {share} are not zero"


def _on_cpu(step: CpuStep) -> Proposals:
    """The ops on tensors of a table's shape: its gradient, its momenta, its update."""
    calls = step.arguments
    products = (call for at, call in calls.items() if step.bare(at) in MATMULS)
    tied = {tuple(sorted(each.dims)) for call in products for each in dense(call)}
    found = [_table(step, event, LARGE_ON_CPU) for event in step.ops(BACKWARD).tolist()]
    tables = [table for table in found if table and tuple(sorted(table.dims)) not in tied]
    shapes = {table.dims for table in tables}
    events = [at for at, call in calls.items() if any(t.dims in shapes for t in dense(call)[:1])]
    events = [at for at in events if step.bare(at) not in READS]
    if tables and events:
        why = max(tables, key=lambda table: table.size).why
        yield step.proposal(ORDER, why, events, ON_CPU, RISK)


@fix("Sparse gradients for an embedding", "gpu shapes", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    tables = [table for event in step.ops(BACKWARD).tolist() if (table := _table(step, event))]
    # a matmul that writes a gradient of the same size has the table too
    tied = {case.bytes_written for case in step.cases if case.role == "gemm"}
    tables = [table for table in tables if table.size not in tied]
    if not tables:
        return
    first = max(tables, key=lambda table: table.size)
    changes = at_speeds(lambda speed: _sparse(step, tables, speed))
    events = tuple(table.event for table in tables)
    yield Proposal(ORDER, first.why, *changes, risk=RISK, events=events)


def _table(step: Step, event: int, least: int = LARGE) -> DenseTable | None:
    """The table of this backward op, where it is large and mostly not read."""
    call = step.call(event)
    grad, count = call.tensor(0), call.integer(2)
    if not grad or not count or not grad.dims or not grad.bytes:
        return None
    rows = grad.elements // max(grad.dims[-1], 1)
    size = count * grad.bytes // max(rows, 1)
    large = size >= least and rows <= 0.1 * count  # of the table's rows
    return DenseTable(event, size, grad.bytes, (count, grad.dims[-1])) if large else None


def _sparse(step: Step, tables: list[DenseTable], speed: Speed) -> GraphChange:
    def is_fill(case: Case | None) -> bool:
        return case is not None and ("fill" in case.op or case.op == "aten::zero_")

    def filled(table: DenseTable) -> GraphChange:
        """The fill of the gradient, as long as the rows take that are read."""
        ns, rows = step.memory_ns(speed, table.read), step.below([table.event]).tolist()
        fills = [row for row in rows if is_fill(step.case(row))]
        return GraphChange(length={row: min(ns, step.ns([row])) for row in fills})

    fills = joined(map(filled, tables))
    updates = step.rows_where(lambda case: case.role == "optimizer" and bool(case.bytes))
    moved = step.total(updates, lambda case: case.bytes)
    if not moved:
        return fills
    away = min(MOVES * sum(table.size for table in tables), MOST_OF_OPTIMIZER * moved)
    shorter, first = step.shorter(updates.tolist(), 1 - away / moved), int(updates[0])
    shorter.length[first] = min(shorter.length[first] + UNIQUE_NS, step.ns([first]))
    return joined([fills, shorter])
