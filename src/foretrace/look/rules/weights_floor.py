"""Reading the weights as the floor of a decoding step.

What it shows: how many bytes of weights the matmuls of a step read, the time of that at the card's
full bandwidth, and how far the GPU time is above it.

Why it matters: with few tokens a matmul does little arithmetic on each weight. The step cannot be
shorter than one pass over the weights. GPU time far above that floor is in small kernels, in
matmuls with too few blocks to reach the bandwidth, or in the cache. Smaller weights (fp8, int4) or
more sequences per step lower the floor per token.

How it is computed: `mm` and `addmm` in traces without a backward pass; the weight is the second
operand, as it is stored. They must be 90% of the time of all matmuls. It is told when their
arithmetic at the card's peak takes less
time than their weights at full bandwidth, when the weights are at least twice the L2 cache, and
when the GPU time is at least 1.5 times the floor. The saving is at most the GPU time less the
weights beyond the L2 cache at full bandwidth.

When it is wrong: a weight that two matmuls of a step read counts twice, as a step of two calls
reads each weight twice. A trace has sizes, not addresses: matmuls of one size may read one weight,
as a loop over samples or time steps does. Where one weight of each size takes less than half of the
L2 cache, they may all come from there, and nothing is told.
"""

from __future__ import annotations

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.rules._seen import BACKWARD, Facts, Found, Group, Seen, matmul_ns, rule
from foretrace.trace.kernels import Case
from foretrace.work.costs import Tensor

WEIGHT = {"aten::mm": 1, "aten::addmm": 2}
ROLES = frozenset({"gemm", "gemv"})
KINDS = {"c10::Half": "fp16", "float": "tf32"}  # others count as bf16
# Weights of twice the L2 cache cannot stay there from one step to the next; those that a loop reads
# again and again can, up to half of it: what else a step moves takes its place too.
CACHES, LOOPED = 2, 0.5
# Share of the matmuls' time that must have recorded weights; the rest may be attention.
NEARLY_ALL = 0.9
HIDDEN = frozenset({"mm", "addmm", "linear", "mv"})  # a generated kernel may hold the matmul itself
# Below this the step is near its floor, and there is nothing to tell.
FAR = 1.5


@rule("Reading the weights as a floor", "gpu shapes")
def _check(seen: Seen) -> Found:
    device, spans = seen.device, seen.trace.spans
    if device is None or any(name.startswith(BACKWARD) for name in seen.host.names):
        return
    weights = [(case, weight) for case in seen.cases if case.count and (weight := _weight(case))]
    whole = seen.together([case for case, _ in weights])
    if whole is None or not _complete(seen, whole):
        return
    steps, cache = max(seen.order.steps, 1), device.l2_bytes or 0
    size = sum((weight.bytes or 0) * case.count for case, weight in weights) / steps
    times = [
        (matmul_ns(device, case, KINDS.get(weight.type, "bf16")) or 0.0) * case.count
        for case, weight in weights
    ]
    busy = spans.median_busy(spans.steps) or float(seen.gpu.busy(seen.gpu.usable))
    full = size / device.bytes_per_s * 1e9
    least = sum({(weight.dims, weight.type): weight.bytes or 0 for _, weight in weights}.values())
    if size < CACHES * cache or least < LOOPED * cache:
        return
    if sum(times) / steps > full or busy < FAR * full:
        return
    title = (
        f"Weights read: {bytes_text(size)}, {time_text(full)} at {bytes_text(device.bytes_per_s)}"
        f"/s; GPU work is {busy / full:.1f}x this floor"
    )
    detail = (
        f"{plural(whole.count, 'matmul')}, {time_text(whole.ns)} {seen.per}; all GPU work "
        f"takes {time_text(busy)}. A step cannot be shorter than one pass over its weights; at "
        f"most {bytes_text(cache)} of them can come from L2."
    )
    evidence: Facts = {"weight_bytes": round(size), "floor_ns": round(full), "busy_ns": round(busy)}
    evidence |= {"matmuls": whole.count, "matmul_ns": whole.ns}
    saved = round(busy - max(size - cache, 0) / device.bytes_per_s * 1e9)
    yield seen.found(title, detail, evidence, whole.events, saved)


def _weight(case: Case) -> Tensor | None:
    """The second operand of a matmul, where the trace has its size."""
    if case.call is None or case.op not in WEIGHT or case.role not in ROLES:
        return None
    weight = case.call.tensor(WEIGHT[case.op])
    return weight if weight is not None and weight.bytes else None


def _complete(seen: Seen, whole: Group) -> bool:
    """Whether these are nearly all matmuls: others, as in a graph, read weights that we miss."""
    inside = any(
        case.id.family.startswith("inductor") and HIDDEN.intersection(case.id.get("ops") or ())
        for case in seen.cases
    )
    every = seen.where(lambda case: case.role in ROLES)
    return not inside and every is not None and whole.ns >= NEARLY_ALL * every.ns
