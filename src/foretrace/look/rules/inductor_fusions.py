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

from typing import Any

import numpy as np
import polars as pl

from foretrace.base.units import plural, time_text, times_text
from foretrace.look.rules._seen import LISTED, Found, Seen, rule, shortened
from foretrace.trace.kernels import Case
from foretrace.trace.reach import VIEWS

SPELT_OUT = 3  # kernels that the detail spells out; the evidence has more
# Ops that a library runs, by the role of its kernels; attention ops begin with the prefix.
_MATMULS = "mm addmm bmm baddbmm _scaled_mm _int_mm matmul linear"
RUN_BY = {
    **dict.fromkeys(_MATMULS.split(), "gemm"),
    **dict.fromkeys(("convolution", "convolution_backward"), "conv"),
}
ATTENTION = ("_scaled_dot_product", "_flash_attention", "_efficient_attention", "_cudnn_attention")


@rule("Kernels that TorchInductor generated", "gpu", example="mlp_compiled")
def _check(seen: Seen) -> Found:
    whole = seen.where(_is_generated)
    if whole is None:
        return
    libraries = {case.role for case in seen.cases if not _is_generated(case)}
    order, by_number = seen.order, {case.number: case for case in whole.cases}
    rows = np.flatnonzero(order.counts & np.isin(order.case, list(by_number)))
    names = [by_number[number].name for number in order.case[rows].tolist()]
    launches = pl.DataFrame(
        {"name": names, "case": order.case[rows], "event": order.op[rows], "ns": order.length[rows]}
    )
    triton = seen.trace.origins.tables["triton"]
    hashes = triton.select(pl.col("event").cast(pl.Int64), "kernel_hash")
    code = pl.col("kernel_hash")
    found = (
        launches.join(hashes, on="event", how="left")
        .with_columns(code.fill_null(code.drop_nulls().first().over("name")))
        .group_by("name", "kernel_hash")
        .agg(pl.col("case").mode().min(), pl.len(), pl.col("ns").median(), sum=pl.col("ns").sum())
        .sort("sum", "name", descending=[True, False])
    )
    kernels = [
        _entry(seen, by_number[number], count, median, libraries)
        for _, _, number, count, median, _ in found.iter_rows()
    ]
    lines = [_line(entry) for entry in kernels[:SPELT_OUT]]
    rest = max(len(kernels) - SPELT_OUT, 0)
    more = f"; {plural(rest, 'more kernel')} in the evidence" if rest else ""
    times = f"{times_text(whole.count)} {seen.per}"
    title = f"Inductor generated {plural(len(kernels), 'kernel')}, launched {times}"
    source = "A name lists the ops that a kernel stems from, not what it computes"
    if all("sources" in entry for entry in kernels):
        source = "The ops are from the compiler's records"
    detail = (
        f"Origin ops by kernel: {'; '.join(lines)}{more}. Total: {time_text(whole.ns)} "
        f"{seen.per}. {source}."
    )
    evidence = {"kernels": kernels[: 4 * LISTED], "launches": whole.count, "ns": whole.ns}
    yield seen.found(title, detail, evidence, whole.events)


def _is_generated(case: Case) -> bool:
    return case.id.family.startswith("inductor")


def _line(entry: dict[str, Any]) -> str:
    lines = entry.get("sources", [])
    where = f" from {shortened(lines, 2)}" if lines else ""
    ops = shortened(entry["ops"]) or "no op in the name"
    return f"{ops}{where} ({str(entry['kind'] or 'other').replace('_', ' ')})"


def _entry(
    seen: Seen, case: Case, count: int, median: float, libraries: set[str]
) -> dict[str, Any]:
    def run_by(op: str) -> str:
        """The role of the library kernels that run this op; "" for ops that Inductor generates."""
        return "attention" if op.startswith(ATTENTION) else RUN_BY.get(op, "")

    ops, template = case.id.get("ops") or [], str(case.id.get("category")) == "template"
    outside = [op for op in ops if not template and run_by(op) in libraries]
    performed, lines = _recorded(seen, case)
    return {
        "kernel": case.name,
        "kind": case.id.get("category"),
        "ops": performed or [op for op in ops if op not in VIEWS and op not in outside],
        "views": [op for op in ops if op in VIEWS],
        "run_by_a_library": outside,
        "count": seen.each(count),
        "median_ns": median,
    } | ({"sources": lines} if performed else {})


def _recorded(seen: Seen, case: Case) -> tuple[list[str], list[str]]:
    """The ops of the program that a case performs in part, and their lines, where recorded."""
    compiled = seen.trace.compiled
    events = seen.trace.kernel_cases["kernels"][case.number].to_list() if compiled else []
    found = (compiled.get(event) for event in events)
    launches = list({id(each.call): each for each in found if each is not None}.values())
    if not launches:
        return [], []
    from foretrace.trace.compiled.provenance import begun, performed

    ops = frozenset().union(*(performed(each) | begun(each) for each in launches))
    lines = sorted({line for each in launches for line in each.lines})
    return sorted(ops), list(dict.fromkeys(line.place for line in lines))
