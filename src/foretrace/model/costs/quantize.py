"""Quantization by serving engines, alone or at the end of a norm or of a gated activation: the
input read once, the narrow result and its scales written once.

Static scales are read, dynamic ones are written. One scale for a whole tensor takes two kernels:
the first finds the largest value, the second reads the input again. FLOP count one for each result
of a plain quantization; those of norms and activations are not stated.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, at_least, moved, table

FP4_GROUP = 16  # values that share a scale of nvfp4
_REDUCES = ("max", "reduce", "absmax")


def _static(call: OpCall) -> Cost:
    """static_scaled_fp8_quant (out, input, scale[, azp])."""
    source = call.need(1)
    return moved([source, call.tensor(2), call.tensor(3)], [call.need(0)], source.elements)


def _dynamic(call: OpCall) -> Cost:
    """dynamic_scaled_fp8_quant (out, input, scale); the int8 form has zero points behind it."""
    source, integer = call.need(1), call.name.endswith("int8_quant")
    writes = [call.need(0), call.tensor(2), call.tensor(3) if integer else None]
    return moved([source], writes, source.elements)


def _dynamic_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source, out = call.need(1), call.need(0)
    if any(mark in kernel.name.lower() for mark in _REDUCES):
        return at_least([source], [], "reads the input for its largest value")
    return at_least([source], [out], "reads the input, writes the result")


def _grouped(call: OpCall) -> Cost:
    """per_token_group_fp8_quant (input, out, scales, ...)."""
    source = call.need(0)
    return moved([source], [call.need(1), call.need(2)], source.elements)


def _fp4(call: OpCall) -> Cost | None:
    """scaled_fp4_quant (out, input, out_scale, input_scale), or (input, input_scale, ...)."""
    first, second = call.need(0), call.need(1)
    if first.type == "unsigned char":
        return moved([second, call.tensor(3)], [first, call.tensor(2)], second.elements)
    count = first.elements
    writes = [Tensor((each,), "unsigned char") for each in (count // 2, count // FP4_GROUP)]
    return moved([first, second], writes, count)


def _norm(reads: tuple[int, ...], writes: tuple[int, ...]) -> Price:
    """Tensors at these places; an absent residual is left out."""

    def price(call: OpCall) -> Cost:
        call.need(0), call.need(1)
        return moved(map(call.tensor, reads), map(call.tensor, writes))

    return price


KIND = CostKind(
    prices={
        **table("static_scaled_fp8_quant static_scaled_int8_quant", _static, "_C::"),
        **table(
            "dynamic_scaled_fp8_quant dynamic_scaled_int8_quant dynamic_per_token_scaled_fp8_quant",
            _dynamic,
            "_C::",
        ),
        **table("per_token_group_fp8_quant per_token_group_quant_int8", _grouped, "_C::"),
        **table(
            "sgl_per_token_group_quant_fp8 sgl_per_token_group_quant_int8 sgl_per_token_quant_fp8",
            _grouped,
            "sgl_kernel::",
        ),
        "_C::scaled_fp4_quant": _fp4,
        # out, input, weight, scale
        "_C::rms_norm_static_fp8_quant": _norm((1, 2, 3), (0,)),
        # out, input, residual, weight, scale
        "_C::fused_add_rms_norm_static_fp8_quant": _norm((1, 2, 3, 4), (0, 2)),
        # out, input, weight, scale, eps, bound, residual
        **table(
            "rms_norm_dynamic_per_token_quant rms_norm_per_block_quant",
            _norm((1, 2, 5, 6), (0, 3, 6)),
            "_C::",
        ),
        "_C::silu_and_mul_quant": _norm((1, 2), (0,)),
        "_C::silu_and_mul_per_block_quant": _norm((1,), (0, 2)),
    },
    shares={"_C::dynamic_scaled_fp8_quant": _dynamic_share},
)
