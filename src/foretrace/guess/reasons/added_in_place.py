"""A product that adds to its output has another name than one that overwrites it."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason


def explains(miss: Miss) -> bool:
    if miss.kind != "same" or not miss.ask.others:
        return False
    mine = {case.name for case in miss.cases}
    other = miss.ask.others[0]
    theirs = {other.work.case(row).name for row in other.rows.tolist()}
    return any(name not in theirs and name.replace("_badd_", "_bz_") in theirs for name in mine)


REASON = Reason(
    name="added_in_place",
    text="The names differ in one word, bz and badd: the product now adds to an output that "
    "already holds the bias. The tile, "
    "the pipeline and the layout are the same.",
    source="an H200, torch 2.11: nvjet_…_bz_…NNT becomes nvjet_…_badd_…NNT",
    example="in matmul_add: same gemm kernels as A",
    near=(
        "in matmul_add: same ops as A",
        "in matmul_add: kernels == A",
        "in matmul_add: bound is comms",
    ),
    trace="matmul_add_4096_compiled",
    against="matmul_add_4096_eager",
    explains=explains,
)
