"""The kernels that TorchInductor generated, and the ops they stem from.

What it shows: for every kernel that Inductor generated, its origin ops, with views listed apart,
how often it ran and how long.

Why it matters: this is what `torch.compile` did to the model. Ops that share a kernel need not pass
tensors to each other through memory.

How it is computed: from the kernel's name, which lists the ops of the graph that the kernel stems
from, in alphabetical order (not in the order of execution), and its kind: pointwise, reduction,
persistent reduction, or template (a matmul or attention written in Triton). One `kernel_hash` is
one kernel, however often and with whatever shapes it runs.

When it is wrong: an origin op need not run in the kernel, or not all of it. `addmm` in the name of
a pointwise kernel means that something of that op ended up there, often its bias. Where the trace
has kernels of a library for matmuls or attention, such ops are left out of kernels that are not
templates. The compiler's records beside the trace (`foretrace record --why`) map each kernel to the
ops and lines of the program; they replace the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from foretrace.analyze.rules._common import (
    LISTED,
    compiled_lines,
    compiled_ops,
    each,
    per,
    shortened,
    together,
)
from foretrace.base.units import plural, time_text, times_text
from foretrace.model.order import Case
from foretrace.model.reach import VIEWS
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

SPELT_OUT = 3  # kernels that the detail spells out; the evidence has more
# Ops that a library runs, by the role of its kernels; attention ops begin with the prefix.
_MATMULS = "mm addmm bmm baddbmm _scaled_mm _int_mm matmul linear"
RUN_BY = {
    **dict.fromkeys(_MATMULS.split(), "gemm"),
    **dict.fromkeys(("convolution", "convolution_backward"), "conv"),
}
ATTENTION = ("_scaled_dot_product", "_flash_attention", "_efficient_attention", "_cudnn_attention")


def _check(trace: Trace) -> Iterator[Finding]:
    generated = [case for case in trace.order.cases if _is_generated(case)]
    whole = together(trace, generated)
    if whole is None:
        return
    libraries = {case.role for case in trace.order.cases if not _is_generated(case)}
    kernels = [_entry(trace, *found, libraries) for found in _kernels(trace, whole.cases)]
    lines = [f"{_ops(entry)} ({_kind(entry)})" for entry in kernels[:SPELT_OUT]]
    rest = max(len(kernels) - SPELT_OUT, 0)
    more = f"; {plural(rest, 'more kernel')} in the evidence" if rest else ""
    times = f"{times_text(whole.count)} {per(trace)}"
    title = f"Inductor generated {plural(len(kernels), 'kernel')}, launched {times}"
    recorded = all("sources" in entry for entry in kernels)
    source = "The ops are" if recorded else "A name lists the ops"
    proof = (
        "from the compiler's records"
        if recorded
        else "that a kernel stems from, not what it computes"
    )
    detail = (
        f"Origin ops by kernel: {'; '.join(lines)}{more}. Total: {time_text(whole.ns)} "
        f"{per(trace)}. {source} {proof}."
    )
    evidence = {"kernels": kernels[: 4 * LISTED], "launches": whole.count, "ns": whole.ns}
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events)


def _is_generated(case: Case) -> bool:
    return case.id.family.startswith("inductor")


def _kernels(trace: Trace, cases: list[Case]) -> Iterator[tuple[Case, int, float]]:
    """Each kernel once, whatever its shapes: its commonest case, its launches and median time.

    Two graphs may each have a kernel of one name: the hash of the code tells them apart.
    """
    order, by_number = trace.order, {case.number: case for case in cases}
    rows = np.flatnonzero(order.counts & np.isin(order.case, list(by_number)))
    names = [by_number[number].name for number in order.case[rows].tolist()]
    launches = pl.DataFrame(
        {"name": names, "case": order.case[rows], "event": order.op[rows], "ns": order.length[rows]}
    )
    hashes = trace.origins.tables["triton"].select(pl.col("event").cast(pl.Int64), "kernel_hash")
    code = pl.col("kernel_hash")
    found = (
        launches.join(hashes, on="event", how="left")
        .with_columns(code.fill_null(code.drop_nulls().first().over("name")))
        .group_by("name", "kernel_hash")
        .agg(pl.col("case").mode().min(), pl.len(), pl.col("ns").median(), sum=pl.col("ns").sum())
        .sort("sum", "name", descending=[True, False])
    )
    for _, _, number, count, median, _ in found.iter_rows():
        yield by_number[number], count, median


def _kind(entry: dict[str, Any]) -> str:
    return str(entry["kind"] or "other").replace("_", " ")


def _ops(entry: dict[str, Any]) -> str:
    lines = entry.get("sources", [])
    where = f" from {shortened(lines, 2)}" if lines else ""
    return (shortened(entry["ops"]) or "no op in the name") + where


def _entry(
    trace: Trace, case: Case, count: int, median: float, libraries: set[str]
) -> dict[str, Any]:
    ops = case.id.get("ops") or []
    outside = [op for op in ops if not _is_template(case) and _run_by(op) in libraries]
    performed, lines = compiled_ops(trace, case), compiled_lines(trace, case)
    return {
        "kernel": case.name,
        "kind": case.id.get("category"),
        "ops": performed or [op for op in ops if op not in VIEWS and op not in outside],
        "views": [op for op in ops if op in VIEWS],
        "run_by_a_library": outside,
        "count": each(trace, count),
        "median_ns": median,
    } | ({"sources": lines} if performed else {})


def _is_template(case: Case) -> bool:
    return str(case.id.get("category")) == "template"


def _run_by(op: str) -> str:
    """The role of the library kernels that run this op; "" for ops that Inductor generates."""
    return "attention" if op.startswith(ATTENTION) else RUN_BY.get(op, "")


RULE = Rule("inductor_fusions", "Kernels that TorchInductor generated", _check, ("gpu",))
