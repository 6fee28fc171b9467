"""What a user can change in a program that a CPU runs, and what a step takes then.

A CPU does one thing after another: without a GPU nothing hides behind anything else, so a step
becomes shorter by what a fix saves, and no graph needs to run again.

What it looks for, each on its own evidence:

- threads: fewer than the machine has (the run record says so), or large matmuls at the rate of one
  core;
- float64: large ops in `double`, which take twice the bytes and half the lanes;
- channels_last: convolutions of dense NCHW tensors, which oneDNN reorders;
- batches: many tiny calls of the same shapes with one sample each, whose results are gathered;
- recurrent cells that are called once for each time step;
- the DataLoader: a step that waits for it.

What must hold: the time that is saved is in the typical step. bfloat16 is not proposed: most CPUs
have no units for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from statistics import median

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base.units import plural
from foretrace.model.costs import OpCall, Tensor, cost
from foretrace.model.cpu_ops import bare, computing_ops, cpu_call, runs_on_cpu
from foretrace.model.intervals import Bools, Ints
from foretrace.model.recording import op_call
from foretrace.model.replay import LEAST
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.run_record import content_beside

WORTH = 0.03  # of the step
OP_NS = 1_200  # what the profiler adds to an op, without a GPU to watch (torch 2.13)
# FLOP/s of a large float32 matmul on one core with vectors of 512 bits, at most; and a matmul that
# is large enough to tell.
CORE_FLOPS, LARGE_FLOP = 130e9, 1e8
PARALLEL = 32_768  # elements from which PyTorch gives an op to several threads
# Shares of the time that go: expected, at worst, at best. On a core with 512 bits float64 to
# float32 saved 0.58, channels_last 0.3 of the convolutions.
MORE_THREADS = (0.5, 0.0, 0.9)
FLOAT32 = (0.5, 0.3, 0.65)
LAYOUT = (0.3, 0.1, 0.5)
CELLS = (0.35, 0.1, 0.7)
WORKERS, MORE_WORKERS = (0.75, 0.2, 1.0), (0.5, 0.0, 0.9)
LARGE, SMALL, TINY_NS, MANY = 1_024, 16_384, 50_000, 32
MATMULS = frozenset({"addmm", "mm", "mv", "addmv", "bmm", "dot"})
CONVOLUTIONS = frozenset({"mkldnn_convolution", "convolution_backward", "_slow_conv2d_forward"})
CELL_OPS = {"gru_cell": "nn.GRU", "lstm_cell": "nn.LSTM", "rnn_tanh_cell": "nn.RNN"}
GATHERS = frozenset({"aten::stack", "aten::cat"})
LOADER, SINGLE = "enumerate(DataLoader)", "_SingleProcess"
Shares = tuple[float, float, float]


class CpuFix(Struct, frozen=True):
    """A change, what was seen, and the time of a step with it: expected, at best and at worst."""

    order: str
    why: str
    ns: float
    low_ns: float
    high_ns: float
    risk: str = ""
    events: tuple[int, ...] = ()


class CpuFixes(Struct, frozen=True):
    """The step without the profiler's cost, and what shortens it, the best first."""

    name: str
    now_ns: float
    fixes: list[CpuFix]


class _Machine(Struct):
    cpus: int = 0


class _Settings(Struct):
    threads: int = 0


class _Record(Struct):
    machine: _Machine = msgspec.field(default_factory=_Machine)
    settings: _Settings = msgspec.field(default_factory=_Settings)


class _Step:
    """The typical step of a CPU: what computes in it."""

    def __init__(self, trace: Trace, span: Span) -> None:
        self.trace, self.host, self.span = trace, trace.host, span
        start = self.host.start
        self.inside: Bools = (start >= span.start_ns) & (start < span.end_ns) & self.host.lasting
        self.computing: Ints = self.among(computing_ops(trace)[0])

    def among(self, chosen: Bools) -> Ints:
        """Of these events those of the step, in order of time."""
        rows = np.flatnonzero(chosen & self.inside)
        return rows[np.argsort(self.host.start[rows], kind="stable")]

    @cached_property
    def now_ns(self) -> float:
        """The time of the step without what the profiler costs."""
        ops, whole = len(self.among(self.host.is_op)), float(self.span.cpu_ns)
        return max(whole - ops * OP_NS, LEAST * whole)

    @cached_property
    def calls(self) -> dict[int, OpCall]:
        """The arguments of the ops that compute."""
        found = {at: op_call(self.trace, at) for at in self.computing.tolist()}
        return {at: call for at, call in found.items() if call is not None}

    def name(self, event: int) -> str:
        return bare(self.host.names[self.host.name[event]])

    def ns(self, events: list[int]) -> float:
        return float(self.host.length[events].sum()) if events else 0.0

    def fix(self, order: str, why: str, ns: float, shares: Shares, events: list[int]) -> CpuFix:
        """What the step takes when these shares of a recorded time go."""
        known = ns * self.now_ns / max(self.span.cpu_ns, 1)
        usual, least, most = (max(self.now_ns - share * known, 0.0) for share in shares)
        return CpuFix(order, why, usual, most, least, events=tuple(events[:50]))


def cpu_fixes(trace: Trace) -> CpuFixes | None:
    """What shortens the typical step of a CPU; None where a GPU computed, or nothing did."""
    span = cpu_call(trace) if runs_on_cpu(trace) else None
    if span is None:
        return None
    step = _Step(trace, span)
    if not len(step.computing):
        return None
    finders = (_threads, _float64, _channels_last, _samples, _cells, _loader)
    found = [fix for find in finders for fix in find(step)]
    worth = [fix for fix in found if fix.ns < (1 - WORTH) * step.now_ns]
    return CpuFixes(span.name, step.now_ns, sorted(worth, key=lambda fix: (fix.ns, fix.order)))


def _threads(step: _Step) -> Iterator[CpuFix]:
    parallel = [at for at, call in step.calls.items() if _elements(call) >= PARALLEL]
    threads, cores = _recorded(step.trace)
    if threads and cores:
        if 2 * threads <= cores:
            gone = 1 - threads / cores
            why = f"{plural(threads, 'thread')} on a machine of {cores} cores"
            order = f"torch.set_num_threads({cores})"
            shares = (0.7 * gone, 0.0, gone)
            yield step.fix(order, why, step.ns(parallel), shares, parallel)
        return
    rates = [rate for at, call in step.calls.items() if (rate := _rate(step, at, call))]
    if rates and max(rates) < CORE_FLOPS:
        why = f"large matmuls run at {max(rates) / 1e9:.0f} GFLOP/s, what one core gives"
        order = "use more threads (OMP_NUM_THREADS, torch.set_num_threads)"
        fix = step.fix(order, why, step.ns(parallel), MORE_THREADS, parallel)
        yield msgspec.structs.replace(fix, risk="the machine must have more cores")


def _recorded(trace: Trace) -> tuple[int, int]:
    """Threads and cores as the run record has them; 0 without one."""
    try:
        record = msgspec.json.decode(content_beside(trace.path), type=_Record)
    except (ValueError, RecursionError):
        return 0, 0
    return record.settings.threads, record.machine.cpus


def _rate(step: _Step, event: int, call: OpCall) -> float:
    """FLOP/s of a large float32 matmul, else 0."""
    large = step.name(event) in MATMULS and all(each.type == "float" for each in _dense(call))
    flops = (found.flops or 0) if large and (found := cost(call)) else 0
    return flops / step.ns([event]) * 1e9 if flops >= LARGE_FLOP else 0.0


def _dense(call: OpCall) -> list[Tensor]:
    """Tensor arguments with dimensions."""
    return [each for each in call.every_tensor() if each.dims]


def _elements(call: OpCall) -> int:
    return max((each.elements for each in _dense(call)), default=0)


def _float64(step: _Step) -> Iterator[CpuFix]:
    wide = [
        at
        for at, call in step.calls.items()
        if any(each.type == "double" and each.elements >= LARGE for each in _dense(call))
    ]
    if wide:
        why = f"{plural(len(wide), 'op')} of the step compute in float64"
        order = "compute in float32 (model.float(), x.float())"
        fix = step.fix(order, why, step.ns(wide), FLOAT32, wide)
        yield msgspec.structs.replace(fix, risk="results have 7 digits, not 16")


def _channels_last(step: _Step) -> Iterator[CpuFix]:
    found = [
        at
        for at, call in step.calls.items()
        if step.name(at) in CONVOLUTIONS and _is_nchw(call, step.name(at))
    ]
    if found:
        why = f"{plural(len(found), 'convolution')} of tensors in NCHW"
        order = "model and input .to(memory_format=torch.channels_last)"
        yield step.fix(order, why, step.ns(found), LAYOUT, found)


def _is_nchw(call: OpCall, name: str) -> bool:
    """Whether the input is dense with channels ahead of rows; the backward has it second."""
    data = call.tensor(1 if "backward" in name else 0)
    if data is None or len(data.dims) != 4 or not data.strides or len(data.strides) != 4:
        return False
    _, channels, height, width = data.dims
    return channels > 1 and height * width > 1 and data.strides[3] == 1 < data.strides[1]


def _samples(step: _Step) -> Iterator[CpuFix]:
    """A loop over samples: many calls of tiny matmuls with one row, and a gathering behind them."""
    tiny = [at for at, call in step.calls.items() if _is_tiny(step, at, call)]
    kinds = Counter((step.name(at), str(step.calls[at].dims)) for at in tiny)
    chosen = [at for at in tiny if kinds[step.name(at), str(step.calls[at].dims)] >= MANY]
    single = [at for at in chosen if step.name(at) in MATMULS and _of_one_row(step.calls[at])]
    gathers = step.among(step.host.named(GATHERS.__contains__))
    behind = gathers[step.host.start[gathers] >= step.host.end[chosen[-1]]] if chosen else gathers
    if not single or not len(behind):
        return
    count = round(median([number for number in kinds.values() if number >= MANY]))
    whole = _stretch(step, [*chosen, int(behind[0])])
    shares = (1 - min(4 / count, 0.5), 0.7, 1 - 1 / count)
    why = f"{plural(len(single), 'matmul')} of one row each, in {count} rounds of the same ops"
    fix = step.fix("run the samples as one batch (torch.stack)", why, whole, shares, chosen)
    yield msgspec.structs.replace(fix, risk="no sample may need the result of another")


def _is_tiny(step: _Step, event: int, call: OpCall) -> bool:
    return _elements(call) <= SMALL and step.ns([event]) < TINY_NS


def _of_one_row(call: OpCall) -> bool:
    """Whether the first operand that is no bias has one row."""
    dense = _dense(call)[1 if call.name == "aten::addmm" else 0 :]
    return bool(dense) and (len(dense[0].dims) == 1 or dense[0].dims[0] == 1)


def _stretch(step: _Step, events: list[int]) -> float:
    """The time from the first of these ops to the last, less that of other ops in it."""
    host, mine = step.host, set(events)
    start, end = int(host.start[events].min()), int(host.end[events].max())
    others = [at for at in step.computing.tolist() if start <= host.start[at] < end]
    other = step.ns([at for at in others if at not in mine and step.ns([at]) >= TINY_NS])
    return max(end - start - other, 0.0)


def _cells(step: _Step) -> Iterator[CpuFix]:
    for name, module in CELL_OPS.items():
        found = step.among(step.host.named({f"aten::{name}"}.__contains__)).tolist()
        if len(found) >= MANY // 4:
            why = f"{plural(len(found), 'call')} of {name} in a Python loop"
            order = f"run the whole sequence at once ({module})"
            yield step.fix(order, why, step.ns(found), CELLS, found)


def _loader(step: _Step) -> Iterator[CpuFix]:
    found = step.among(step.host.named(lambda name: name.startswith(LOADER))).tolist()
    single = [at for at in found if SINGLE in step.host.names[step.host.name[at]]]
    if single:
        why = "the step makes its batch itself (num_workers=0)"
        yield step.fix("DataLoader(num_workers=4)", why, step.ns(single), WORKERS, single)
    elif found:
        why = "the step waits for the DataLoader's workers"
        yield step.fix("more DataLoader workers", why, step.ns(found), MORE_WORKERS, found)
