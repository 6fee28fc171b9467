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
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from foretrace.record.experiments.roofs import gpu

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
    for way in gpu.WAYS:
        for size in gpu.working_sets():
            for shape in gpu.shapes_of(size, gpu.multiprocessors(), way):
                run, moved = gpu.launch(way, size, shape)
                yield Counted(f"{way} {size} {shape}", run, run, moved)


def arithmetic() -> Iterator[Counted]:
    """Tensor cores alone, and matmuls through torch."""
    for name in gpu.DOTS:
        run, flops = gpu.dot_launch(name, 1024)
        yield Counted(f"tensor cores {name}", run, run, flops)
    for name in gpu.TYPES:
        run = gpu.matmul_call(name, 4096)
        yield Counted(f"matmul {name} 4096", run, run, 2 * 4096**3)


def gelu_mul() -> Iterator[Counted]:
    """`gelu(gate) * up` of the articles' MLP, with 1,024 and 8,192 rows, as Inductor writes it:
    behind the matmuls that write its input, behind itself, and behind a flood of L2.
    """
    gelu = torch.compile(lambda gate, up: torch.nn.functional.gelu(gate) * up, dynamic=False)
    flood = torch.zeros(1 << 26, device="cuda")
    for rows in (1024, 8192):
        new = {"device": "cuda", "dtype": torch.bfloat16}
        x, gate_w, up_w = (torch.randn(size, 768, **new) for size in (rows, 3072, 3072))
        gate, up = x @ gate_w.t(), x @ up_w.t()
        run = partial(gelu, gate, up)
        before = {"producers": partial(producers, x, gate_w, up_w, gate, up)}
        before |= {"itself": run, "flood": flood.sum}
        for behind, work in before.items():
            yield Counted(f"gelu*mul {rows} behind {behind}", run, work, 3 * 2 * gate.numel())


def producers(x: Tensor, gate_w: Tensor, up_w: Tensor, gate: Tensor, up: Tensor) -> None:
    """The matmuls that write the input of `gelu(gate) * up`."""
    torch.mm(x, gate_w.t(), out=gate)
    torch.mm(x, up_w.t(), out=up)


METRICS = {"walks": MEMORY, "gelu_mul": MEMORY, "arithmetic": TENSOR}
LAUNCHES = {"walks": walks, "gelu_mul": gelu_mul, "arithmetic": arithmetic}


@triton.jit
def mark_kernel(out):
    """An empty kernel, as far as Triton lets it be."""
    if tl.program_id(0) < 0:
        tl.store(out, 0)


def launch(run: str, plan: Path) -> None:
    """Under Nsight Compute: every kernel once, behind an empty one whose grid has its number."""
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
