"""The files of a simulated job, and the truth about it."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from jobs.plan.answer import Answer, answer
from jobs.plan.kineto import document, file_name
from jobs.plan.plan import Plan
from jobs.plan.simulate import Simulation, simulate


def write(plan: Plan, folder: Path) -> Answer:
    """One gzipped file per rank into a folder."""
    simulation = simulate(plan)
    return answer(simulation, write_ranks(simulation, folder, range(plan.world)))


def write_ranks(
    simulation: Simulation, folder: Path, ranks: Iterable[int], *, packed: bool = True
) -> dict[int, Path]:
    """The files of some ranks of a simulation."""
    folder.mkdir(parents=True, exist_ok=True)
    plan, files = simulation.plan, {}
    for rank in ranks:
        if rank in plan.gaps.missing:
            continue
        text = msgspec.json.encode(document(simulation, rank))
        path = folder / f"{file_name(plan, rank)}{'.gz' if packed else ''}"
        stored = _with_gaps(plan, rank, text, packed)
        path.write_bytes(stored)
        files[rank] = path
        if rank in plan.gaps.double:
            path.with_name(f"again_{path.name}").write_bytes(stored)
    return files


def _with_gaps(plan: Plan, rank: int, text: bytes, packed: bool) -> bytes:
    """The bytes of a file as they reach the disk; what is cut lacks its end."""
    if rank in plan.gaps.empty:
        return b""
    if rank in plan.gaps.damaged:
        text = b"\x00damaged" * (len(text) // 8)
    stored = gzip.compress(text, 1, mtime=0) if packed else text
    return stored[: int(len(stored) * plan.gaps.kept)] if rank in plan.gaps.cut else stored


def sized(plan: Plan, size: int, frames: int = 8) -> Plan:
    """The plan with as many kernels per layer as give files of about this many bytes of JSON."""
    small = replace(plan, data=2, tensor=1, pipeline=1, clocks={}, delays=(), frames=frames)

    def bytes_of(kernels: int) -> int:
        simulation = simulate(replace(small, kernels=kernels))
        return len(msgspec.json.encode(document(simulation, 0)))

    one, ten = bytes_of(1), bytes_of(10)
    return replace(plan, frames=frames, kernels=max(1, 9 * (size - one) // (ten - one) + 1))
