"""Runs one rung: resolves the device, builds it, captures it, and says in the run record what ran."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from foretrace.errors import MissingError, UsageError
from foretrace.ladder._names import file_name
from foretrace.profiling.calls import capture_call
from foretrace.profiling.window import Capture
from foretrace.schema.rung import COMPILED, Choice, Rung, Setup


def climb(rung: Rung, choice: Choice, folder: str | os.PathLike[str], **capture: Any) -> Capture:
    """Capture one rung into `folder`; `capture` goes to `capture_call` (steps, warmup, shapes,
    overwrite, ...).
    """
    setup = prepare(rung, choice)
    # A page of C++ frames that says what is expected of bf16 on such a CPU: it works, slowly.
    warnings.filterwarnings("ignore", message="mkldnn_matmul failed")
    torch.manual_seed(choice.seed)
    built = rung.build(setup)
    facts = {
        "rung": {
            "name": rung.name,
            "variant": setup.variant,
            "compiled": choice.compiles,
            "mode": choice.mode if choice.compiles else None,
            "device": setup.device,
            "dtype": setup.dtype,
            "seed": choice.seed,
            "region": built.region,
            "options": dict(setup.values),
            "facts": dict(built.facts),
        }
    }
    path = Path(folder) / file_name(rung, setup, choice)
    return capture_call(built.call, path, region=built.region, facts=facts, **capture)


def prepare(rung: Rung, choice: Choice) -> Setup:
    """The setup a choice amounts to here, or the error that says what is missing."""
    default = next(iter(rung.variants))
    variant = default if choice.variant in (None, COMPILED) else choice.variant
    if variant not in rung.variants:
        raise UsageError(
            f"{rung.name} has no variant {variant!r}: there are "
            f"{', '.join([*rung.variants, COMPILED])}"
        )
    device = find_device(choice.device)
    return Setup(
        device=device,
        dtype=find_dtype(choice.dtype, device),
        variant=str(variant),
        values=rung.values(choice.values, small=choice.small),
        compile=compiler(choice.mode, device, choice.dynamic)
        if choice.compiles
        else lambda thing: thing,
    )


def find_device(wanted: str) -> str:
    """`auto` is the GPU where there is one."""
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise MissingError("no CUDA GPU is visible to torch here: run with --device cpu")
    return ("cuda" if there else "cpu") if wanted == "auto" else wanted


def find_dtype(wanted: str, device: str) -> str:
    """`auto` is bf16, as in the article, except on a CPU that cannot multiply it (a hundred times
    slower there).
    """
    if wanted != "auto":
        return wanted
    return "bf16" if device == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported() else "fp32"


def torch_dtype(name: str) -> torch.dtype:
    """`bf16` -> `torch.bfloat16`."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]


def compiler(mode: str, device: str, dynamic: bool | None = None) -> Callable[[Any], Any]:
    """`torch.compile` in that mode, or the error that says what it needs here."""
    if device == "cpu" and not any(
        shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++")
    ):
        raise MissingError(
            "torch.compile needs a C++ compiler on a CPU: install g++ (apt install g++)"
        )
    if device == "cpu":
        from torch._inductor import config as inductor

        inductor.cpp.enable_kernel_profile = True  # else a CPU trace does not show what was fused
    return lambda thing: torch.compile(
        thing, mode=None if mode == "default" else mode, dynamic=dynamic
    )
