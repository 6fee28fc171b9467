"""What TorchInductor fused, op by op.

What it shows: for every kernel that Inductor generated, the ATen ops behind it, with views listed
apart, how often it ran and how long.

Why it matters: this is what `torch.compile` did to the model. The ops of one line no longer pass
tensors to each other through memory.

How it is computed: from the kernel's name, which lists the ops in alphabetical order (not in the
order of execution), and its kind: pointwise, reduction, persistent reduction, or template (a matrix
product or attention written in Triton).

When it is wrong: the name lists every op that has a part in the kernel. `addmm` in the name of a
pointwise kernel means that the bias of a product was added there. The product itself ran in another
kernel. Only a template holds a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foretrace.analyses._common import LISTED, each, listing, per, together
from foretrace.model.order import Case
from foretrace.model.reach import VIEWS
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import plural, time_text, times_text

SPELT_OUT = 3  # kernels that the detail spells out; the evidence has more


def _check(trace: Trace) -> Iterator[Finding]:
    generated = [case for case in trace.order.cases if case.id.family.startswith("inductor")]
    whole = together(trace, generated)
    if whole is None:
        return
    kernels = [_entry(trace, case) for case in whole.cases]
    lines = [
        f"{_ops(entry)} in one {entry['kind'] or 'other'} kernel" for entry in kernels[:SPELT_OUT]
    ]
    rest = max(len(kernels) - SPELT_OUT, 0)
    more = f"; {plural(rest, 'more kernel')} in the evidence" if rest else ""
    times = f"{times_text(whole.count)} {per(trace)}"
    title = f"Inductor generated {plural(len(kernels), 'kernel')}, launched {times}"
    if len(kernels) == 1 and kernels[0]["ops"]:
        title = f"Inductor fused {_ops(kernels[0])} into one kernel"
    detail = f"{'; '.join(lines)}{more}. Total: {time_text(whole.ns)} {per(trace)}."
    evidence = {"kernels": kernels[: 4 * LISTED], "launches": whole.count, "ns": whole.ns}
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events)


def _ops(entry: dict[str, Any]) -> str:
    return listing(entry["ops"]) or "ops that the name does not list"


def _entry(trace: Trace, case: Case) -> dict[str, Any]:
    ops = case.id.get("ops") or []
    return {
        "kernel": case.name,
        "kind": case.id.get("category"),
        "ops": [op for op in ops if op not in VIEWS],
        "views": [op for op in ops if op in VIEWS],
        "count": each(trace, case.count),
        "median_ns": case.median_ns,
    }


RULE = Rule("inductor_fusions", "What TorchInductor fused", _check, ("gpu",))
