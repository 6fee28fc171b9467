"""Documents of jobs made up from a few numbers: what `foretrace job` would answer about them.

Every rank computes 8 ms and communicates 2 ms of each step of 10 ms, half of it under compute. The
slow rank computes 2 ms longer: the others wait so long for it.
"""

from __future__ import annotations

from foretrace.jobs.documents import (
    SCHEMA,
    JobCell,
    JobClock,
    JobDocument,
    JobEntry,
    JobHost,
    JobNetwork,
    JobPath,
    JobRank,
    JobSegment,
    JobVerdict,
)

MS = 1_000_000


def job_document(
    ranks: int = 4,
    steps: int = 3,
    *,
    slow: int | None = 3,
    late_ms: float = 2,
    scale: float = 1.0,
    hosts: int = 2,
    world_size: int | None = None,
) -> JobDocument:
    """The document of a job whose rank `slow` comes `late_ms` late to one collective a step."""
    late = 0 if slow is None else round(late_ms * MS)
    made = [_rank(rank, slow, late, scale, steps, hosts, ranks) for rank in range(ranks)]
    cells = [_cell(each, step) for each in made for step in range(steps)]
    entry = JobEntry(
        "run42",
        ranks,
        world_size or ranks,
        hosts,
        ["NVIDIA H100"],
        list(range(steps)),
        made[0].wall_ns,
        ranks * MS,
        ranks * 1000,
    )
    path = JobPath(
        1,
        made[0].wall_ns or 0,
        [slow or 0],
        {"compute": 8 * MS + late, "comms": 2 * MS},
        [JobSegment(slow or 0, "compute", "gemm", 0, 8 * MS + late)],
        [],
    )
    network = [
        JobNetwork("all-reduce", "Float", 25 * MS, "0", ranks, 12, 0.2e6, 125.0, 218.0, 230.0),
        JobNetwork("all-gather", "Float", MS, "1", ranks, 6, 0.1e6, 10.0, 8.75, 9.0),
    ]
    bound = "balanced" if slow is None else "straggler"
    verdict = JobVerdict(bound, f"rank {slow} came last", "inspect the GPU of rank 3", "")
    return JobDocument(
        SCHEMA,
        entry,
        made,
        [JobHost(f"node-{host}", ranks // hosts, 0, 0, 0, "", False) for host in range(hosts)],
        cells,
        collectives=2 * steps * ranks,
        matched=2 * steps,
        by_order=0,
        undecided=0,
        perfect_overlap_ns=MS,
        overlap=[],
        bubbles=[],
        path=path,
        network=network,
        outliers=[],
        same=[],
        notes=[],
        left_out=[],
        verdict=verdict,
    )


def _rank(
    rank: int, slow: int | None, late: int, scale: float, steps: int, hosts: int, ranks: int
) -> JobRank:
    is_slow = rank == slow
    wall, base = round(10 * MS * scale) + late, round(8 * MS * scale)
    compute = base + (late if is_slow else 0)
    wait = 0 if is_slow else late
    transfer, exposed = round(2 * MS * scale), wall - compute - round(MS * scale)
    return JobRank(
        rank=rank,
        path=f"run42/rank_{rank}.json.gz",
        host=f"node-{rank * hosts // ranks}",
        device="NVIDIA H100",
        steps=steps,
        wall_ns=wall,
        compute_ns=compute,
        exposed_ns=exposed,
        both_ns=transfer // 2,
        copy_ns=0,
        idle_ns=wall - compute - exposed,
        data_ns=0,
        host_ns=wall - compute - exposed,
        wait_ns=wait,
        transfer_ns=transfer,
        made_others_wait_ns=late * (ranks - 1) if is_slow else 0,
        delays_ns=late if is_slow else 0,
        times_last=2 * steps if is_slow else 0,
        collectives=2 * steps,
        cause="compute" if is_slow else "",
        causes={"compute": 1.0} if is_slow else {},
        slow="gpu" if is_slow else "",
        kernel_ratio=1.25 if is_slow else 1.0,
        clock=JobClock(0, 0.0, 900, True, 2 * steps),
        exposed_wait_ns=wait,
    )


def _cell(rank: JobRank, step: int) -> JobCell:
    """Steps differ by 10 us, so that there is noise."""
    more = 10_000 * step
    return JobCell(
        rank.rank,
        step,
        (rank.wall_ns or 0) + more,
        rank.compute_ns or 0,
        (rank.exposed_ns or 0) + more,
        rank.idle_ns or 0,
        rank.wait_ns,
        True,
    )
