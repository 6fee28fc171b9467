"""Triton's launches, which do not go through the runtime API."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason


def explains(miss: Miss) -> bool:
    asked = miss.kind == "calls" and miss.wants_some and "launched" in miss.ask.args
    return (
        asked
        and miss.ask.args["call"] == "cudaLaunchKernel"
        and any("triton" in case.ident.family for case in miss.cases)
    )


REASON = Reason(
    name="triton_launch",
    text=(
        "Triton launches through the driver: cuLaunchKernel from Inductor's launcher, "
        "cuLaunchKernelEx from Triton's own."
    ),
    source="an H200, torch 2.11, Triton 3.6: both recorded",
    example="every pointwise is launched by cudaLaunchKernel",
    near=(
        "every gemm is launched by cudaLaunchKernel",
        "every pointwise is preceded by cudaLaunchKernel",
        "no pointwise is launched by cuLaunchKernel",
    ),
    trace="mlp_compiled",
    explains=explains,
)
