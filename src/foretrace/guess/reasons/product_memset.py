"""The four bytes that cuBLAS clears before some of its products."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def explains(miss: Miss) -> bool:
    return miss.too_many("memset") and any(
        case.chain[-1:] and case.chain[-1] in _PRODUCTS for case in miss.cases
    )


REASON = Reason(
    name="product_memset",
    text=(
        "cuBLAS clears a few bytes before some products (its 256x128 nvjet kernels on Hopper): a "
        "memset that no op asks for."
    ),
    source=(
        "an H200, torch 2.11: 4 bytes, cudaMemsetAsync inside aten::mm, before each 256x128 "
        "kernel and no other"
    ),
    example="in mlp_fwd: memset == 0",
    near=(
        "in mlp_fwd: memset == 3",
        "bound is comms",
        "gpu idle < 1%",
        "in mlp_fwd: gpu time < 1 us",
        "kernels == 4",
        "in mlp_fwd: memcpy == 1",
    ),
    trace="mlp_eager",
    explains=explains,
)
