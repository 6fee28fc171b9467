"""A job as a plan: its ranks, groups, work, network, delays, clocks and what its files lack.

Times are integer nanoseconds and sizes are bytes, so that the truth about a plan is exact.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Cause = Literal["compute", "code", "host", "data", "copies"]


class Delay(Struct, frozen=True):
    """Time that some ranks need more than the others, in every step or in `steps` (from 0).

    `compute` makes the same kernels longer (a slow GPU), `code` adds a kernel (other code).
    """

    cause: Cause
    ns: int
    ranks: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class Clock(Struct, frozen=True):
    """What the clock of a host shows: true time + offset, and drift since the job began."""

    offset_ns: int = 0
    drift_ppm: float = 0.0


class Gaps(Struct, frozen=True):
    """What is wrong with the files of a job; all else is as simulated.

    `unrecorded` has (rank, kind of group, seq) of collectives that a file lacks, and `unstated`
    the arguments that no collective carries. Of what is `cut`, the part `kept` remains. `sized`
    has ranks whose gradients state so many times the elements.
    """

    missing: tuple[int, ...] = ()
    double: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    kept: float = 0.5
    damaged: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    unrecorded: tuple[tuple[int, str, int], ...] = ()
    unstated: tuple[str, ...] = ()
    sized: dict[int, int] = {}
    worlds: dict[int, int] = {}  # the world size that a rank claims
    steps: dict[int, tuple[int, ...]] = {}  # the steps (from 0) that a rank recorded


class Plan(Struct, frozen=True):
    """A training job. Ranks count tensor parallelism fastest, then data, then pipeline.

    A step loads a batch, copies it to the GPU, and runs `layers` forward and backward for each of
    `microbatches`. The gradients of each layer are summed over the data-parallel group, under the
    backward of the next layer if `overlap`; `sharded` gathers the weights of a layer before its
    forward and scatters its gradients instead. An optimizer ends the step, and the host waits for
    it if `sync`.

    `kernels` and `frames` make files larger, not the job: a layer of the same time is so many
    kernels, and so many Python functions surround an op.
    """

    data: int = 4
    tensor: int = 1
    pipeline: int = 1
    ranks_per_host: int = 8
    steps: int = 3
    first_step: int = 2
    layers: int = 2
    microbatches: int = 1
    overlap: bool = True
    sharded: bool = False
    sync: bool = True
    kernels: int = 1
    frames: int = 0
    forward_ns: int = 200_000  # one layer, one microbatch
    backward_ns: int = 400_000
    optimizer_ns: int = 100_000
    copy_ns: int = 40_000
    load_ns: int = 60_000
    gradient_bytes: int = 16 << 20  # one layer
    activation_bytes: int = 4 << 20  # one microbatch
    bus_gbps: float = 100.0
    slow_hosts: dict[int, float] = {}  # bus bandwidth of every group that touches the host
    slow_groups: dict[str, float] = {}  # bus bandwidth of the group of that name
    rate_noise: float = 0.0  # by how much of itself the time of a transfer varies
    kernel_noise_ns: int = 0  # up to so much is added to a kernel
    host_noise_ns: int = 0  # up to so much the host of a rank needs more in a step
    end_noise_ns: int = 0  # up to so much later a rank sees the end of a collective
    seed: int = 0
    delays: tuple[Delay, ...] = ()
    clocks: dict[int, Clock] = {}  # by host
    start_ns: int = 1_794_000_000_000_000_000
    gaps: Gaps = Gaps()
    host_first: bool = False  # files list the host's events before those of the GPU, as Kineto does
    by_rank: bool = False  # files named by rank, not by host and process
    stated_steps: bool = True

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline

    @property
    def hosts(self) -> int:
        return -(-self.world // self.ranks_per_host)

    def host(self, rank: int) -> int:
        return rank // self.ranks_per_host

    def clock(self, rank: int) -> Clock:
        return self.clocks.get(self.host(rank), Clock())

    def delay(self, cause: Cause, rank: int, step: int) -> int:
        """What a cause adds to a step of a rank."""
        return sum(
            delay.ns
            for delay in self.delays
            if delay.cause == cause
            and (rank in delay.ranks or self.host(rank) in delay.hosts)
            and (not delay.steps or step in delay.steps)
        )
