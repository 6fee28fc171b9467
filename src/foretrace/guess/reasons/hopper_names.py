"""Kernel names of Ampere, expected on Hopper."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason
from foretrace.guess.things import Thing

_OLD = ("cutlass", "cublas", "ampere", "sm80")


def explains(miss: Miss) -> bool:
    """Products of the old names were expected, and nvjet ones stand in their place."""
    trait = miss.ask.args.get("trait")
    if miss.kind == "fields" and miss.wants_some and isinstance(trait, Thing):
        return _old(trait) and any(case.ident.family == "nvjet" for case in miss.cases)
    thing = miss.thing
    return (
        thing is not None
        and _old(thing)
        and miss.too_few("kernel")
        and any(case.ident.family == "nvjet" for case in miss.all_cases)
    )


def _old(thing: Thing) -> bool:
    return thing.name.startswith(_OLD) or any(part.value in _OLD for part in thing.traits)


REASON = Reason(
    name="hopper_names",
    text=(
        "On Hopper cuBLAS brings its own nvjet kernels where Ampere used CUTLASS and ampere_ "
        "ones: test fields, not names."
    ),
    source="an H200, torch 2.11: every product of the recorded traces is nvjet",
    example="every gemm is cutlass",
    near=("no gemm is nvjet", "every gemm is fp32", "every gemm is flash"),
    trace="linear_eager",
    explains=explains,
)
