"""Counts the kernels of `foretrace roofs` with Nsight Compute, and prints what it counted over what
they move or compute. Needs the card.

python tools/roof_counters.py walks         reads, writes and copies, half a minute
python tools/roof_counters.py arithmetic    tensor cores and matmuls
python tools/roof_counters.py gelu_mul      gelu(gate) * up behind its producers, itself and a flood
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from foretrace.base.files import scratch
from foretrace.read.ncu import read_export
from foretrace.record.experiments.gemms.events import MARK, mark_grid, marked_number
from foretrace.record.profiling.ncu import Choosing, count
from foretrace.schema.counters import SECTOR

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
METRICS = {"walks": MEMORY, "gelu_mul": MEMORY, "arithmetic": TENSOR}


def launch(run: str, plan: Path) -> None:
    """Under Nsight Compute: every kernel once, behind an empty one whose grid has its number."""
    import torch

    from foretrace.record.experiments.roofs import counted
    from foretrace.record.experiments.roofs.memory_kernels import mark_kernel

    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    planned = {}
    for number, make in enumerate(getattr(counted, run)(), 1):
        ready = make()
        ready.run()  # compiles
        with torch.cuda.profiler.profile():
            mark_kernel[mark_grid(number)](out, num_warps=1)
            torch.cuda.synchronize()
        ready.before()
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            ready.run()
            torch.cuda.synchronize()
        planned[number] = [ready.name, ready.expected.get("bytes") or ready.expected["flops"]]
        plan.write_text(json.dumps(planned))
        del ready
        gc.collect()


def main(run: str) -> None:
    with scratch() as folder:
        plan = folder / "plan.json"
        target = [sys.executable, __file__, run, str(plan)]
        done = count(target, METRICS[run], folder, choice=Choosing(inside=True), say=print)
        planned = json.loads(plan.read_text())
    number = 0
    for each in read_export(done.log, "ncu").launches:
        if each.name == MARK:
            number = marked_number(each.grid)
            continue
        name, own = planned[str(number)]
        shares = {
            metric: value * (SECTOR if "sectors" in metric else 1) / own
            for metric, value in each.metrics.items()
            if metric in METRICS[run] and metric != TIME and value
        }
        said = ", ".join(f"{metric.split('.')[0]} {share:.4f}" for metric, share in shares.items())
        print(f"{name}: {own / each.metrics[TIME]:.0f} GB/s or GFLOP/s; {said}", flush=True)


if __name__ == "__main__":
    launch(sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else main(sys.argv[1])
