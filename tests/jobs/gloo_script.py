"""Four ranks that train on this CPU with gloo, one of them late: `gloo_script.py FOLDER`.

Rank 2 sleeps before the gradients are summed, in every step. torch's own profiler writes the files.
"""

from __future__ import annotations

import sys
import time

import torch
import torch._inductor  # the profiler imports it, so here once and not in each rank
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

RANKS = 4
SLOW, LATE_S = 2, 0.3


def train(rank: int, folder: str) -> None:
    """One rank, of five steps the last three recorded."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=RANKS)
    model, batch = torch.nn.Linear(256, 256), torch.randn(64, 256)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3),
        on_trace_ready=tensorboard_trace_handler(f"{folder}/traces", use_gzip=True),
        record_shapes=True,
    ) as recording:
        for _ in range(5):
            model(batch).square().mean().backward()
            time.sleep(LATE_S if rank == SLOW else 0)
            for weight in model.parameters():
                dist.all_reduce(weight.grad)
            recording.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    # forked, so that torch is imported once
    forked = torch.multiprocessing.get_context("fork")
    ranks = [forked.Process(target=train, args=(rank, sys.argv[1])) for rank in range(RANKS)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    sys.exit(any(each.exitcode for each in ranks))
