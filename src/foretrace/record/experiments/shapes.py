"""What each way of running a rung pays when the shape changes, and how fast it is after that.

Every contender visits the same shapes in the same order and starts with nothing compiled.
Inductor's cache on disk would hide the compile time of a first deployment, so it is empty. Order
matters: a compiler treats a shape differently after it has seen another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.base.errors import ForetraceError, MissingError, UsageError
from foretrace.compare.measure import measured
from foretrace.read.compiler import records as compiled
from foretrace.record.experiments.machine import (
    Call,
    compiler,
    device_name,
    find_dtype,
    in_one_line,
    paces,
    prepare,
)
from foretrace.record.lab_documents import (
    AgainstFirst,
    ContenderVisits,
    LeftOutContender,
    ShapesDocument,
    ShapeVisit,
)
from foretrace.record.profiling.compiler_records import CompileWatch
from foretrace.record.profiling.window import batch
from foretrace.record.rung import Choice, Rung

Shape = Mapping[str, Any]

# The default sweep, as multiples of the rung's own sizes: batch twice, since torch.compile gives up
# static shapes at the second; then length, both, and last a hidden size, which changes the weights.
DEFAULT_STEPS: tuple[Mapping[str, int], ...] = (
    {},
    {"batch": 2},
    {"batch": 4},
    {"seq": 2},
    {"batch": 2, "seq": 2},
    {"hidden": 2},
    {"size": 2},
    {"size": 4},
)


def default_shapes(rung: Rung, *, small: bool = False) -> list[Shape]:
    """Multiples of the rung's own sizes."""
    sizes = rung.values({}, small=small)
    own = {name: value for name, value in sizes.items() if type(value) is int and value > 0}
    steps = [step for step in DEFAULT_STEPS if all(name in own for name in step)]
    names = dict.fromkeys(name for step in steps for name in step)
    return [{name: own[name] * step.get(name, 1) for name in names} for step in steps]


def shape_text(shape: Shape) -> str:
    """`batch 8, seq 64`."""
    return ", ".join(f"{name} {value}" for name, value in shape.items()) or "its own sizes"


SCHEMA = 1
COMPILED = {
    "static": (False, "torch.compile(dynamic=False): compiled for each shape"),
    "dynamic": (True, "torch.compile(dynamic=True): compiled for any shape"),
    "automatic": (None, "torch.compile as it is: the first shape static, what changes dynamic"),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One way of running the rung: a variant, or the first one compiled."""

    name: str
    what: str
    choice: Choice


def contenders(rung: Rung, names: Sequence[str] = ()) -> list[Contender]:
    """The first variant, eager and compiled in three ways, and the other variants; or `names`."""
    eager, *variants = (
        Contender(name, what, Choice(variant=name)) for name, what in rung.variants.items()
    )
    compiled = [
        Contender(name, what, Choice(variant=rung.first, compile=True, dynamic=dynamic))
        for name, (dynamic, what) in COMPILED.items()
    ]
    known = {contender.name: contender for contender in (eager, *compiled, *variants)}
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(known)
        raise UsageError(f"{rung.name} has no contender {unknown[0]!r}: choose from {listed}")
    return [known[name] for name in names or known]


def shapes(
    rung: Rung,
    visited: Sequence[Shape],
    names: Sequence[str] = (),
    choice: Choice | None = None,
    say: Callable[[str], None] = print,
) -> ShapesDocument:
    """Run the rung at these shapes with each contender of `names`."""
    choice = choice or Choice()
    chosen = contenders(rung, names)
    device, named = device_name(choice.device)
    bases = []
    for shape in visited:
        with in_one_line(f"at {shape_text(shape)}: "):
            bases.append(_build(rung, choice, shape))
            bases[-1]()  # CUDA and the libraries start here, untimed
    started = None
    if any(contender.choice.compile for contender in chosen):
        with suppress(MissingError):  # each contender that compiles reports it
            started = _compiler_start_ns(device, say)
    found, left_out = list[ContenderVisits](), list[LeftOutContender]()
    for contender in chosen:
        try:
            visits = _visit_all(rung, contender, visited, bases, choice, device, say)
            graphs, stalled = sum(each.graphs for each in visits), sum(v.stall_ns for v in visits)
            again = sum(len(each.recompiles) for each in visits)
            way = (contender.name, contender.what)
            found.append(ContenderVisits(*way, graphs, again, stalled, visits))
        except ForetraceError as problem:
            left_out.append(LeftOutContender(contender.name, str(problem)))
            say(f"{contender.name} is left out: {problem}")
    from torch._dynamo import config  # torch 2.6 renamed the setting

    limit = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    own = rung.values(choice.values, small=choice.small)
    fixed = {name: value for name, value in own.items() if name not in visited[0]}
    return ShapesDocument(
        SCHEMA, rung.name, named, str(torch.__version__), find_dtype(choice.dtype, device),
        [dict(shape) for shape in visited], fixed, rung.first, "empty",
        started, None if limit is None else int(limit), found, left_out,
    )  # fmt: skip


def _visit_all(
    rung: Rung,
    contender: Contender,
    visited: Sequence[Shape],
    bases: Sequence[Call],
    base: Choice,
    device: str,
    say: Callable[[str], None],
) -> list[ShapeVisit]:
    way = contender.choice
    if device == "cpu" and (why := rung.gpu_only.get(way.variant or "")):
        raise MissingError(why)
    choice = replace(base, variant=way.variant, compile=way.compile, dynamic=way.dynamic)
    alive: list[Call] = []  # a server keeps its models, and Dynamo's guards need them alive
    visits: list[ShapeVisit] = []
    options = {"compiles": way.compile, "on_gpu": device == "cuda"}
    with fresh_compiler():
        for number, shape in enumerate(visited, 1):
            text = shape_text(shape)
            say(f"{contender.name}, shape {number} of {len(visited)}: {text}")
            with in_one_line(f"at {text}: "):
                alive.append(_build(rung, choice, shape))
                visits.append(visit(alive[-1], bases[number - 1], visits, **options))
    return visits


def _build(rung: Rung, choice: Choice, shape: Shape) -> Call:
    torch.manual_seed(choice.seed)
    return rung.build(prepare(rung, replace(choice, values={**choice.values, **shape}))).call


def visit(
    call: Call, base: Call, before: Sequence[ShapeVisit], *, compiles: bool, on_gpu: bool
) -> ShapeVisit:
    """Make the first calls of `call`, then time it in turns with `base`."""
    watch = CompileWatch()
    # CUDA graphs are recorded in the second call and replayed from the third on
    calls = [batch(call, 1)[0] for _ in range(3)]
    seen = watch.report()
    both = paces({"base": base, "call": call}, on_gpu=on_gpu)
    pace, against = both["call"], measured(both["base"].wall, both["call"].wall)
    gave_up = any(each.gave_up for each in before) or bool(seen["gave_up"])
    graphs = any(each.graphs for each in before) or bool(seen["graphs"])
    return ShapeVisit(
        first_call_ns=calls[0],
        stall_ns=stall_ns(calls, pace.wall.median or 0),
        compile_s=seen["seconds"],
        graphs=seen["graphs"],
        recompiles=seen["recompiles"],
        gave_up=seen["gave_up"],
        compiled=(_enters_compiled(call) if gave_up else graphs) if compiles else None,
        wall_ns=pace.wall.median,
        wall_spread_ns=pace.wall.spread,
        host_ns=pace.host.median,
        gpu_ns=pace.gpu.median,
        against_first=AgainstFirst(against.ratio, against.noise, against.beyond),
    )


def stall_ns(calls: Sequence[int], warm_ns: float) -> float:
    """What the first calls took beyond warm ones."""
    return max(sum(calls) - len(calls) * warm_ns, 0)


def _enters_compiled(call: Call) -> bool:
    """Whether a call enters compiled code.

    After Dynamo gave up, a call may still find code compiled for an older shape. Dynamo names each
    entry while a profiler runs, so one call under a profiler shows it.
    """
    with torch.autograd.profiler.profile() as seen:
        call()
    return any(event.name.startswith(compiled.REGION) for event in seen.function_events)


@contextmanager
def fresh_compiler() -> Iterator[None]:
    """Dynamo as in a new process, with an empty cache of Inductor and Triton."""
    torch._dynamo.reset()
    from torch._inductor.utils import fresh_inductor_cache

    problem = None
    # an exception through it would leave the folder behind, and say so
    with fresh_inductor_cache():
        try:
            yield
        except Exception as caught:  # noqa: BLE001 (raised again below)
            problem = caught
    if problem is not None:
        raise problem


def _compiler_start_ns(device: str, say: Callable[[str], None]) -> int:
    """The time of this process's first compilation, of `x + 1`: imports and probes."""
    say("starting the compiler")
    compiled: Any = compiler("default", device)(lambda x: x + 1)
    x = torch.ones(8, device=device)
    began = perf_counter_ns()
    with fresh_compiler():
        compiled(x)
    return perf_counter_ns() - began
