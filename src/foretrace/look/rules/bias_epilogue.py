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

import numpy as np

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.rules._seen import LISTED, Found, Seen, bare, listing, rule
from foretrace.trace.kernels import Case
from foretrace.work.costs.limits import traffic_ns

ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm"})
ACTIVATIONS = frozenset({"relu", "gelu", "swiglu", "silu"})


@rule("A bias added inside a matmul", "gpu ops", example="linear_compiled")
def _check(seen: Seen) -> Found:
    # Cases whose op launched only this kernel (a memset may be the library's own counter).
    order, call = seen.order, seen.trace.origins.call
    busy = call[(call >= 0) & ~seen.gpu.is_memset]
    launched = np.bincount(busy, minlength=int(call.max(initial=0)) + 1)
    shared = launched[np.maximum(call[order.row], 0)] != 1
    excluded = order.case[shared | (order.op < 0)].tolist()
    alone, device = frozenset(range(len(order.cases))) - frozenset(excluded), seen.device
    matmuls = [case for case in seen.cases if case.role == "gemm" and case.count]
    proofs = {case.number: _proof(case, alone) for case in matmuls}
    whole = seen.together([case for case in matmuls if proofs[case.number]])
    if whole is None:
        return
    activations = sorted(ACTIVATIONS & {word for case in whole.cases for word in _epilogue(case)})
    count = f"{plural(whole.count, 'matmul')} {seen.per}"
    title = f"{listing(['Bias', *activations])} in the epilogue of {count}: no add kernel"
    ops = listing(sorted({bare(case.op) for case in whole.cases if case.op}))
    where = "The matmul adds it before its result leaves the chip."
    detail = f"{where} {ops} launched no kernel for it." if ops else where
    # an add of its own reads the result and writes it again
    again = [(2 * (case.bytes_written or 0), case.count) for case in whole.cases]
    moved = seen.step(sum(size * times for size, times in again))
    spent = sum(traffic_ns(device, size, size) * times for size, times in again) if device else 0
    least = seen.step(round(spent))
    if moved:
        time = f", at least {time_text(least)}" if least else ""
        more = f"{bytes_text(moved)} more memory traffic {seen.per}"
        detail += f" An add of its own: {more}{time} and a launch."
    kernels = [
        {"kernel": case.name, **told, "proof": proofs[case.number]}
        for case, told in zip(
            whole.cases[:LISTED], seen.facts(whole.cases, "op shapes count"), strict=True
        )
    ]
    evidence = {"matmuls": whole.count, "activations": activations, "kernels": kernels}
    evidence |= {"avoided_bytes": moved, "avoided_ns": least} if moved else {}
    yield seen.found(title, detail, evidence, whole.events)


def _proof(case: Case, alone: frozenset[int]) -> str:
    if "bias" in _epilogue(case):
        return "the name says so"
    bias = case.call.tensor(0) if case.call and case.op in ADDING else None
    vector = bias is not None and len(bias.dims) == 1
    return "the only kernel of an op with a bias vector" if vector and case.number in alone else ""


def _epilogue(case: Case) -> list[str]:
    return list(case.id.get("epilogue") or ())
