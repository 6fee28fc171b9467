"""What `foretrace job` costs on a thousand ranks, in time and memory, and whether it is right.

    python benchmarks/job.py --ranks 1024 --megabytes 10 --json results.json
    python benchmarks/job.py --beside --hta LIBRARIES --tracelens LIBRARIES --json results.json

The traces are simulated (tests/analyze/jobs/plan): every answer is known. A file of 10 MB is
10 MB of JSON, gzipped; `--plain` leaves it unpacked. All is measured in one run:

    single  `foretrace.open` of some files, one after the other in one warm process, with no cache;
            the files take turns with the job, so both see the same machine
    job     `foretrace job FOLDER --no-cache --json` in a fresh process, its start included
    cpu     the processor time of either: what remains the same when others use the machine
    memory  the proportional set sizes of all its processes together, sampled once a second: the
            sampler takes its time from the same cores

`--beside` runs foretrace, HTA and TraceLens on the same 8 ranks, one after the other. Each library
is a folder made by `pip install --target`; TraceLens is not on PyPI, its sources will do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
sys.path.insert(0, str(HERE))

from jobs.plan import Answer, Clock, Delay, Plan, sized  # noqa: E402
from jobs.plan.answer import answer  # noqa: E402
from jobs.plan.distance import distance  # noqa: E402
from jobs.plan.kineto import file_name  # noqa: E402
from jobs.plan.simulate import Simulation, simulate  # noqa: E402
from jobs.plan.write import write_ranks  # noqa: E402

import foretrace as ft  # noqa: E402
from foretrace.schema.documents.job import JobDocument  # noqa: E402

SLOW = 5  # the rank whose kernels take longer
SAMPLE_S = 1.0


def plan_of(ranks: int, megabytes: float) -> Plan:
    """A job with tensor and pipeline parallelism as its size allows, and a clock for each host."""
    tensor, pipeline = (8 if ranks >= 64 else 2), (4 if ranks >= 64 else 1)
    per_host = min(8, ranks // 2)
    hosts = -(-ranks // per_host)
    plan = Plan(
        data=ranks // (tensor * pipeline),
        tensor=tensor,
        pipeline=pipeline,
        ranks_per_host=per_host,
        layers=4,
        microbatches=4 if pipeline > 1 else 1,
        delays=(Delay("compute", 2_000_000, ranks=(SLOW,)),),
        clocks={host: Clock(37_000 * host, 0.01 * (host % 7)) for host in range(1, hosts)},
        by_rank=True,
    )
    plan = sized(plan, round(megabytes * 1e6))
    # the GPU has the more to do: a launch takes 6 us
    return replace(plan, forward_ns=plan.kernels * 10_000, backward_ns=plan.kernels * 15_000)


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


def single_reads(files: list[Path]) -> list[tuple[float, float]]:
    """Wall and processor time of each file, read alone in this process; the first is read twice."""
    ft.open(files[0], cache=False)
    spent = []
    for path in files:
        start, cpu = time.perf_counter(), time.process_time()
        ft.open(path, cache=False)
        spent.append((time.perf_counter() - start, time.process_time() - cpu))
    return spent


def thousand(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One job of many ranks."""
    plan, packed = plan_of(arguments.ranks, arguments.megabytes), not arguments.plain
    start = time.perf_counter()
    truth, unpacked = write(plan, folder, packed=packed)
    print(f"wrote {plan.world} files in {time.perf_counter() - start:.0f} s", flush=True)
    files = list(truth.files.values())
    some = files[:: max(1, len(files) // arguments.sample)]
    spent = single_reads(some)
    command = [sys.executable, "-m", "foretrace", "job", str(folder), "--json"]
    run = Run([*command, "--no-cache"])
    spent += single_reads(some)
    document = msgspec.json.decode(run.output, type=JobDocument)
    cores = os.cpu_count() or 1
    wall, cpu = (median(each) for each in zip(*spent, strict=True))
    bound = wall * plan.world / cores
    return {
        "ranks": plan.world,
        "groups": {"data": plan.data, "tensor": plan.tensor, "pipeline": plan.pipeline},
        "file_bytes_unpacked": unpacked,
        "file_bytes_on_disk": round(sum(path.stat().st_size for path in files) / len(files)),
        "single_read_s": round(wall, 4),
        "single_read_cpu_s": round(cpu, 4),
        "single_reads_over_cores_s": round(bound, 1),
        "job_s": round(run.seconds, 1),
        "job_cpu_s": round(run.cpu_s, 1),
        "times_the_single_reads": round(run.seconds / bound, 3),
        "times_the_single_reads_cpu": round(run.cpu_s / (cpu * plan.world), 3),
        "memory_bytes": run.most_bytes,
        "processes": run.processes,
        "right": msgspec.to_builtins(distance(document, truth)),
    }


def main() -> None:
    """Measure, print, and keep the numbers where asked to, beside those of other runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--sample", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="where to keep the traces")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--hta", type=Path)
    parser.add_argument("--tracelens", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.folder or Path(folder)
        if arguments.beside:
            from job_beside import beside

            found = beside(
                plan_of(8, arguments.megabytes), place, arguments.hta, arguments.tracelens
            )
        else:
            found = thousand(arguments, place)
    line = " ".join(["python", *sys.argv])
    machine = {"command": line, "cores": os.cpu_count(), "machine": platform.machine()}
    name = "beside" if arguments.beside else f"{found['ranks']} ranks"
    kept = arguments.json.read_bytes() if arguments.json and arguments.json.exists() else b"{}"
    text = json.dumps({**json.loads(kept), name: {**machine, **found}}, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
