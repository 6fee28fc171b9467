"""Traces to compare: the recorded ones, opened once, and made-up ones with exact numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import foretrace as ft
from corpus.builder import TraceBuilder
from corpus.places import RECORDED
from foretrace.trace.trace import Trace
from opened_traces import opened

LADDER = {
    "mlp eager": "mlp_eager_64x128x768x3072_bf16",
    "mlp fused": "mlp_fused_64x128x768x3072_bf16",
    "mlp compiled": "mlp_compiled_64x128x768x3072_bf16",
    "mlp graph": "mlp_compiled_reduce-overhead_64x128x768x3072_bf16",
    "train eager": "mlp_eager_64x128x768x3072_backward_bf16",
    "train compiled": "mlp_compiled_64x128x768x3072_backward_bf16",
    "attention naive": "attention_naive_8x16x1024x64_bf16",
    "attention flash": "attention_flash_8x16x1024x64_bf16",
    "optimizer loop": "train_step_forloop_4x512x4x768x12x3072x32000_bf16",
    "optimizer fused": "train_step_fused_4x512x4x768x12x3072x32000_bf16",
    "model eager": "model_llama_4x512x4x768x12x3072x32000_bf16",
    "model compiled": "model_compiled_4x512x4x768x12x3072x32000_bf16",
}


@cache
def recorded(name: str) -> Trace:
    """A recorded trace by its name, or a trace of the ladder by the short name above."""
    path = (
        RECORDED / "ladder" / f"{LADDER[name]}.json.gz"
        if name in LADDER
        else RECORDED / f"{name}.json.gz"
    )
    return opened(path)


def written(folder: Path, builder: TraceBuilder, name: str = "made") -> Path:
    """What a `TraceBuilder` holds, as a file."""
    path = folder / f"{name}.json"
    path.write_bytes(builder.bytes())
    return path


def made(folder: Path, builder: TraceBuilder, name: str = "made") -> Trace:
    return ft.open(written(folder, builder, name), cache=False)


def steps(
    lengths: list[int],
    *,
    kernel_ns: int = 1_000,
    region: str = "",
    name: str = "sgemm",
    kernels: int = 1,
) -> TraceBuilder:
    """One step for each host length; each launches `kernels` kernels of `kernel_ns`, one after the
    other.
    """
    builder, at = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        builder.step(number, at, length)
        if region:
            builder.region(region, at + 1, length - 2)
        for n in range(kernels):
            builder.op(
                "aten::mm", at + 10 + 100 * n, 90, dims=[[8, 8], [8, 8]], types=["float", "float"]
            )
            builder.launch(at + 20 + 100 * n, 10).kernel(
                name, at + 1_000 + n * kernel_ns, kernel_ns
            )
        at += length + 10_000
    return builder
