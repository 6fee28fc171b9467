"""The occupancy query that precedes cuBLAS's Ampere kernels and not its Hopper ones."""

from __future__ import annotations

from ..reason import Miss, Reason


def explains(miss: Miss) -> bool:
    return miss.names("cudaOccupancy") and any(case.ident.family == "nvjet" for case in miss.all_cases)


REASON = Reason(
    name="occupancy_query",
    text="No occupancy query on Hopper: cuBLAS's nvjet kernels are launched through cuLaunchKernelEx without one; the query "
         "belongs to the Ampere kernels of the articles.",
    source="an H200, torch 2.11: no such call in any recorded trace",
    example="every gemm is preceded by cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    trace="mlp_eager",
    explains=explains,
)
