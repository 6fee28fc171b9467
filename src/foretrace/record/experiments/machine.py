"""The machine of an experiment: its device, dtype and compiler; an error of torch is one line."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

from foretrace.base.errors import ForetraceError, MissingError, UsageError, first_line
from foretrace.record.rung import COMPILED, Choice, Rung, Setup

# A CPU's allocator has no error class of its own.
_NO_MEMORY = "can't allocate memory"


def prepare(rung: Rung, choice: Choice) -> Setup:
    """The setup that a choice means on this machine."""
    variant = rung.first if choice.variant in (None, COMPILED) else str(choice.variant)
    if variant not in rung.variants:
        known = ", ".join([*rung.variants, COMPILED])
        raise UsageError(f"{rung.name} has no variant {variant!r}: choose from {known}")
    device = find_device(choice.device)
    values = rung.values(choice.values, small=choice.small)
    setup = (device, find_dtype(choice.dtype, device), variant, values)
    if not choice.compiles:
        return Setup(*setup)
    return Setup(*setup, compiler(choice.mode, device, choice.dynamic))


def find_device(wanted: str) -> str:
    """`auto` is the GPU where there is one."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise MissingError("torch finds no CUDA GPU here: run with --device cpu")
    return ("cuda" if available else "cpu") if wanted == "auto" else wanted


def device_name(wanted: str) -> tuple[str, str]:
    """`cuda` or `cpu`, and the name of the device."""
    device = find_device(wanted)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU ({platform.machine()})"
    return device, name


def find_dtype(wanted: str, device: str) -> str:
    """`auto` is bf16, or fp32 on a CPU without bf16 arithmetic (a hundred times slower there)."""
    if wanted != "auto":
        return wanted
    return "bf16" if device == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported() else "fp32"


def compiler(mode: str, device: str, dynamic: bool | None = None) -> Callable[[Any], Any]:
    """`torch.compile` in that mode, or the error that says what it needs here."""
    if device == "cpu":
        if not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++")):
            message = "torch.compile needs a C++ compiler on a CPU: install g++ (apt install g++)"
            raise MissingError(message)
        from torch._inductor import config as inductor

        inductor.cpp.enable_kernel_profile = True  # else a CPU trace does not show what was fused
    named = None if mode == "default" else mode
    return lambda thing: torch.compile(thing, mode=named, dynamic=dynamic)


@contextlib.contextmanager
def refusals(name: str) -> Iterator[None]:
    """Sizes that torch refuses are wrong usage; no memory and a failing compiler are missing."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError) as problem:
        text = first_line(problem)
        if isinstance(problem, torch.OutOfMemoryError | MemoryError) or _NO_MEMORY in str(problem):
            message = f"{name} does not fit into memory: choose smaller sizes, or --small ({text})"
            raise MissingError(message) from problem
        if type(problem).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise MissingError(f"torch.compile cannot compile {name} here: {text}") from problem
        raise UsageError(f"{name} does not run with these options: {text}") from problem


@contextlib.contextmanager
def in_one_line(before: str = "") -> Iterator[None]:
    """Whatever fails inside is a `MissingError` of one line, so that the other runs continue."""
    try:
        yield
    except ForetraceError:
        raise
    except Exception as problem:
        raise MissingError(f"{before}{first_line(problem)}") from problem
