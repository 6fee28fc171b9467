"""What each way of running a rung pays when the shape changes, and how fast it is after that.

Every contender visits the same shapes in the same order and starts with nothing compiled, like a
server that sees one shape after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from foretrace.analyze.compare.measure import measured
from foretrace.base.errors import ForetraceError, MissingError, UsageError
from foretrace.record.experiments.machine import device_name, find_dtype, in_one_line, prepare
from foretrace.record.experiments.sweeps import Shape, shape_text, swept
from foretrace.record.experiments.timing import Call
from foretrace.record.experiments.visits import (
    Visit,
    fresh_compiler,
    recompile_limit,
    start_compiler,
    visit,
)
from foretrace.schema.documents.shapes import (
    AgainstFirst,
    ContenderVisits,
    LeftOutContender,
    ShapesDocument,
    ShapeVisit,
)
from foretrace.schema.rung import Choice, Rung

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
    sweeps: Sequence[str] = (),
    names: Sequence[str] = (),
    choice: Choice | None = None,
    keep_cache: bool = False,
    say: Callable[[str], None] = print,
) -> ShapesDocument:
    """Run the rung over a sweep of shapes (`name=value,value`) with each contender of `names`."""
    choice = choice or Choice()
    visited = swept(rung, sweeps, small=choice.small)
    if len(visited) < 2 and not sweeps:
        raise UsageError(f"{rung.name} has no default sweep: add --sweep NAME=VALUE,VALUE")
    chosen = contenders(rung, names)
    device, named = device_name(choice.device)
    bases = [_first_variant(rung, choice, shape) for shape in visited]
    started = None
    if any(contender.choice.compile for contender in chosen):
        with suppress(MissingError):  # each contender that compiles reports it
            started = start_compiler(device, say)
    found, left_out = list[ContenderVisits](), list[LeftOutContender]()
    for contender in chosen:
        try:
            visits = _visit_all(rung, contender, visited, bases, choice, device, keep_cache, say)
            found.append(_entry(contender, visits))
        except ForetraceError as problem:
            left_out.append(LeftOutContender(contender.name, str(problem)))
            say(f"{contender.name} is left out: {problem}")
    own = rung.values(choice.values, small=choice.small)
    fixed = {name: value for name, value in own.items() if name not in visited[0]}
    return ShapesDocument(
        SCHEMA, rung.name, named, str(torch.__version__), find_dtype(choice.dtype, device),
        [dict(shape) for shape in visited], fixed, rung.first, "kept" if keep_cache else "empty",
        started, recompile_limit(), found, left_out,
    )  # fmt: skip


def _first_variant(rung: Rung, choice: Choice, shape: Shape) -> Call:
    """The first variant at a shape, called once: CUDA and the libraries start here, untimed."""
    with in_one_line(f"at {shape_text(shape)}: "):
        call = _build(rung, choice, shape)
        call()
    return call


def _visit_all(
    rung: Rung,
    contender: Contender,
    visited: Sequence[Shape],
    bases: Sequence[Call],
    base: Choice,
    device: str,
    keep_cache: bool,
    say: Callable[[str], None],
) -> list[Visit]:
    way = contender.choice
    if device == "cpu" and (why := rung.gpu_only.get(way.variant or "")):
        raise MissingError(why)
    choice = replace(base, variant=way.variant, compile=way.compile, dynamic=way.dynamic)
    alive: list[Call] = []  # a server keeps its models, and Dynamo's guards need them alive
    visits: list[Visit] = []
    options = {"compiles": way.compile, "on_gpu": device == "cuda"}
    with fresh_compiler(keep_cache):
        for number, shape in enumerate(visited, 1):
            text = shape_text(shape)
            say(f"{contender.name}, shape {number} of {len(visited)}: {text}")
            with in_one_line(f"at {text}: "):
                alive.append(_build(rung, choice, shape))
                visits.append(visit(text, alive[-1], bases[number - 1], visits, **options))
    return visits


def _build(rung: Rung, choice: Choice, shape: Shape) -> Call:
    torch.manual_seed(choice.seed)
    return rung.build(prepare(rung, replace(choice, values={**choice.values, **shape}))).call


def _entry(contender: Contender, visits: Sequence[Visit]) -> ContenderVisits:
    entries = []
    for each in visits:
        pace, against = each.pace, measured(each.base.wall, each.pace.wall)
        times = (pace.wall.median, pace.wall.spread, pace.host.median, pace.gpu.median)
        ratio = AgainstFirst(against.ratio, against.noise, against.beyond)
        entries.append(ShapeVisit(*each.compilation, *times, ratio))
    graphs = sum(entry.graphs for entry in entries)
    recompiles = sum(len(entry.recompiles) for entry in entries)
    stall_ns = sum(entry.stall_ns for entry in entries)
    return ContenderVisits(contender.name, contender.what, graphs, recompiles, stall_ns, entries)
