"""What `foretrace job` costs on a thousand ranks, in time and memory, and whether it is right.

    python benchmarks/job.py --ranks 1024 --megabytes 10 --json results.json
    python benchmarks/job.py --beside --hta LIBRARIES --tracelens LIBRARIES --json results.json

The traces are simulated (tests/jobs/plan): every answer is known. A file of 10 MB is
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
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
sys.path.insert(0, str(HERE))

from job_beside import beside  # noqa: E402
from job_runs import Run, write  # noqa: E402

import foretrace as ft  # noqa: E402
from foretrace.jobs.documents import JobDocument  # noqa: E402
from jobs.plan import Clock, Delay, Plan, sized  # noqa: E402
from jobs.plan.distance import distance  # noqa: E402

SLOW = 5  # the rank whose kernels take longer


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
