"""Liger's block, which is a power of two whatever the row is."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason
from foretrace.guess.work import Case


def explains(miss: Miss) -> bool:
    """These kernels alone take longer than predicted, and their rows are no power of two."""
    compare, cases = miss.ask.args.get("compare"), miss.cases
    slow = (
        miss.kind in ("ratios", "time")
        and miss.thing is not None
        and compare is not None
        and compare.symbol in ("<", "<=")
    )
    return (
        slow
        and bool(cases)
        and all(_is_geglu(case) for case in cases)
        and any(columns & (columns - 1) for columns in _columns(miss))
    )


def _is_geglu(case: Case) -> bool:
    return case.ident.family == "liger_triton" and "geglu" in case.name


def _columns(miss: Miss) -> list[int]:
    """The last dimension of each call's first input; nothing where shapes were not recorded."""
    trace = miss.ask.views[0].work.trace
    found = [trace.arguments.of(int(trace.gpu.op[row])) for row in miss.reading.rows]
    return [each.dims[0][-1] for each in found if each and each.dims and each.dims[0]]


REASON = Reason(
    name="masked_lanes",
    text="Liger gives each row one program whose block is the next power of two: at 3072 columns "
    "a quarter of the 4096 lanes "
    "do nothing.",
    source="liger-kernel 0.8.5; an H200, torch 2.11: 44 us against 37 us of Inductor's kernel",
    example="in mlp_fwd: pointwise time <= 1.05x of A",
    near=(
        "in mlp_fwd: gpu time < 0.5x of A",
        "in mlp_fwd: gemm time < 0.1x of A",
        "in mlp_fwd: pointwise time > 2x of A",
        "gpu idle < 0.001%",
    ),
    trace="mlp_liger",
    against="mlp_compiled",
    explains=explains,
)
