"""Use more threads.

What it looks for: a CPU that computes with fewer threads than the machine has, as the run record
beside the trace says, or large matmuls at the rate of one core.

What must hold: ops are large enough for PyTorch to give them to several threads, and for these to
pay off: at least 50 us. Nothing else uses the cores: where a DataLoader's workers did, two threads
made a step of 14 ms take 88.

What changes: these ops take less time, by the missing share of the cores at best. Without a run
record half of their time goes, at worst nothing: the machine may have one core.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import MATMULS, CpuStep, dense, elements
from foretrace.look.fixes._step import Proposals, fix
from foretrace.read.run_record import content_beside
from foretrace.trace.trace import Trace
from foretrace.work.costs import OpCall, cost

# FLOP/s of a large float32 matmul on one core with vectors of 512 bits, at most; and a matmul that
# is large enough to tell.
CORE_FLOPS, LARGE_FLOP = 130e9, 1e8
PARALLEL = 32_768  # elements from which PyTorch gives an op to several threads
SHORT_NS = 50_000  # to start and join threads takes a tenth of it or more
MORE_THREADS = (0.5, 0.9, 0.0)
WORKERS = "_MultiProcessingDataLoaderIter"


class _Machine(Struct):
    cpus: int = 0


class _Settings(Struct):
    threads: int = 0


class _Record(Struct):
    machine: _Machine = msgspec.field(default_factory=_Machine)
    settings: _Settings = msgspec.field(default_factory=_Settings)


@fix("Use more threads", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    loaded = step.trace.host.named(lambda name: WORKERS in name)
    if loaded.any() or step.trace.run.timing.is_crowded:
        return
    large = [event for event, call in step.arguments.items() if elements(call) >= PARALLEL]
    parallel = [event for event in large if step.took_ns([event]) >= SHORT_NS]
    threads, cores = recorded(step.trace)
    rate = max((_rate(step, *each) for each in step.arguments.items()), default=0.0)
    if threads and cores and 2 * threads <= cores:
        gone = 1 - threads / cores
        why = f"{plural(threads, 'thread')} on a machine of {cores} cores"
        order = f"torch.set_num_threads({cores})"
        yield step.proposal(order, why, parallel, (0.7 * gone, gone, 0.0))
    elif not (threads and cores) and 0 < rate < CORE_FLOPS:
        why = f"large matmuls run at {rate / 1e9:.0f} GFLOP/s, what one core gives"
        order = "use more threads (OMP_NUM_THREADS, torch.set_num_threads)"
        risk = "the machine must have more cores"
        yield step.proposal(order, why, parallel, MORE_THREADS, risk)


def recorded(trace: Trace) -> tuple[int, int]:
    """Threads and cores as the run record has them; 0 without one."""
    try:
        record = msgspec.json.decode(content_beside(trace.path), type=_Record)
    except (ValueError, RecursionError):
        return 0, 0
    return record.settings.threads, record.machine.cpus


def _rate(step: CpuStep, event: int, call: OpCall) -> float:
    """FLOP/s of a large float32 matmul, else 0."""
    large = step.bare(event) in MATMULS and all(each.type == "float" for each in dense(call))
    flops = (found.flops or 0) if large and (found := cost(call)) else 0
    return flops / step.took_ns([event]) * 1e9 if flops >= LARGE_FLOP else 0.0
