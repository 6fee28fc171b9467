"""Simulated traces and measured commands, for the benchmarks of jobs."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from jobs.plan import Answer, Plan
from jobs.plan.answer import answer
from jobs.plan.kineto import file_name
from jobs.plan.simulate import Simulation, simulate
from jobs.plan.write import write_ranks

SAMPLE_S = 1.0


def write(plan: Plan, folder: Path, *, packed: bool) -> tuple[Answer, int]:
    """The files of a plan, by one process per core; and the bytes of one file unpacked.

    Files that a folder has from an earlier run of the same plan are kept.
    """
    simulation, cores = simulate(plan), os.cpu_count() or 1
    ending = ".gz" if packed else ""
    files = {rank: folder / f"{file_name(plan, rank)}{ending}" for rank in range(plan.world)}
    wanted = [rank for rank, path in files.items() if not path.exists()]
    _shared.append(simulation)
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
        shares = [wanted[at::cores] for at in range(cores)]
        list(pool.map(_write_share, [folder] * cores, shares, [packed] * cores))
    first = files[0].read_bytes()
    return answer(simulation, files), len(gzip.decompress(first) if packed else first)


_shared: list[Simulation] = []


def _write_share(folder: Path, ranks: list[int], packed: bool) -> None:
    write_ranks(_shared[-1], folder, ranks, packed=packed)


class Run:
    """A command as it ran: its wall and processor time, its output, the most memory it held."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self.most_bytes = self.processes = 0
        start, cpu = time.perf_counter(), _cpu_of_children()
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command, stdout=output, env={**os.environ, **(env or {})})
            while child.poll() is None:
                held = memory(child.pid)
                self.most_bytes = max(self.most_bytes, sum(held))
                self.processes = max(self.processes, len(held))
                time.sleep(SAMPLE_S)
            self.seconds, self.cpu_s = time.perf_counter() - start, _cpu_of_children() - cpu
            output.seek(0)
            self.output = output.read().decode()
        if child.returncode:
            sys.exit(f"{' '.join(command[:4])} ended with {child.returncode}")


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory(process: int) -> list[int]:
    """The proportional set size of a process and of all that it started, in bytes."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it ended
            children.setdefault(int(stat[1]), []).append(int(entry))
    held, waiting = [], [process]
    while waiting:
        each = waiting.pop()
        waiting += children.get(each, [])
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        held += [int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")]
    return held
