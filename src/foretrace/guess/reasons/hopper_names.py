"""Kernel names of Ampere, expected on Hopper."""

from __future__ import annotations

from ..reason import Miss, Reason
from ..things import Thing

_OLD = ("cutlass", "cublas", "ampere", "sm80")


def explains(miss: Miss) -> bool:
    trait = miss.ask.args.get("trait")
    wanted = [part.value for part in trait.traits] if isinstance(trait, Thing) else []
    old = any(word in _OLD for word in wanted) or any(miss.names(word) for word in _OLD)
    return old and any(case.ident.family == "nvjet" for case in miss.all_cases)


REASON = Reason(
    name="hopper_names",
    text="On Hopper cuBLAS brings its own nvjet kernels where Ampere used CUTLASS and ampere_ ones: test fields, not names.",
    source="an H200, torch 2.11: every product of the recorded traces is nvjet",
    example="every gemm is cutlass",
    trace="linear_eager",
    explains=explains,
)
