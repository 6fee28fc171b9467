"""Counts the kernels of `foretrace lab roofs` with Nsight Compute, and prints what it counted over
what they move or compute. Needs the card.

python tools/roof_counters.py walks         reads, writes and copies, half a minute
python tools/roof_counters.py arithmetic    tensor cores and matmuls
python tools/roof_counters.py gelu_mul      gelu(gate) * up behind its producers, itself and a flood
"""

from __future__ import annotations

import csv
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

SECTOR = 32  # bytes
MARK = "mark_kernel"  # the second number of its grid says which kernel follows
TIME = "gpu__time_duration.sum"
MEMORY = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    TIME,
)
TYPES = ("bf16_dst_fp32", "fp16", "tf32_dst_fp32", "fp8", "int8", "fp64")
TENSOR = (*(f"sm__ops_path_tensor_src_{each}.sum" for each in TYPES), TIME)


class Counted(NamedTuple):
    """One launch: what runs before it, and the bytes or FLOP that it should count."""

    name: str
    run: Callable[[], object]
    before: Callable[[], object]
    expected: int


def walks() -> Iterator[Counted]:
    """Reads, writes and copies by working set, as `foretrace lab roofs` launches them."""
    from foretrace.record.experiments.roofs import gpu as gpu_memory

    for way in gpu_memory.WAYS:
        for size in gpu_memory.working_sets():
            for shape in gpu_memory.shapes_of(size, gpu_memory.multiprocessors(), way):
                ready = gpu_memory.launch(way, size, shape)
                yield Counted(f"{way} {size} {shape}", ready.run, ready.run, ready.moved)


def arithmetic() -> Iterator[Counted]:
    """Tensor cores alone, and matmuls through torch."""
    from foretrace.record.experiments.roofs import gpu

    for name in gpu.DOTS:
        run, flops = gpu.dot_launch(name, 1024)
        yield Counted(f"tensor cores {name}", run, run, flops)
    for name in gpu.MATMULS:
        run = gpu.matmul_call(name, 4096)
        yield Counted(f"matmul {name} 4096", run, run, 2 * 4096**3)


def gelu_mul() -> Iterator[Counted]:
    """`gelu(gate) * up` behind its producers, behind itself, and behind a flood of L2."""
    from foretrace.record.experiments.roofs import gpu

    for rows in (1024, gpu.ROWS):
        for behind in gpu.BEHIND:
            yield Counted(f"gelu*mul {rows} behind {behind}", *gpu.gelu_launch(rows, behind))


METRICS = {"walks": MEMORY, "gelu_mul": MEMORY, "arithmetic": TENSOR}
LAUNCHES = {"walks": walks, "gelu_mul": gelu_mul, "arithmetic": arithmetic}


def launch(run: str, plan: Path) -> None:
    """Under Nsight Compute: every kernel once, behind an empty one whose grid has its number."""
    import torch

    from foretrace.record.experiments.roofs.roof_kernels import mark_kernel

    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    planned = {}
    for number, ready in enumerate(LAUNCHES[run](), 1):
        ready.run()  # compiles
        with torch.cuda.profiler.profile():
            mark_kernel[(1, number)](out, num_warps=1)
            torch.cuda.synchronize()
        ready.before()
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            ready.run()
            torch.cuda.synchronize()
        planned[number] = [ready.name, ready.expected]
        plan.write_text(json.dumps(planned))
        del ready
        gc.collect()


def main(run: str) -> None:
    with TemporaryDirectory() as folder:
        plan, log = Path(folder, "plan.json"), Path(folder, "ncu.csv")
        # as the program leaves clocks and caches, and only between profile() and its end
        how = "--clock-control none --cache-control none --profile-from-start off"
        wide = f"--csv --page raw --print-units base {how} --log-file {log}"
        command = ["ncu", *wide.split(), "--metrics", ",".join(METRICS[run])]
        subprocess.run([*command, sys.executable, __file__, run, str(plan)], check=True)
        planned = json.loads(plan.read_text())
        lines = log.read_text().splitlines()
    table = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    name, own = "", 0
    for row in csv.DictReader(lines[table:]):
        if not row["ID"]:  # the units
            continue
        if row["Kernel Name"] == MARK:
            name, own = planned[row["Grid Size"].strip("()").split(",")[1].strip()]
            continue
        counted = {metric: float(row[metric].replace(",", "")) for metric in METRICS[run]}
        time = counted.pop(TIME)
        shares = {
            metric: value * (SECTOR if "sectors" in metric else 1) / own
            for metric, value in counted.items()
            if value
        }
        said = ", ".join(f"{metric.split('.')[0]} {share:.4f}" for metric, share in shares.items())
        print(f"{name}: {own / time:.0f} GB/s or GFLOP/s; {said}", flush=True)


if __name__ == "__main__":
    launch(sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else main(sys.argv[1])
