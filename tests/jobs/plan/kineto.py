"""A rank of a simulated job as a file in Kineto's format, as torch 2.11 writes it with NCCL."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from jobs.plan.layout import Group
from jobs.plan.plan import Plan
from jobs.plan.program import LOADER, Begin, Copy, End, Kernel, Talk, Work
from jobs.plan.simulate import Done, Simulation

BASE_NS = 1_790_857_026_000_000_000
NAMES = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "send": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "recv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}
RANGES = {"allreduce": "nccl:all_reduce", "send": "nccl:send", "recv": "nccl:recv"}
CARD = {"name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32,
        "totalGlobalMem": 85_017_493_504}  # fmt: skip
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
            "world_size": plan.world,
            "pg_count": len(own),
            "pg_config": [_config(group) for group in own],
            "nccl_version": "2.28.9",
        },
        "record_shapes": 1,
        "cuda_runtime_version": 13000,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
        "traceName": f"/traces/{file_name(plan, rank)}",
        "traceEvents": list(_Writer(plan, rank).events(simulation.done[rank])),
    }


def file_name(plan: Plan, rank: int) -> str:
    """As torch.profiler.tensorboard_trace_handler names it: host, process, time."""
    milliseconds = plan.start_ns // 1_000_000
    return f"node{plan.host(rank):03d}_{pid_of(rank)}.{milliseconds}.pt.trace.json"


def pid_of(rank: int) -> int:
    return 4000 + rank


def local_ns(plan: Plan, rank: int, at: int) -> int:
    """True time as the clock of the rank's host shows it."""
    clock = plan.clock(rank)
    return at + clock.offset_ns + round((at - plan.start_ns) * clock.drift_ppm / 1e6)


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
        self.external, self.correlation = 1000, 50_000

    def events(self, done: list[Done]) -> Iterator[Record]:
        begun = 0
        for each in done:
            match each.what:
                case Begin():
                    begun = each.host_ns
                case End(step):
                    name = f"ProfilerStep#{self.plan.first_step + step}"
                    yield self._host("user_annotation", name, begun, each.host_end_ns)
                    start, end = each.host_ns, each.host_end_ns
                    yield self._host("cuda_runtime", "cudaDeviceSynchronize", start, end, cbid=165)
                case Work(name):
                    category = "user_annotation" if name == LOADER else "cpu_op"
                    yield self._host(category, name, each.host_ns, each.host_end_ns)
                case Kernel(op, name, _, shape):
                    yield from self._launched(each, "kernel", op, name, dims=[list(shape)] * 2)
                case Copy(ns):
                    args = {"bytes": ns * 20, "memory bandwidth (GB/s)": 20.0}
                    name = "Memcpy HtoD (Pinned -> Device)"
                    yield from self._launched(each, "gpu_memcpy", "aten::copy_", name, more=args)
                case Talk() as talk:
                    yield from self._talk(each, talk)

    def _talk(self, each: Done, talk: Talk) -> Iterator[Record]:
        said = self._said(talk, each.seq)
        middle = each.host_ns + 500, each.host_end_ns - 500
        yield self._host("user_annotation", RANGES[talk.kind], *middle)
        name = NAMES[talk.kind]
        yield from self._launched(each, "kernel", "record_param_comms", name, more=said, said=said)

    def _launched(
        self,
        each: Done,
        category: str,
        op: str,
        name: str,
        dims: list[list[int]] | None = None,
        more: Record | None = None,
        said: Record | None = None,
    ) -> Iterator[Record]:
        self.correlation += 1
        shapes = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * 2} if dims else {}
        yield self._host("cpu_op", op, each.host_ns, each.host_end_ns, **shapes, **(said or {}))
        call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernelExC"
        ids = {"External id": self.external, "correlation": self.correlation}
        launch = (each.host_ns + 1_000, each.host_ns + 2_500)
        yield self._host("cuda_runtime", call, *launch, cbid=430, correlation=self.correlation)
        args = {**ids, "device": 0, "context": 1, "stream": each.stream, **(more or {})}
        if category == "kernel":
            args |= {"grid": [132, 1, 1], "block": [384, 1, 1], "queued": 0}
        yield self._range(category, name, 0, each.stream or 0, each.start_ns, each.end_ns, args)
        yield self._flow("s", self.pid, self.pid, launch[0])
        yield self._flow("f", 0, each.stream or 0, each.start_ns) | {"bp": "e"}

    def _said(self, talk: Talk, seq: int) -> Record:
        """What the profiler writes beside a collective, on the op and on the kernel."""
        group = talk.group
        apart = {} if talk.peer is None else {"Rank": self.rank}
        if talk.peer is not None:
            key, other = ("Dst Rank", "Src Rank")[:: 1 if talk.kind == "send" else -1]
            apart |= {key: talk.peer, other: self.rank}
        return {
            "Collective name": talk.kind,
            "In msg nelems": talk.in_elements,
            "Out msg nelems": talk.out_elements,
            "Group size": len(group.ranks),
            "dtype": "BFloat16",
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": group.name,
            "Process Group Description": group.description,
            "Process Group Ranks": str(list(group.ranks)),
            "Seq": seq,
            "Comms Id": zlib.crc32(f"{group.name} {seq} {talk.peer is not None}".encode()),
            **apart,
        }

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
        return local_ns(self.plan, self.rank, true_ns) - BASE_NS
