"""Is torch.compile worth it: eager at every shape, then each mode from nothing, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foretrace.analyze.compare import Comparison, compare
from foretrace.analyze.compare.sentences import changed_work, same_work
from foretrace.base.errors import MissingError
from foretrace.model import opening
from foretrace.record.experiments import user_code
from foretrace.record.experiments.machine import compiler, device_name, in_one_line, prepare
from foretrace.record.experiments.sweeps import Shape, shape_text, swept
from foretrace.record.experiments.timing import Call
from foretrace.record.experiments.trials import CallChanges, ModeTrial, verdict
from foretrace.record.experiments.visits import (
    Visit,
    fresh_compiler,
    recompile_limit,
    start_compiler,
    visit,
)
from foretrace.record.profiling.window import capture_call
from foretrace.schema.documents.worth import WorthDocument
from foretrace.schema.rung import GRAPHS, Choice, Rung

SCHEMA = 1
Compiler = Callable[[Any], Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompileSubject:
    """What is tried: `make` builds the call of a shape, by number, with the compiler it is given.

    `blame` surrounds eager calls and says whose error it is. A user's code has no `device` and no
    `dtype`: it decides them itself.
    """

    name: str
    shapes: tuple[str, ...]
    region: str
    device: str | None
    dtype: str | None
    make: Callable[[int, Compiler], Call]
    blame: Callable[[], AbstractContextManager[None]]


def rung_subject(rung: Rung, sweeps: Sequence[str], choice: Choice) -> CompileSubject:
    """A rung at each shape of `sweeps` (`name=value,value`)."""
    visited: Sequence[Shape] = swept(rung, sweeps, small=choice.small) if sweeps else ({},)
    setups = [prepare(rung, replace(choice, values=shape)) for shape in visited]

    def make(at: int, compiler: Compiler) -> Call:
        torch.manual_seed(choice.seed)
        return rung.build(replace(setups[at], compile=compiler)).call

    names = tuple(shape_text(shape) for shape in visited)
    device, dtype = setups[0].device, setups[0].dtype
    return CompileSubject(rung.name, names, rung.name, device, dtype, make, in_one_line)


def code_subject(target: str, shapes: str) -> CompileSubject:
    """What a user's own `module:callable` makes at each of `shapes` (`8x128,16x128`)."""
    visited = user_code.parse_shapes(shapes)
    function = user_code.find(target)
    names = tuple("x".join(map(str, shape)) or "as it is" for shape in visited)

    def make(at: int, compiler: Compiler) -> Call:
        return user_code.call_of(function, visited[at], compiler)

    blame = partial(user_code.user_errors, target)
    return CompileSubject(target, names, user_code.REGION, None, None, make, blame)


def worth(
    subject: CompileSubject,
    folder: Path,
    modes: Sequence[str] = ("default",),
    keep_cache: bool = False,
    say: Say = print,
) -> WorthDocument:
    """Try each mode of torch.compile on a subject; traces go to `folder`."""
    eager, notes = _rehearse(subject, say)
    # Asked after eager calls and before any compilation: Inductor initializes CUDA even when it
    # compiles for the CPU.
    default = "cuda" if torch.cuda.is_initialized() else "cpu"
    device, named = device_name(subject.device or default)
    started = start_compiler(device, say)
    plain = _trace(eager[0], subject, folder, "eager")
    trials = [_try(subject, mode, eager, plain, device, keep_cache, say) for mode in modes]
    if device == "cpu":
        notes.append("No GPU was used: there are no GPU times and no kernels. Ops are compared.")
        notes += [f"{GRAPHS}: here it is the default mode."] if "reduce-overhead" in modes else []
    return WorthDocument(
        SCHEMA, subject.name, named, str(torch.__version__), subject.dtype, list(subject.shapes),
        "kept" if keep_cache else "empty", started, recompile_limit(), verdict(trials),
        [trial.document() for trial in trials], notes,
    )  # fmt: skip


def _rehearse(subject: CompileSubject, say: Say) -> tuple[list[Call], list[str]]:
    """Eager at every shape, once: errors in the code show here, before minutes of compiling."""
    calls: list[Call] = []
    with subject.blame():
        for at, shape in enumerate(subject.shapes):
            say(f"eager: {shape}")
            calls.append(subject.make(at, lambda thing: thing))
            made = calls[-1]()
    if subject.dtype is None and getattr(made, "requires_grad", False):
        note = "The result requires gradients, as in training. For inference use torch.no_grad()."
        return calls, [note]
    return calls, []


def _try(
    subject: CompileSubject,
    mode: str,
    eager: Sequence[Call],
    plain: Path,
    device: str,
    keep_cache: bool,
    say: Say,
) -> ModeTrial:
    compiled, changes = compiler(mode, device), None
    visits, alive = list[Visit](), list[Call]()
    options = {"compiles": True, "on_gpu": device == "cuda"}
    try:
        with fresh_compiler(keep_cache):
            for at, shape in enumerate(subject.shapes):
                say(f"{mode}: {shape}")
                with in_one_line():
                    alive.append(call := subject.make(at, compiled))
                    visits.append(visit(shape, call, eager[at], visits, **options))
                    traced = _trace(call, subject, plain.parent, mode) if at == 0 else None
                if traced:
                    a, b = (opening.open(path, cache=False) for path in (plain, traced))
                    changes = _changes(compare(a, b, region=subject.region))
    except MissingError as problem:
        say(f"{mode} failed: {problem}")
        return ModeTrial(mode, visits, changes, str(problem).rstrip("."))
    return ModeTrial(mode, visits, changes)


def _trace(call: Call, subject: CompileSubject, folder: Path, name: str) -> Path:
    stem = "".join(mark if mark.isalnum() else "_" for mark in subject.name.removesuffix(".py"))
    path = folder / f"{stem}_{name}"
    done = capture_call(call, path, region=subject.region, warmup=1, overwrite=True)
    assert done.trace is not None
    return done.trace


def _changes(found: Comparison) -> CallChanges:
    kernels = {"a": len(found.a.kernels), "b": len(found.b.kernels)}
    for fate in ("same", "changed", "removed", "added"):
        rows = [row for row in getattr(found.kernels, fate) if row.kernel.is_kernel]
        kernels[fate] = sum(row.count for row in rows)
    return CallChanges(kernels, changed_work(found), same_work(found))
