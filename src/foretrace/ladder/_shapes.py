"""The shape question: what does each way of running a rung pay when the shape changes, and what
does it run at after that?

Every contender visits the same shapes in the same order, beginning with nothing compiled. So the
figures tell one story: a server that sees shape after shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from foretrace.comparison.measure import measured
from foretrace.errors import ForetraceError, MissingError, UsageError
from foretrace.ladder._climb import find_device, find_dtype, prepare
from foretrace.ladder._here import device_name, in_one_line
from foretrace.ladder._pace import Pace, paces
from foretrace.ladder._stops import gpu_only
from foretrace.ladder._sweep import Shape, shape_text
from foretrace.ladder._visits import (
    Arrival,
    arrive,
    fresh_compiler,
    recompile_limit,
    runs_compiled,
    start_compiler,
)
from foretrace.schema.rung import Built, Choice, Rung

SCHEMA = 1
Call = Callable[[], object]
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


@dataclass(frozen=True, slots=True)
class Visit:
    """A contender at a shape. `compiled` says whether compiled code runs there; None where nothing
    is compiled.

    `base_pace` is that of the rung's first variant, measured in turns with it: contenders run
    minutes apart, and a machine's mood changes in minutes.
    """

    arrival: Arrival
    pace: Pace
    base_pace: Pace
    compiled: bool | None

    @property
    def stall_ns(self) -> float:
        return self.arrival.stall_ns(self.pace.wall.median or 0)

    def entry(self) -> dict[str, Any]:
        arrival, pace, against = (
            self.arrival,
            self.pace,
            measured(self.base_pace.wall, self.pace.wall),
        )
        return {
            "first_call_ns": arrival.calls_ns[0],
            "stall_ns": self.stall_ns,
            "compile_s": arrival.compile_s,
            "graphs": arrival.graphs,
            "recompiles": list(arrival.recompiles),
            "gave_up": list(arrival.gave_up),
            "compiled": self.compiled,
            "wall_ns": pace.wall.median,
            "wall_spread_ns": pace.wall.spread,
            "host_ns": pace.host.median,
            "gpu_ns": pace.gpu.median,
            "against_first": {
                "ratio": against.ratio,
                "noise": against.noise,
                "beyond": against.beyond,
            },
        }


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a sweep found; `visits` has one entry for each shape, in order. `left_out` are
    contenders with the reason.

    `first` is the variant that all are compared with, `fixed` the sizes that the sweep does not
    name.
    """

    rung: str
    first: str
    device: str
    torch: str
    dtype: str
    shapes: tuple[Shape, ...]
    fixed: Shape
    kept_cache: bool
    compiler_start_ns: int | None
    limit: int | None
    visits: tuple[tuple[Contender, tuple[Visit, ...]], ...]
    left_out: tuple[tuple[str, str], ...]

    def document(self) -> dict[str, Any]:
        """What `foretrace shapes --json` prints."""
        return {
            "schema": SCHEMA,
            "rung": self.rung,
            "device": self.device,
            "torch": self.torch,
            "dtype": self.dtype,
            "shapes": [dict(shape) for shape in self.shapes],
            "fixed": dict(self.fixed),
            "first": self.first,
            "compiler_cache": "kept" if self.kept_cache else "empty",
            "compiler_start_ns": self.compiler_start_ns,
            "recompile_limit": self.limit,
            "contenders": [_entry(contender, visits) for contender, visits in self.visits],
            "left_out": [{"name": name, "why": why} for name, why in self.left_out],
        }


def _entry(contender: Contender, visits: Sequence[Visit]) -> dict[str, Any]:
    return {
        "name": contender.name,
        "what": contender.what,
        "graphs": sum(visit.arrival.graphs for visit in visits),
        "recompiles": sum(len(visit.arrival.recompiles) for visit in visits),
        "stall_ns": sum(visit.stall_ns for visit in visits),
        "visits": [visit.entry() for visit in visits],
    }


def contenders(rung: Rung, names: Sequence[str] = ()) -> list[Contender]:
    """The rung's first variant, that one compiled in three ways, and its other variants; or those
    in `names`, in that order.
    """
    first, *others = rung.variants
    known = [
        Contender(first, rung.variants[first], Choice(variant=first)),
        *(
            Contender(name, what, Choice(variant=first, compile=True, dynamic=dynamic))
            for name, (dynamic, what) in COMPILED.items()
        ),
        *(Contender(name, rung.variants[name], Choice(variant=name)) for name in others),
    ]
    by_name = {contender.name: contender for contender in known}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(
            f"{rung.name} has no contender {unknown[0]!r}: there are {', '.join(by_name)}"
        )
    return [by_name[name] for name in names] if names else known


def visit_shapes(
    rung: Rung,
    shapes: Sequence[Shape],
    chosen: Sequence[Contender],
    base: Choice,
    keep_cache: bool,
    say: Callable[[str], None],
) -> Shapes:
    """Let each contender visit the shapes. `base` gives device, type, sizes and seed; `say` is told
    each visit.
    """
    device, named = device_name(base.device)
    bases = [_first_variant(rung, base, shape) for shape in shapes]
    started = _start(chosen, device, say)
    done: list[tuple[Contender, tuple[Visit, ...]]] = []
    left_out: list[tuple[str, str]] = []
    for contender in chosen:
        try:
            done.append(
                (contender, _visit_all(rung, contender, shapes, bases, base, keep_cache, say))
            )
        except ForetraceError as problem:
            left_out.append((contender.name, str(problem)))
            say(f"{contender.name} is left out: {problem}")
    own = rung.values(base.values, small=base.small)
    return Shapes(
        rung.name,
        next(iter(rung.variants)),
        named,
        str(torch.__version__),
        find_dtype(base.dtype, device),
        tuple(shapes),
        fixed={name: value for name, value in own.items() if name not in shapes[0]},
        kept_cache=keep_cache,
        compiler_start_ns=started,
        limit=recompile_limit(),
        visits=tuple(done),
        left_out=tuple(left_out),
    )


def _start(chosen: Sequence[Contender], device: str, say: Callable[[str], None]) -> int | None:
    if not any(contender.choice.compile for contender in chosen):
        return None
    say("starting the compiler")
    try:
        return start_compiler(device)
    except MissingError:
        return None  # each contender that compiles will say it


def _first_variant(rung: Rung, base: Choice, shape: Shape) -> Call:
    """The rung as it is at a shape, called once: that starts CUDA and the libraries, which no
    contender should pay for.
    """
    with in_one_line(f"at {shape_text(shape)}: "):
        call = _build(rung, _at(base, shape)).call
        call()
    return call


def _visit_all(
    rung: Rung,
    contender: Contender,
    shapes: Sequence[Shape],
    bases: Sequence[Call],
    base: Choice,
    keep_cache: bool,
    say: Callable[[str], None],
) -> tuple[Visit, ...]:
    device = find_device(base.device)
    if device == "cpu" and (why := gpu_only(rung.name, contender.choice.variant or "")):
        raise MissingError(why)
    way = contender.choice
    choice = replace(base, variant=way.variant, compile=way.compile, dynamic=way.dynamic)
    alive: list[Built] = []  # a server keeps its models; what Dynamo guards must not die
    visits: list[Visit] = []
    with fresh_compiler(keep_cache):
        for number, shape in enumerate(shapes, 1):
            say(f"{contender.name}, shape {number} of {len(shapes)}: {shape_text(shape)}")
            with in_one_line(f"at {shape_text(shape)}: "):
                alive.append(_build(rung, _at(choice, shape)))
                arrivals = [*(visit.arrival for visit in visits), arrive(alive[-1].call)]
                both = paces(
                    {"it": alive[-1].call, "base": bases[number - 1]}, on_gpu=device == "cuda"
                )
                runs = runs_compiled(alive[-1].call, arrivals) if way.compile else None
                visits.append(Visit(arrivals[-1], both["it"], both["base"], runs))
    return tuple(visits)


def _at(choice: Choice, shape: Shape) -> Choice:
    return replace(choice, values={**choice.values, **shape})


def _build(rung: Rung, choice: Choice) -> Built:
    torch.manual_seed(choice.seed)
    return rung.build(prepare(rung, choice))
