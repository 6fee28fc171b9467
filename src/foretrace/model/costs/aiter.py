"""AITER's ops, which serving engines call on AMD GPUs: a matmul with the weight stored by rows,
and RMS norms that take their outputs as arguments.

The norms with an added residual write the sum beside the norm. Its attention and its mixtures of
experts are priced with those of the other libraries.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall
from foretrace.model.costs._cost import Cost, CostKind, moved, table
from foretrace.model.costs.matmul import linear
from foretrace.model.costs.vllm import cache_write, gated


def _norm(call: OpCall) -> Cost:
    """rmsnorm (out, input, weight, eps)."""
    return moved([call.need(1), call.need(2)], [call.need(0)])


def _new_norm(call: OpCall) -> Cost:
    """rms_norm (input, weight, eps, ...): the result is new."""
    return moved([call.need(0), call.need(1)], [call.need(0).dense()])


def _added_norm(call: OpCall) -> Cost:
    """add_rmsnorm (out, input, residual_in, residual_out, weight, eps)."""
    reads = [call.need(1), call.need(2), call.need(4)]
    return moved(reads, [call.need(0), call.need(3)])


KIND = CostKind(
    {
        **table("gemm_a16w16 rocm_unquantized_gemm", linear, "aiter::"),
        "vllm::rocm_unquantized_gemm": linear,
        **table("rmsnorm rmsnorm2d_fwd_ck", _norm, "aiter::"),
        "aiter::rms_norm": _new_norm,
        **table("silu_and_mul gelu_and_mul gelu_tanh_and_mul", gated, "aiter::"),
        **table("reshape_and_cache reshape_and_cache_flash", cache_write, "aiter::"),
        **table("add_rmsnorm rmsnorm2d_fwd_with_add_ck", _added_norm, "aiter::"),
    }
)
