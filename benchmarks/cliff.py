"""One GeGLU activation over row counts, through L2 into HBM: unfused, fused, and with a copy.

    python benchmarks/cliff.py -o benchmarks/results/h200-cliff.json --plot cliff.svg
    python benchmarks/cliff.py --show benchmarks/results/h200-cliff.json

Measuring needs a CUDA GPU, drawing needs matplotlib alone. The time is device time: a CUDA graph
repeats the activation, and events around its replay give the median of nine. The same tensors come
back in every repetition, so that whatever fits in L2 is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HIDDEN = 3072
ROWS = (64, 128, 256, 384, 512, 768, *range(1024, 3073, 256), 3584, 4096, 5120, 6144, 8192)
ROWS += (12288, 16384, 24576, 32768, 65536)
TENSORS = {"unfused": 5, "fused": 3, "copied": 5, "unfused_copied": 7}  # read or written
LABELS = {
    "unfused": "gelu, mul",
    "fused": "one kernel",
    "copied": "copy, one kernel",
    "unfused_copied": "copy, gelu, mul",
}


def measured() -> dict[str, Any]:
    """Every row count on this GPU."""
    import torch

    torch._dynamo.config.recompile_limit = 1000
    card = torch.cuda.get_device_properties(0)
    rows = [{"rows": count, "tensor_bytes": count * HIDDEN * 2, **_times(count)} for count in ROWS]
    facts = {"device": card.name, "l2_bytes": card.L2_cache_size, "torch": str(torch.__version__)}
    return {**facts, "hidden": HIDDEN, "dtype": "bf16", "rows": rows}


def _times(rows: int) -> dict[str, Any]:
    repeats = max(4, min(100, int(4e5 // rows)))
    return {
        name: {**graph_us(call, repeats), "tensors": TENSORS[name]} for name, call in _calls(rows)
    }


def _calls(rows: int) -> Iterator[tuple[str, Callable[[], object]]]:
    import torch
    import torch.nn.functional as F

    def plain(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.gelu(gate) * up

    def random(columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)

    fused = torch.compile(plain, dynamic=False)
    gate, up, half = random(HIDDEN), random(HIDDEN), random(2 * HIDDEN)[:, HIDDEN:]
    yield "unfused", lambda: plain(gate, up)
    yield "fused", lambda: fused(gate, up)
    yield "copied", lambda: fused(gate, half.contiguous())
    yield "unfused_copied", lambda: plain(gate, half.contiguous())


def graph_us(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Device time of one call in us: median, least and most of nine replays."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(9):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / repeats)
    return {"us": statistics.median(times), "min": min(times), "max": max(times)}


def row_text(row: dict[str, Any]) -> str:
    """`  8,192 rows  gelu, mul 70.8 us, 8.65 ns a row, 3.55 TB/s; …`."""
    shown = []
    for name, label in LABELS.items():
        us, moved = row[name]["us"], row[name]["tensors"] * row["tensor_bytes"]
        per_row, rate = us * 1e3 / row["rows"], moved / us / 1e6
        shown.append(f"{label} {us:.1f} us, {per_row:.2f} ns a row, {rate:.2f} TB/s")
    return f"{row['rows']:7,} rows  {'; '.join(shown)}"


def plot(found: dict[str, Any], path: Path) -> None:
    """Time per row and rate over the size of one tensor; the line is where four of them fill L2."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # text stays text, and the same results give the same file
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cliff"})
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    sizes = [row["tensor_bytes"] / 1e6 for row in found["rows"]]
    for index, (name, label) in enumerate(LABELS.items()):
        times = [row[name]["us"] for row in found["rows"]]
        per_row = [us * 1e3 / row["rows"] for us, row in zip(times, found["rows"], strict=True)]
        moved = [size * TENSORS[name] for size in sizes]
        above.plot(sizes, per_row, ".-", color=f"C{index}", label=label)
        rates = [mb / us for mb, us in zip(moved, times, strict=True)]
        below.plot(sizes, rates, ".-", color=f"C{index}")
    full = found["l2_bytes"] / 4 / 1e6
    for axis, label, most in ((above, "ns a row", 30), (below, "TB/s", 5)):
        axis.axvline(full, color="grey", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xticks([1, 10, 100], ["1", "10", "100"])
        axis.minorticks_off()
        axis.set_ylim(0, most)
        axis.set_ylabel(label, fontsize=9)
        axis.grid(alpha=0.3)
    below.set_xlabel(
        "one tensor of rows x 3072 in bf16, MB; grey: four of them fill L2", fontsize=9
    )
    above.legend(fontsize=8, ncols=4)
    where = f"{found['device']}, torch {found['torch']}"
    figure.suptitle(f"gelu(gate) * up over row counts, {where}", fontsize=10)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure or read, print, and draw and write where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-o", "--output", type=Path)
    options.add_argument("--show", type=Path, help="results to show, measured before")
    options.add_argument("--plot", type=Path)
    chosen = options.parse_args()
    found = json.loads(chosen.show.read_text()) if chosen.show else measured()
    print("\n".join(map(row_text, found["rows"])))
    if chosen.output:
        chosen.output.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.plot:
        plot(found, chosen.plot)


if __name__ == "__main__":
    main()
