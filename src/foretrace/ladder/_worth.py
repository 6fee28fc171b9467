"""Runs the trials: eager once at every shape, then each mode of torch.compile from nothing, beside
eager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foretrace.comparison import Comparison, compare
from foretrace.errors import MissingError
from foretrace.ladder import _given
from foretrace.ladder._article import other_work, same_work
from foretrace.ladder._climb import compiler, prepare
from foretrace.ladder._here import device_name, in_one_line
from foretrace.ladder._pace import paces
from foretrace.ladder._stops import GRAPHS
from foretrace.ladder._sweep import Shape, shape_text
from foretrace.ladder._trials import Stay, Trial, Trials, Work
from foretrace.ladder._visits import (
    arrive,
    fresh_compiler,
    recompile_limit,
    runs_compiled,
    start_compiler,
)
from foretrace.opening import open
from foretrace.profiling.calls import capture_call
from foretrace.schema.rung import Choice, Rung

Call = Callable[[], object]
Compile = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried: `make` gives the call of a shape (by number), compiled by what it is handed.
    `region` names the call.

    `blame` is entered around eager calls: it says whose an error is. `device` and `dtype` are None
    where the code decides.
    """

    name: str
    shapes: tuple[str, ...]
    region: str
    device: str | None
    dtype: str | None
    make: Callable[[int, Compile], Call]
    blame: Callable[[], AbstractContextManager[None]]


def of_rung(rung: Rung, shapes: Sequence[Shape], choice: Choice) -> Subject:
    """The rung's first variant at these shapes."""
    setups = [prepare(rung, replace(choice, values=shape)) for shape in shapes]

    def make(at: int, compile: Compile) -> Call:
        torch.manual_seed(choice.seed)
        return rung.build(replace(setups[at], compile=compile)).call

    names = tuple(shape_text(shape) for shape in shapes)
    return Subject(
        rung.name, names, rung.name, setups[0].device, setups[0].dtype, make, in_one_line
    )


def of_code(target: str, shapes: Sequence[tuple[int, ...]]) -> Subject:
    """What a person's own callable makes (see `_given`)."""
    function = _given.find(target)
    names = tuple("x".join(map(str, shape)) or "as it is" for shape in shapes)
    return Subject(
        target,
        names,
        _given.REGION,
        None,
        None,
        lambda at, compile: _given.call_of(function, shapes[at], compile),
        partial(_given.theirs, target),
    )


def try_modes(
    subject: Subject,
    modes: Sequence[str],
    folder: Path,
    keep_cache: bool,
    say: Callable[[str], None],
) -> Trials:
    """Try each mode on the subject; traces of the first shape go to `folder`. `say` is told what
    runs.
    """
    eager, notes = _rehearse(subject, say)
    # Asked after eager calls and before any compiling: Inductor looks at the card even when it
    # compiles for the CPU.
    device, named = device_name(
        subject.device or ("cuda" if torch.cuda.is_initialized() else "cpu")
    )
    say("starting the compiler")
    started = start_compiler(device)
    plain = _trace(eager[0], subject, folder, "eager")
    trials = tuple(_try(subject, mode, eager, plain, device, keep_cache, say) for mode in modes)
    if device == "cpu":
        notes.append(
            "No GPU was used, so there is no GPU time and there are no kernels; ops are compared "
            "instead."
        )
        notes += [f"{GRAPHS}: here it is the default mode."] if "reduce-overhead" in modes else []
    facts = {
        "subject": subject.name,
        "device": named,
        "torch": str(torch.__version__),
        "dtype": subject.dtype,
        "shapes": list(subject.shapes),
        "compiler_cache": "kept" if keep_cache else "empty",
        "compiler_start_ns": started,
        "recompile_limit": recompile_limit(),
    }
    return Trials(facts, trials, tuple(notes))


def _rehearse(subject: Subject, say: Callable[[str], None]) -> tuple[list[Call], list[str]]:
    """Eager at every shape, once: what is wrong with the code shows here, before minutes of
    compiling.
    """
    calls, notes = [], []
    with subject.blame():
        for at, shape in enumerate(subject.shapes):
            say(f"eager: {shape}")
            calls.append(subject.make(at, lambda thing: thing))
            made = calls[-1]()
    if subject.dtype is None and getattr(made, "requires_grad", False):
        notes.append(
            "Its result carries gradients, as a forward in training does. For inference call it "
            "under no_grad."
        )
    return calls, notes


def _try(
    subject: Subject,
    mode: str,
    eager: Sequence[Call],
    plain: Path,
    device: str,
    keep_cache: bool,
    say: Callable[[str], None],
) -> Trial:
    compile = compiler(mode, device)
    stays: list[Stay] = []
    alive: list[Call] = []
    work = None
    try:
        with fresh_compiler(keep_cache):
            for at, shape in enumerate(subject.shapes):
                say(f"{mode}: {shape}")
                with in_one_line():
                    alive.append(subject.make(at, compile))
                    stays.append(_stay(shape, eager[at], alive[-1], stays, on_gpu=device == "cuda"))
                    traced = _trace(alive[0], subject, plain.parent, mode) if at == 0 else None
                if traced:
                    work = _work(
                        compare(
                            open(plain, cache=False),
                            open(traced, cache=False),
                            region=subject.region,
                        )
                    )
    except MissingError as problem:
        say(f"{mode} failed: {problem}")
        return Trial(mode, tuple(stays), work, str(problem).rstrip("."))
    return Trial(mode, tuple(stays), work)


def _stay(shape: str, eager: Call, call: Call, before: Sequence[Stay], *, on_gpu: bool) -> Stay:
    arrival = arrive(call)
    both = paces({"eager": eager, "compiled": call}, on_gpu=on_gpu)
    arrivals = [*(stay.arrival for stay in before), arrival]
    return Stay(shape, arrival, both["eager"], both["compiled"], runs_compiled(call, arrivals))


def _trace(call: Call, subject: Subject, folder: Path, name: str) -> Path:
    stem = "".join(mark if mark.isalnum() else "_" for mark in subject.name.removesuffix(".py"))
    done = capture_call(
        call, folder / f"{stem}_{name}", region=subject.region, warmup=1, overwrite=True
    )
    assert done.trace is not None
    return done.trace


def _work(found: Comparison) -> Work:
    kernels = {"a": len(found.a.kernels), "b": len(found.b.kernels)}
    for fate in ("same", "changed", "removed", "added"):
        kernels[fate] = sum(row.count for row in getattr(found.kernels, fate))
    return Work(kernels, tuple(other_work(found)), tuple(same_work(found)))
