"""Liger's block, which is a power of two whatever the row is."""

from __future__ import annotations

from ..reason import Miss, Reason


def explains(miss: Miss) -> bool:
    return miss.kind in ("ratios", "time") and any(
        case.ident.family == "liger_triton" and "geglu" in case.name for case in miss.cases)


REASON = Reason(
    name="masked_lanes",
    text="Liger gives each row one program whose block is the next power of two: at 3072 columns a quarter of the 4096 lanes "
         "do nothing.",
    source="liger-kernel 0.8.5; an H200, torch 2.11: 44 us against 37 us of Inductor's kernel",
    example="in mlp_fwd: pointwise time <= 1.05x of A",
    trace="mlp_liger",
    against="mlp_compiled",
    explains=explains,
)
