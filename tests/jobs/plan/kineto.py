"""A rank of a simulated job as a file in Kineto's format, as torch 2.11 writes it with NCCL."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from jobs.plan.layout import Group
from jobs.plan.plan import Plan
from jobs.plan.program import LOADER, Begin, Copy, End, Kernel, Talk, Work
from jobs.plan.simulate import Done, Simulation

BASE_NS = 1_790_857_026_000_000_000
# the range of a collective, and its kernel
NAMES = {
    "allreduce": ("nccl:all_reduce", "AllReduce_Sum_bf16_RING_LL"),
    "_allgather_base": ("nccl:_all_gather_base", "AllGather_RING_LL"),
    "_reduce_scatter_base": ("nccl:_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL"),
    "send": ("nccl:send", "SendRecv"),
    "recv": ("nccl:recv", "SendRecv"),
}
FRAMES = (
    "train.py({}): train_step", "torch/nn/modules/module.py(1784): _call_impl",
    "model.py({}): forward", "nn.Module: Block_{}", "torch/_tensor.py({}): __torch_function__",
)  # fmt: skip
MOST_RANKS = 30  # torch writes no longer list
CARD = {"name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32,
        "totalGlobalMem": 85_017_493_504}  # fmt: skip
TYPE = "c10::BFloat16"
GPU_CATEGORIES = ("cuda_runtime", "kernel", "gpu_memcpy", "ac2g")
Record = dict[str, Any]


def document(simulation: Simulation, rank: int) -> Record:
    """The file of a rank, on the clock of its host."""
    plan = simulation.plan
    own = [group for group in simulation.groups if rank in group.ranks]
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, **CARD}],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": plan.gaps.worlds.get(rank, plan.world),
            "pg_count": len(own),
            "pg_config": [_config(group) for group in own],
            "nccl_version": "2.28.9",
        },
        "record_shapes": 1,
        "cuda_runtime_version": 13000,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
        "traceName": f"/traces/{file_name(plan, rank)}",
        "traceEvents": _ordered(plan, list(_Writer(plan, rank).events(simulation.done[rank]))),
    }


def _ordered(plan: Plan, events: list[Record | msgspec.Raw]) -> list[Record | msgspec.Raw]:
    """The events by time, or those of the host before launches and GPU work."""

    def of_gpu(event: Record | msgspec.Raw) -> bool:
        return isinstance(event, dict) and event["cat"] in GPU_CATEGORIES

    return sorted(events, key=of_gpu) if plan.host_first else events


def file_name(plan: Plan, rank: int) -> str:
    """As torch.profiler.tensorboard_trace_handler names it: host, process, time."""
    if plan.by_rank:
        return f"rank{rank}.json"
    milliseconds = plan.start_ns // 1_000_000
    return f"node{plan.host(rank):03d}_{pid_of(rank)}.{milliseconds}.pt.trace.json"


def pid_of(rank: int) -> int:
    return 4000 + rank


def local_ns(plan: Plan, rank: int, at: int) -> int:
    """True time as the clock of the rank's host shows it."""
    clock = plan.clock(rank)
    return at + clock.offset_ns + round((at - plan.start_ns) * (clock.drift_ppm / 1e6))


def _config(group: Group) -> Record:
    return {
        "pg_name": group.name,
        "pg_desc": group.description,
        "backend_config": "cuda:nccl",
        "pg_size": len(group.ranks),
        "ranks": list(group.ranks),
    }


class _Writer:
    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank, self.pid = plan, rank, pid_of(rank)
        self.zero = local_ns(plan, rank, plan.start_ns) - BASE_NS
        self.drift = plan.clock(rank).drift_ppm / 1e6
        self.external, self.correlation, self.python = 1000, 50_000, 0

    def events(self, done: list[Done]) -> Iterator[Record | msgspec.Raw]:
        kept = self.plan.gaps.steps.get(self.rank)
        begun = 0
        for each in done:
            if kept is not None and each.step not in kept:
                continue
            match each.what:
                case Begin():
                    begun = each.host_ns
                case End(step):
                    name = f"ProfilerStep#{self.plan.first_step + step}"
                    if self.plan.stated_steps:
                        yield self._host("user_annotation", name, begun, each.host_end_ns)
                    if self.plan.sync:
                        span = each.host_ns, each.host_end_ns
                        yield self._host("cuda_runtime", "cudaDeviceSynchronize", *span, cbid=165)
                case Work(name):
                    category = "user_annotation" if name == LOADER else "cpu_op"
                    yield self._host(category, name, each.host_ns, each.host_end_ns)
                case Kernel(op, name, _, shape):
                    shapes = {"Input Dims": [list(shape)] * 2, "Input type": [TYPE] * 2}
                    yield from self._frames(each)
                    yield from self._launched(each, "kernel", op, name, shapes, {})
                case Copy(ns):
                    args = {"bytes": ns * 20, "memory bandwidth (GB/s)": 20.0}
                    name = "Memcpy HtoD (Pinned -> Device)"
                    yield from self._launched(each, "gpu_memcpy", "aten::copy_", name, {}, args)
                case Talk() as talk:
                    if (self.rank, talk.group.kind, each.seq) not in self.plan.gaps.unrecorded:
                        yield from self._talk(each, talk)

    def _frames(self, each: Done) -> Iterator[msgspec.Raw]:
        """Python functions around an op, one inside the other.

        They are most of a large file, so their text is written here.
        """
        start, end = self._at(each.host_ns), self._at(each.host_end_ns)
        for depth in range(self.plan.frames):
            self.python += 1
            name = FRAMES[depth % len(FRAMES)].format(self.python % 997)
            at, length = start + 10 * depth, end - start - 20 * depth
            yield msgspec.Raw(
                f'{{"ph":"X","cat":"python_function","name":"{name}","pid":{self.pid},'
                f'"tid":{self.pid},"ts":{at / 1000},"dur":{length / 1000},'
                f'"args":{{"Python id":{self.python},"Python parent id":{self.python - 1}}}}}'
            )

    def _talk(self, each: Done, talk: Talk) -> Iterator[Record]:
        label, short = NAMES[talk.kind]
        name = f"ncclDevKernel_{short}(ncclDevKernelArgsStorage<4096ul>)"
        said = self._said(talk, each.seq)
        apart = self._said_by_the_op(talk)
        yield from self._launched(each, "kernel", "record_param_comms", name, said | apart, said)
        yield self._host("user_annotation", label, each.host_ns + 500, each.host_end_ns - 500)

    def _launched(
        self, each: Done, category: str, op: str, name: str, of_op: Record, of_gpu: Record
    ) -> Iterator[Record]:
        """An op, its launch, the GPU work and the arrow between them."""
        self.correlation += 1
        deep = 10 * self.plan.frames
        yield self._host("cpu_op", op, each.host_ns + deep, each.host_end_ns - deep, **of_op)
        call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernelExC"
        launch = (each.host_ns + 1_000, each.host_ns + 2_500)
        yield self._host("cuda_runtime", call, *launch, cbid=430, correlation=self.correlation)
        ids = {"External id": self.external, "correlation": self.correlation}
        args = {**ids, "device": 0, "context": 1, "stream": each.stream, **of_gpu}
        if category == "kernel":
            args |= {"queued": 0, "registers per thread": 168, "shared memory": 213_248}
            args |= {"grid": [132, 1, 1], "block": [384, 1, 1]}
        yield self._range(category, name, 0, each.stream or 0, each.start_ns, each.end_ns, args)
        yield self._flow("s", self.pid, self.pid, launch[0])
        yield self._flow("f", 0, each.stream or 0, each.start_ns) | {"bp": "e"}

    def _said(self, talk: Talk, seq: int) -> Record:
        """What the profiler writes beside a collective, on the op and on the kernel.

        A send states only where to, a receive only where from, and each rank counts the sends and
        receives of a group for itself.
        """
        group, alone = talk.group, talk.peer is None
        times = self.plan.gaps.sized.get(self.rank, 1) if group.kind == "data" else 1
        listed = ", ".join(map(str, group.ranks[:MOST_RANKS]))
        more = ", ..." if len(group.ranks) > MOST_RANKS else ""
        named = f"{group.name} {seq} {alone} {group.ranks[0]} {len(group.ranks)}"
        said: Record = {
            "Collective name": talk.kind,
            "In msg nelems": talk.in_elements * times,
            "Out msg nelems": talk.out_elements * times,
            "Group size": len(group.ranks),
            "dtype": "BFloat16",
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": group.name,
            "Process Group Description": group.description,
            "Process Group Ranks": f"[{listed}{more}]",
            "Seq": seq,
            "Comms Id": int.from_bytes(blake2b(named.encode(), digest_size=8).digest()),
        }
        if not alone:
            said["Dst Rank" if talk.kind == "send" else "Src Rank"] = talk.peer
        return {name: given for name, given in said.items() if name not in self.plan.gaps.unstated}

    def _said_by_the_op(self, talk: Talk) -> Record:
        ranks = talk.group.ranks
        stride = ranks[1] - ranks[0] if len(ranks) > 1 else 0
        at = self.rank if talk.peer is None else talk.peer
        return {"Global rank start": ranks[0], "Global rank stride": stride,
                "Rank": ranks.index(at), "Is asynchronized op": 1}  # fmt: skip

    def _host(self, category: str, name: str, start: int, end: int, **args: object) -> Record:
        if category != "cuda_runtime":
            self.external += 1
        given = {"External id": self.external, **args}
        return self._range(category, name, self.pid, self.pid, start, end, given)

    def _range(
        self, category: str, name: str, pid: int, tid: int, start: int, end: int, args: Record
    ) -> Record:
        at, until = self._at(start), self._at(end)
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                "ts": at / 1000, "dur": (until - at) / 1000, "args": args}  # fmt: skip

    def _flow(self, phase: str, pid: int, tid: int, at: int) -> Record:
        return {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": self.correlation,
                "pid": pid, "tid": tid, "ts": self._at(at) / 1000}  # fmt: skip

    def _at(self, true_ns: int) -> int:
        """As `local_ns`, since the base."""
        since = true_ns - self.plan.start_ns
        return self.zero + since + (round(since * self.drift) if self.drift else 0)
