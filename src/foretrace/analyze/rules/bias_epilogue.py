"""A bias (and an activation) added inside a matmul.

What it shows: matmuls whose kernel adds the bias vector in its epilogue, and applies the
activation where the name says so. There is no add kernel, and the result is written to memory once.

Why it matters: this is what `nn.Linear` should do, and worth checking. The alternative writes the
matmul, reads it back and writes it again: the finding says how many bytes that is, and the least
time that memory takes for them. It also costs a launch, of which the trace holds no time.

How it is computed: either the kernel's name states a bias (`bias`, `gelubias` in nvjet names), or
an `addmm` with a one-dimensional bias launched this one kernel and no copy, so that nothing else
can have added it. A name that only says that the epilogue could apply ReLU proves nothing and does
not count.

When it is wrong: in the first case never, as far as the names are understood (checked on an H200
and a B200). In the second case only if the trace lost a GPU event, which the ledger would say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyze.rules._common import LISTED, bare, each, listing, per, shapes_text, together
from foretrace.base.units import bytes_text, plural, time_text
from foretrace.model.costs.roofline import traffic_ns
from foretrace.model.metadata import device_of
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm"})
ACTIVATIONS = frozenset({"relu", "gelu", "swiglu", "silu"})


def _check(trace: Trace) -> Iterator[Finding]:
    alone = _alone(trace)
    matmuls = [case for case in trace.order.cases if case.role == "gemm" and case.count]
    proofs = {case.number: _proof(case, alone) for case in matmuls}
    whole = together(trace, [case for case in matmuls if proofs[case.number]])
    if whole is None:
        return
    activations = sorted(ACTIVATIONS & {word for case in whole.cases for word in _epilogue(case)})
    count = f"{plural(whole.count, 'matmul')} {per(trace)}"
    title = f"{listing(['Bias', *activations])} in the epilogue of {count}: no add kernel"
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op}))
    where = "The matmul adds it before its result leaves the chip."
    detail = f"{where} {ops} launched no kernel for it." if ops else where
    moved = trace.order.per_step(
        sum(2 * (case.bytes_written or 0) * case.count for case in whole.cases)
    )
    least = trace.order.per_step(round(sum(_least_ns(trace, case) for case in whole.cases)))
    if moved:
        time = f"at least {time_text(least)} and " if least else ""
        more = f"{bytes_text(moved)} more memory traffic {per(trace)}"
        detail += f" An add of its own: {more}, {time}a launch."
    kernels = [_entry(trace, case, proofs[case.number]) for case in whole.cases[:LISTED]]
    evidence = {"matmuls": whole.count, "activations": activations, "kernels": kernels}
    evidence |= {"avoided_bytes": moved, "avoided_ns": least} if moved else {}
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events)


def _least_ns(trace: Trace, case: Case) -> float:
    """What memory takes at least to read a result and write it again; 0 for an unknown card."""
    device, moved = device_of(trace.about), 2 * (case.bytes_written or 0)
    return traffic_ns(device, moved, moved) * case.count if device else 0.0


def _alone(trace: Trace) -> frozenset[int]:
    """Cases whose op launched only this kernel (a memset may be the library's own counter)."""
    gpu, order, call = trace.gpu, trace.order, trace.origins.call
    busy = call[(call >= 0) & ~gpu.is_memset]
    launched = np.bincount(busy, minlength=int(call.max(initial=0)) + 1)
    shared = launched[np.maximum(call[order.row], 0)] != 1
    excluded = order.case[shared | (order.op < 0)].tolist()
    return frozenset(range(len(order.cases))) - frozenset(excluded)


def _proof(case: Case, alone: frozenset[int]) -> str:
    if "bias" in _epilogue(case):
        return "the name says so"
    bias = case.call.tensor(0) if case.call and case.op in ADDING else None
    vector = bias is not None and len(bias.dims) == 1
    return "the only kernel of an op with a bias vector" if vector and case.number in alone else ""


def _epilogue(case: Case) -> list[str]:
    return list(case.id.get("epilogue") or ())


def _entry(trace: Trace, case: Case, proof: str) -> dict[str, Any]:
    return {
        "kernel": case.name,
        "op": case.op,
        "shapes": shapes_text(case.call),
        "count": each(trace, case.count),
        "proof": proof,
    }


RULE = Rule("bias_epilogue", "A bias added inside a matmul", _check, ("gpu", "ops"))
