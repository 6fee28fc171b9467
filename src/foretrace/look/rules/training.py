"""What training does to parameters and gradients: optimizer steps and zeroing."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from foretrace.base.arrays import coded, distinct
from foretrace.base.units import plural, time_text
from foretrace.look.rules import Found, Seen, bare, rule
from foretrace.trace.intervals import Ints
from foretrace.trace.module_calls import STEP, in_closure
from foretrace.trace.trace import Trace

# On CUDA, torch 2.11; SGD since torch 2.3. The fused Adagrad is for the CPU.
HAVE_FUSED = frozenset({"Adam", "AdamW", "SGD"})
# Kernels of fused optimizers, and those that a compiled step launches.
FUSED = "FusedAdam|FusedSgd|FusedAdagrad|fused_adam|multi_tensor_adam|AdamFunctor|LAMB|triton_"
# Have a foreach form, which torch.compile turns into one kernel per group of parameters.
_COMPILE = "ASGD Adadelta Adagrad Adamax NAdam RAdam RMSprop Rprop"
HAVE_COMPILE = frozenset(_COMPILE.split())
FOREACH = "aten::_foreach_"
FEW_KERNELS = 4  # kernels: a small model's


@rule(
    "Optimizer steps made of many kernels",
    "gpu ops",
    fixes="fused_optimizer",
    example="llama_train_eager",
)
def unfused_optimizer(seen: Seen) -> Found:
    """Optimizer steps made of many kernels.

    What it shows: optimizer steps that run one kernel per operation (`foreach`) or even one per
    operation and parameter, with the number of kernels and their time.

    Why it matters: that way AdamW reads and writes its state once per operation, a dozen times in
    all. A fused optimizer (`torch.optim.AdamW(..., fused=True)`) makes one pass: it reads gradient,
    parameter and state once and writes them once.

    How it is computed: the kernels below the `Optimizer.step#...` ranges that PyTorch records,
    without those of a closure, when none of them is a fused optimizer kernel or a compiled one, and
    the host's part of the gaps before them. One call of a `foreach` op is one pass, however many
    kernels it launches: SGD without momentum makes one, and is not told. What one pass saves is
    predicted by the fix `fused_optimizer`.

    When it is wrong: an optimizer without a fused form in PyTorch needs a compiled step
    (`torch.compile(opt.step)`) instead. Optimizers that are not PyTorch's own are not judged.
    """
    gpu, host = seen.gpu, seen.host
    spans = [span for span in seen.trace.spans.regions if span.name.startswith(STEP)]
    kind = spans[0].name.removeprefix(STEP).split(".", 1)[0] if spans else ""
    rows = (
        optimizer_rows(seen.trace) if kind in HAVE_FUSED | HAVE_COMPILE else np.empty(0, np.int64)
    )
    rows = rows[gpu.is_kernel[rows] & (seen.trace.work_roles[rows] != "comms")]
    names = {host.names[name] for name in host.name[gpu.id[rows]].tolist()}
    if len(rows) <= FEW_KERNELS * len(spans) or any(re.search(FUSED, name) for name in names):
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


ZEROING = "Optimizer.zero_grad"
ACCUMULATE, ADD = "torch::autograd::AccumulateGrad", "aten::add_"


@rule("Gradients that are zeroed and added to", "gpu ops", realised=0.9)
def kept_gradients(seen: Seen) -> Found:
    """Gradients that are filled with zeros and added to.

    What it shows: `zero_grad` fills gradients with zeros, and the backward pass adds each new
    gradient to them.

    Why it matters: with `zero_grad(set_to_none=True)`, the default since PyTorch 2.0, the backward
    pass stores a new gradient as it is: no fill, no add. On an H200 (torch 2.11, four Linear layers
    of 1024 x 4096, 2048 rows) GPU time falls from 525 to 485 us and the step from 2.07 to 1.71 ms.

    How it is computed: kernels and fills launched inside `Optimizer.zero_grad`, and the in-place
    adds inside `AccumulateGrad`. Both must occur in the steps. The saving on the GPU is at most
    their time.

    When it is wrong: with several backward passes per optimizer step, only the adds of the first
    pass can be avoided. A program that keeps a reference to `.grad` needs the tensor to stay.
    """
    order, host = seen.order, seen.trace.origins.host
    spans = [span.work for span in seen.trace.spans.regions if span.name.startswith(ZEROING)]
    fills = distinct(np.concatenate([np.empty(0, np.int64), *spans]))
    fills = fills[seen.counted[fills]]
    inside = seen.within(order.op, lambda name: name == ACCUMULATE) >= 0
    added = host.named(lambda name: name == ADD)[np.maximum(order.op, 0)]
    adds = np.flatnonzero(inside & added & (order.op >= 0) & order.counts)
    if not len(fills) or not len(adds):
        return
    filling, adding = seen.ns(fills), seen.step(int(order.length[adds].sum()))
    count = seen.each(len(adds))
    title = f"Gradients are zeroed and added to: {plural(count, 'add kernel')} {seen.per}"
    detail = (
        f"zero_grad fills gradients for {time_text(filling)} {seen.per}, and the backward pass "
        f"adds to them for {time_text(adding)}. Gradients set to None need neither. After several "
        "backward passes only the first one's adds can be avoided."
    )
    evidence = {"adds": count, "fills": seen.each(len(fills))}
    evidence |= {"add_ns": adding, "fill_ns": filling}
    events = np.sort(np.concatenate((seen.gpu.id[fills], order.event[adds])))
    fix = "set gradients to None (zero_grad(set_to_none=True))"
    yield seen.found(title, detail, evidence, events, filling + adding, fix)
