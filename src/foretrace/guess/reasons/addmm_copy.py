"""The copy of a two-dimensional bias that aten::addmm makes."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason


def explains(miss: Miss) -> bool:
    return miss.too_many("memcpy") and any(
        case.chain[-1:] == ("aten::addmm",) for case in miss.cases
    )


REASON = Reason(
    name="addmm_copy",
    text="aten::addmm first copies a 2-D bias into the output and lets the product add to it; a "
    "1-D bias rides in the epilogue "
    "and needs no copy.",
    source="an H200, torch 2.11: Memcpy DtoD inside aten::addmm, then a product named badd",
    example="in matmul_add: memcpy == 0",
    near=(
        "in matmul_add: memcpy == 2",
        "in matmul_add: bound is compute",
        "in matmul_add: gpu idle < 1%",
        "in matmul_add: memset == 2",
        "in matmul_add: gpu time < 1 ns",
    ),
    trace="matmul_add_64_compiled",
    explains=explains,
)
