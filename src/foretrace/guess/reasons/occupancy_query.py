"""The occupancy query that precedes cuBLAS's Ampere kernels and not its Hopper ones."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason


def explains(miss: Miss) -> bool:
    """The query was expected: before products that are nvjet ones, or as a call that is not there."""
    asked = miss.kind == "calls" and miss.wants_some and "preceded" in miss.ask.args
    products = miss.cases if asked else miss.all_cases if miss.too_few("call") else []
    return miss.names("cudaOccupancy") and any(case.ident.family == "nvjet" for case in products)


REASON = Reason(
    name="occupancy_query",
    text="No occupancy query on Hopper: cuBLAS's nvjet kernels are launched through "
    "cuLaunchKernelEx without one; the query "
    "belongs to the Ampere kernels of the articles.",
    source="an H200, torch 2.11: no such call in any recorded trace",
    example="every gemm is preceded by cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    near=(
        "every pointwise is preceded by cudaOccupancy*",
        "every gemm is preceded by cudaMalloc",
        "every gemm is launched by cudaOccupancy*",
    ),
    trace="mlp_eager",
    explains=explains,
)
