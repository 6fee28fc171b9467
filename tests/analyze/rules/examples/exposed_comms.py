"""Worked examples of `exposed_comms`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


EXAMPLES = (
    Example(
        "an all-reduce after the last kernel",
        lambda: (
            Sketch()
            .step()
            .op("aten::add", kernel(ADD, 20))
            .op("record_param_comms", kernel(NCCL, 30))
            .document()
        ),
        {"collectives": 1, "ns": 30000, "exposed_ns": 30000},
    ),
    Example(
        "no communication",
        lambda: Sketch().step().op("aten::add", kernel(ADD, 20)).document(),
        None,
    ),
)
