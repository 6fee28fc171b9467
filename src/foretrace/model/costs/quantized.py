"""Quantization, and matmuls with narrow operands.

Quantization by serving engines, alone or at the end of a norm or of a gated activation: the
input read once, the narrow result and its scales written once.

Static scales are read, dynamic ones are written. One scale for a whole tensor takes two kernels:
the first finds the largest value, the second reads the input again. FLOP count one for each result
of a plain quantization; those of norms and activations are not stated.

Matmuls with narrow operands: 2*M*N*K FLOP, operands and scales read once, the result
written once.

The libraries differ in the order of arguments and in how they store the weight: by columns as [K,
N], by rows as [N, K], or packed, several values to an integer in an order of the kernel's own
(Marlin, machete, AWQ, GPTQ). Of a packed weight the scales tell N, and the bytes are those of the
integers. Two fp4 values share a byte. The type of a result that is no argument is the recorded
dtype, else that of the input where the input is not quantized, else bfloat16: serving engines
compute in 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from foretrace.model.costs._call import SIZES, OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, at_least, moved, table, takes

FP4_GROUP = 16  # values that share a scale of nvfp4
_REDUCES = ("max", "reduce", "absmax")


def _dynamic_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source, out = call.need(1), call.need(0)
    if any(mark in kernel.name.lower() for mark in _REDUCES):
        return at_least([source], [], "reads the input for its largest value")
    return at_least([source], [out], "reads the input, writes the result")


def _fp4(call: OpCall) -> Cost | None:
    """scaled_fp4_quant (out, input, out_scale, input_scale), or (input, input_scale, ...)."""
    first, second = call.need(0), call.need(1)
    if first.type == "unsigned char":
        return moved([second, call.tensor(3)], [first, call.tensor(2)], second.elements)
    count = first.elements
    writes = [Tensor((each,), "unsigned char") for each in (count // 2, count // FP4_GROUP)]
    return moved([first, second], writes, count)


_GROUPED = takes("in out out", per=0)

QUANTIZE = CostKind(
    prices={
        **table(
            "static_scaled_fp8_quant static_scaled_int8_quant",
            takes("out in in? in?", per=1),
            "_C::",
        ),
        **table(
            "dynamic_scaled_fp8_quant dynamic_per_token_scaled_fp8_quant",
            takes("out in out?", per=1),
            "_C::",
        ),
        "_C::dynamic_scaled_int8_quant": takes("out in out? out?", per=1),
        **table("per_token_group_fp8_quant per_token_group_quant_int8", _GROUPED, "_C::"),
        **table(
            "sgl_per_token_group_quant_fp8 sgl_per_token_group_quant_int8 sgl_per_token_quant_fp8",
            _GROUPED,
            "sgl_kernel::",
        ),
        "_C::scaled_fp4_quant": _fp4,
        # out, input, weight, scale
        "_C::rms_norm_static_fp8_quant": takes("out in in? in?"),
        # out, input, residual, weight, scale
        "_C::fused_add_rms_norm_static_fp8_quant": takes("out in both? in? in?"),
        # out, input, weight, scale, eps, bound, residual
        **table(
            "rms_norm_dynamic_per_token_quant rms_norm_per_block_quant",
            takes("out in in? out? - in? both?"),
            "_C::",
        ),
        "_C::silu_and_mul_quant": takes("out in in?"),
        "_C::silu_and_mul_per_block_quant": takes("out in out?"),
    },
    shares={"_C::dynamic_scaled_fp8_quant": _dynamic_share},
)


SIXTEEN = "c10::BFloat16"
NONE = -1


class MatmulPlaces(Struct, frozen=True):
    """Where a matmul keeps its arguments; the weight is [N, K] where `by_rows`.

    `extra` are scales and bias. `packed` values share an element of both operands.
    """

    left: int
    right: int
    extra: tuple[int, ...] = ()
    out: int = NONE
    dtype: int = NONE
    by_rows: bool = True
    packed: int = 1


def _price(places: MatmulPlaces) -> Price:
    def price(call: OpCall) -> Cost | None:
        left, right = call.need(places.left), call.need(places.right)
        if len(left.dims) < 2 or len(right.dims) != 2:
            return None
        columns, depth = right.dims if places.by_rows else right.dims[::-1]
        *rows, inner = left.dims
        if inner != depth:
            return None
        out = Tensor((*rows, columns), _result(call, places, left))
        given = call.tensor(places.out)
        if given is not None and given.elements == out.elements:
            out = given
        extra = [call.tensor(place) for place in places.extra]
        scales = [each for each in extra if each is not None and each.elements < out.elements]
        return moved([left, right, *scales], [out], 2 * out.elements * inner * places.packed)

    return price


def _result(call: OpCall, places: MatmulPlaces, left: Tensor) -> str:
    wide = left.type if SIZES.get(left.type, 0) > 1 else SIXTEEN
    return (call.scalar_type(places.dtype) if places.dtype != NONE else None) or wide


def _packed(weight_at: int, scales_at: tuple[int, ...], others: tuple[int, ...] = ()) -> Price:
    """(input [M, K], ..., packed weight, ..., scales [groups, N], ...)."""

    def price(call: OpCall) -> Cost | None:
        left, weight = call.need(0), call.need(weight_at)
        found = [call.tensor(place) for place in scales_at]
        scales = next((each for each in found if each and len(each.dims) == 2), None)
        if scales is None or len(left.dims) != 2:
            return None
        (rows, inner), columns = left.dims, scales.dims[1]
        if 8 * (weight.bytes or 0) not in [bits * inner * columns for bits in (2, 3, 4, 8)]:
            return None
        extra = [call.tensor(place) for place in others]
        out = Tensor((rows, columns), left.type)
        return moved([left, weight, scales, *extra], [out], 2 * out.elements * inner)

    return price


_ROWS = MatmulPlaces(0, 1, extra=(2, 3, 4), out=4)
_COLUMNS = MatmulPlaces(0, 1, extra=(2, 3, 5), dtype=4, by_rows=False)
_WRITTEN = MatmulPlaces(1, 2, extra=(3, 4, 5, 6, 7), out=0, by_rows=False)

QUANTIZED = CostKind(
    {
        **table("cutlass_scaled_mm cutlass_scaled_mm_azp", _price(_WRITTEN), "_C::"),
        "_C::cutlass_scaled_fp4_mm": _price(MatmulPlaces(1, 2, (3, 4, 5), out=0, packed=2)),
        **table("fp8_scaled_mm int8_scaled_mm", _price(_COLUMNS), "sgl_kernel::"),
        "sgl_kernel::fp8_blockwise_scaled_mm": _price(_COLUMNS),
        "aiter::gemm_a8w8*": _price(_ROWS),
        "aiter::gemm_a4w4*": _price(MatmulPlaces(0, 1, extra=(2, 3), out=4, packed=2)),
        "aiter::_gemm_a4w4*": _price(MatmulPlaces(0, 1, extra=(2, 3), out=4, packed=2)),
        "trtllm::cublas_scaled_mm": _price(
            MatmulPlaces(0, 1, extra=(2, 3, 4), dtype=5, by_rows=False)
        ),
        "vllm::rocm_aiter_gemm_a8w8_blockscale*": _price(MatmulPlaces(0, 1, extra=(2, 3), dtype=4)),
        **table(
            "rocm_aiter_w8a8_gemm rocm_aiter_gemm_w8a8",
            _price(MatmulPlaces(0, 1, extra=(2, 3, 4), dtype=5)),
            "vllm::",
        ),
        **table(
            "w8a8_triton_block_scaled_mm_func w8a8_block_fp8_matmul",
            _price(MatmulPlaces(0, 1, extra=(2, 3))),
            "vllm::",
        ),
        "sglang::w8a8_block_fp8_matmul*": _price(MatmulPlaces(0, 1, extra=(2, 3))),
        # a weight or an input on either side: the matmul is the same
        **table("wvSplitK wvSplitKrc", _price(MatmulPlaces(0, 1, extra=(2,))), "_rocm_C::"),
        "_rocm_C::LLMM1": _price(MatmulPlaces(0, 1)),
        "_rocm_C::wvSplitKQ": _price(MatmulPlaces(0, 1, extra=(2, 4, 5), out=3)),
        **table("marlin_gemm gptq_marlin_gemm", _packed(2, (3, 4)), "_C::"),
        "_C::machete_mm": _packed(1, (4,), others=(5, 7, 8)),
        "_C::awq_gemm": _packed(1, (2,), others=(3,)),
        "_C::gptq_gemm": _packed(1, (3,), others=(2, 4)),
    }
)


KINDS = (QUANTIZE, QUANTIZED)
