"""Optimizer steps made of many kernels.

What it shows: optimizer steps that run one kernel per operation (`foreach`) or even one per
operation and parameter, with the number of kernels and their time.

Why it matters: that way AdamW reads and writes its state once per operation, a dozen times in all.
A fused optimizer (`torch.optim.AdamW(..., fused=True)`) makes one pass: it reads gradient,
parameter and state once and writes them once.

How it is computed: the kernels below the `Optimizer.step#...` ranges that PyTorch records, without
those of a closure, when none of them is a fused optimizer kernel or a compiled one, and the host's
part of the gaps before them. One call of a `foreach` op is one pass, however many kernels it
launches: SGD without momentum makes one, and is not told. What one pass saves is predicted by the
fix `fused_optimizer`.

When it is wrong: an optimizer without a fused form in PyTorch needs a compiled step
(`torch.compile(opt.step)`) instead. Optimizers that are not PyTorch's own are not judged.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from foretrace.base.arrays import coded, distinct
from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Found, Seen, bare, rule
from foretrace.trace.autograd import STEP, in_closure
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace

# On CUDA, torch 2.11; SGD since torch 2.3. The fused Adagrad is for the CPU.
HAVE_FUSED = frozenset({"Adam", "AdamW", "SGD"})
# Kernels of fused optimizers, and those that a compiled step launches.
FUSED = "FusedAdam|FusedSgd|FusedAdagrad|fused_adam|multi_tensor_adam|AdamFunctor|LAMB|triton_"
# Have a foreach form, which torch.compile turns into one kernel per group of parameters.
_COMPILE = "ASGD Adadelta Adagrad Adamax NAdam RAdam RMSprop Rprop"
COMPILE = frozenset(_COMPILE.split())
FOREACH = "aten::_foreach_"
FEW = 4  # kernels: a small model's


@rule(
    "Optimizer steps made of many kernels",
    "gpu ops",
    fixes="fused_optimizer",
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    gpu, host = seen.gpu, seen.host
    spans = [span for span in seen.trace.spans.regions if span.name.startswith(STEP)]
    kind = spans[0].name.removeprefix(STEP).split(".", 1)[0] if spans else ""
    rows = optimizer_rows(seen.trace) if kind in HAVE_FUSED | COMPILE else np.empty(0, np.int64)
    rows = rows[gpu.is_kernel[rows] & (seen.trace.work_roles[rows] != "comms")]
    names = {host.names[name] for name in host.name[gpu.id[rows]].tolist()}
    if len(rows) <= FEW * len(spans) or any(re.search(FUSED, name) for name in names):
        return
    many = pass_count(seen.trace, rows)
    if many == 1:
        return
    ns, passes, idle = seen.ns(rows), _passes(seen, rows), seen.idle
    gaps = np.isin(idle.then, rows) & ~idle.of("queue") & seen.proven()
    before = seen.limited(idle.length[gaps].sum())
    count = seen.each(len(rows))
    longest = next(iter(passes))
    advice = "torch.compile fuses this optimizer's step."
    if kind in HAVE_FUSED:
        since = " (torch 2.3 or later)" if kind == "SGD" else ""
        advice = f"fused=True{since} makes one pass over parameters and state."
    kernels = plural(count, "kernel")
    title = f"{kind} runs {kernels} {seen.per} instead of one pass"
    if many:
        title = f"{kind} makes {many} passes {seen.per} ({kernels}) instead of one"
    gap = f" and {time_text(before)} of idle GPU time before them" if before else ""
    detail = (
        f"{time_text(ns)} in these kernels{gap} {seen.per}; "
        f"{bare(longest)} takes most, {time_text(passes[longest])}. {advice} "
        f"{seen.host_note()}"
    )
    evidence = {"optimizer": kind, "kernels": count, "ns": ns, "idle_ns": before}
    evidence |= {"passes": passes}
    yield seen.found(title, detail, evidence, gpu.id[rows], gaps=idle.only(gaps))


def optimizer_rows(trace: Trace) -> Ints:
    """Rows of `gpu` that an optimizer's step launched, where they count; its closure's do not."""
    spans = [span for span in trace.spans.regions if span.name.startswith(STEP)]
    rows = distinct(np.concatenate([np.empty(0, np.int64), *(span.work for span in spans)]))
    own = Seen(trace).counted[rows] & ~trace.grouped.backward[rows]
    counting: Ints = rows[own & ~in_closure(trace, trace.origins.launch[rows])]
    return counting


def pass_count(trace: Trace, rows: Ints) -> int:
    """Passes over the parameters that `foreach` ops make; 0 where not all of these are foreach."""
    host, calls = trace.origins.host, distinct(_pass_ops(trace, rows))
    times = Counter(host.names[host.name[op]] if op >= 0 else "" for op in calls.tolist())
    foreach = all(name.startswith(FOREACH) for name in times)
    return round(times.total() / min(times.values())) if foreach and times else 0


def _pass_ops(trace: Trace, rows: Ints) -> Ints:
    """The op of each row; the foreach op around it, whose slow path calls an op for each tensor."""
    host, op = trace.origins.host, trace.origins.op[rows]
    around = host.nearest(op, host.named(lambda name: name.startswith(FOREACH)))
    return np.where(around >= 0, around, op)


def _passes(seen: Seen, rows: Ints) -> dict[str, int]:
    """Time by op, longest first: an op that runs once per parameter is one pass too."""
    host, op = seen.trace.origins.host, _pass_ops(seen.trace, rows)
    names, inverse = coded(np.where(op >= 0, host.name[np.maximum(op, 0)], -1))
    total = np.bincount(inverse.reshape(-1), weights=seen.gpu.length[rows]).astype(np.int64)
    found = [host.names[name] if name >= 0 else "(no op)" for name in names.tolist()]
    by_name = zip(found, total.tolist(), strict=True)
    ranked = sorted(by_name, key=lambda item: (-item[1], item[0]))
    return {name: seen.step(time) for name, time in ranked}
