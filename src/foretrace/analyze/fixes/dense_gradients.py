"""Sparse gradients for a large embedding.

What it looks for: `embedding_dense_backward` for a table of at least 64 MB of which a step reads at
most a tenth of the rows. The gradient of the whole table is filled with zeros, and the optimizer
goes through all of it.

What must hold: no matmul writes a gradient of the same shape (a table that is the output layer too
has a dense gradient anyway), and the optimizer's kernels state their bytes.

What changes: the fill becomes a write of the rows that were read. The optimizer's time shrinks by
the share of the table in what it moves. `SparseAdam` makes indices unique in small kernels, for
which a fixed time is added.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import Speed, at_speeds, joined, memory_ns, rows_where, total
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import bytes_text
from foretrace.model.order import Case
from foretrace.model.replay import GraphChange

BACKWARD = "aten::embedding_dense_backward"
LARGE = 64 << 20
MOST_READ = 0.1  # of the table's rows
UNIQUE_NS = 150_000
MOST_OF_OPTIMIZER = 0.95
MOVES = 7  # an Adam reads four tensors of the table's size and writes three
RISK = "only SGD, Adagrad and SparseAdam take sparse gradients; momenta of unread rows stay"


class DenseTable(Struct, frozen=True):
    """An embedding's gradient: the op, the bytes of the table, and of the rows that are read."""

    event: int
    size: int
    read: int


def _find(step: Step) -> Iterator[Proposal]:
    tables = [table for event in step.ops(BACKWARD).tolist() if (table := _table(step, event))]
    tables = [table for table in tables if not _tied(step, table)]
    if not tables:
        return
    first = max(tables, key=lambda table: table.size)
    share = f"{100 * first.read / first.size:.1f}%"
    why = f"a gradient of {bytes_text(first.size)} is filled, of which {share} are not zero"
    changes = at_speeds(lambda speed: _sparse(step, tables, speed))
    events = tuple(table.event for table in tables)
    order = "use nn.Embedding(sparse=True) with SparseAdam"
    yield Proposal(order, why, *changes, risk=RISK, events=events)


def _table(step: Step, event: int) -> DenseTable | None:
    """The table of this backward op, where it is large and mostly not read."""
    call = step.call(event)
    grad, count = (call.tensor(0), call.integer(2)) if call else (None, None)
    if not grad or not count or not grad.dims or not grad.bytes:
        return None
    rows = grad.elements // max(grad.dims[-1], 1)
    size = count * grad.bytes // max(rows, 1)
    large = size >= LARGE and rows <= MOST_READ * count
    return DenseTable(event, size, grad.bytes) if large else None


def _tied(step: Step, table: DenseTable) -> bool:
    """Whether a matmul writes a gradient of the same size."""
    writes = lambda case: case.role == "gemm" and case.bytes_written == table.size  # noqa: E731
    return bool(len(rows_where(step, writes)))


def _sparse(step: Step, tables: list[DenseTable], speed: Speed) -> GraphChange:
    fills = joined(_filled(step, table, speed) for table in tables)
    updates = rows_where(step, lambda case: case.role == "optimizer" and bool(case.bytes))
    moved = total(step, updates, lambda case: case.bytes)
    away = min(MOVES * sum(table.size for table in tables), MOST_OF_OPTIMIZER * moved)
    if not moved:
        return fills
    share, length = 1 - away / moved, step.trace.gpu.length
    shorter = {row: float(length[row]) * share for row in updates.tolist()}
    first = int(updates[0])
    shorter[first] = min(shorter[first] + UNIQUE_NS, float(length[first]))
    return joined([fills, GraphChange(length=shorter)])


def _filled(step: Step, table: DenseTable, speed: Speed) -> GraphChange:
    """The fill of the gradient, as long as the rows take that are read."""
    rows = step.below([table.event])
    fills = [row for row in rows.tolist() if (case := step.case(row)) and _is_fill(case)]
    ns = memory_ns(step, speed, table.read)
    return GraphChange(length={row: min(ns, float(step.trace.gpu.length[row])) for row in fills})


def _is_fill(case: Case) -> bool:
    return "fill" in case.op or case.op == "aten::zero_"


FIX = Fix("dense_gradients", "Sparse gradients for an embedding", _find, ("gpu", "shapes"))
