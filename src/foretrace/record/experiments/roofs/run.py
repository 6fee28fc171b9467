"""`foretrace roofs`: measures this machine's GPU, or its CPU where there is none."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

from foretrace.base.errors import MissingError
from foretrace.record.experiments.roofs.document import made
from foretrace.record.experiments.roofs.environment import environment
from foretrace.record.experiments.roofs.measuring import Found, measured
from foretrace.schema.roofs import MeasuredRoofs

# an H200 takes about a minute
BUDGET_S = {"gpu": 110.0, "cpu": 50.0}
NO_TRITON = "the kernels of `roofs` need Triton on a GPU: pip install 'foretrace[kernels]'"


def roofs(device: str | None, say: Callable[[str], None]) -> MeasuredRoofs:
    """Every figure of the GPU, or of the CPU."""
    kind = "cpu" if device == "cpu" or not torch.cuda.is_available() else "gpu"
    if device == "cuda" and kind == "cpu":
        raise MissingError("torch sees no CUDA GPU: leave --device out to measure the CPU")
    began = time.monotonic()
    found, not_here = _gpu(say) if kind == "gpu" else _cpu(say)
    around = environment()
    name = around.get("gpu") or cpu_name()
    if kind == "cpu":
        name = cpu_name()
    seconds = time.monotonic() - began
    return made(found, around, device=name, kind=kind, not_here=not_here, seconds=seconds)


def _gpu(say: Callable[[str], None]) -> tuple[Found, dict[str, str]]:
    try:
        from foretrace.record.experiments.roofs import gpu
    except ModuleNotFoundError as error:
        raise MissingError(NO_TRITON) from error
    from foretrace.record.experiments.roofs.clock import warm_up

    warm_up()
    return measured(gpu.figures(), _forget, say, BUDGET_S["gpu"]), gpu.NOT_HERE


def _cpu(say: Callable[[str], None]) -> tuple[Found, dict[str, str]]:
    from foretrace.record.experiments.roofs import cpu

    return measured(cpu.figures(), _forget, say, BUDGET_S["cpu"]), cpu.NOT_HERE


def _forget(_: Found) -> None:
    """The document is written at the end."""


def cpu_name() -> str:
    """As the system calls it, with the number of its cores."""
    from foretrace.record.experiments.roofs.cpu import cores

    name = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {cores()} cores"
