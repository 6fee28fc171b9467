"""Matmuls, quantization, and matmuls with narrow operands; `docs/costs.md` has the conventions.

The bias is read unless beta is 0. The rows of a grouped matmul count whole: a trace does not record
offsets that leave rows out. Two fp4 values share a byte, so K counts twice there. Of several
kernels, the only one with the role of a matmul reads the operands and writes the result, or partial
results at least as large.

Static scales of a quantization are read, dynamic ones are written. One scale for a whole tensor
takes two kernels: the first finds the largest value, the second reads the input again.

The libraries of serving engines differ in the order of arguments and in how they store a narrow
weight: by columns as [K, N], by rows as [N, K], or packed (Marlin, machete, AWQ, GPTQ). Of a packed
weight the scales tell N. The type of a result that is no argument is the recorded dtype, else that
of the input where the input is not quantized, else bfloat16: serving engines compute in 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.patterns import regex
from foretrace.work.costs._call import SIZES, OpCall, Tensor, broadcast, promote, total
from foretrace.work.costs._cost import (
    Cost,
    CostKind,
    Launch,
    Price,
    Share,
    at_least,
    moved,
    table,
    takes,
)
from foretrace.work.traffic import Certainty

# How many operands these ops take. Compiled code passes the buffer of the result behind them
# (`out=`), and a trace records it as one more argument.
OPERANDS = {"aten::mm": 2, "aten::bmm": 2, "aten::_int_mm": 2, "aten::addmm": 3, "aten::baddbmm": 3}
# cuBLAS and cuBLASLt: the sum of partial results, the bias and activation, the result times beta.
_REDUCE, _EPILOGUE, _SCALE = regex("splitKreduce|execute_split_k"), "epilogue::impl", "scal_kernel"


def _matmul(
    left: Tensor, right: Tensor, extra: Sequence[Tensor | None] = (), out_type: str | None = None
) -> Cost | None:
    """(..., M, K) x (..., K, N), leading dimensions broadcast; a vector is one row or column."""
    if not left.dims or not right.dims:
        return None
    *left_batch, rows, inner = left.dims if len(left.dims) > 1 else (1, *left.dims)
    *right_batch, depth, columns = right.dims if len(right.dims) > 1 else (*right.dims, 1)
    batch = broadcast(tuple(left_batch), tuple(right_batch))
    if inner != depth or batch is None:
        return None
    out = Tensor((*batch, rows, columns), out_type or promote((left.type, right.type)))
    packed = 2 if left.type == "c10::Float4_e2m1fn_x2" else 1
    return moved([left, right, *extra], [out], 2 * out.elements * inner * packed)


def _plain(call: OpCall) -> Cost | None:
    """mm, bmm, mv, dot, matmul (self, other[, out or out_dtype])."""
    out_type = call.scalar_type(2) if call.tensor(2) is None else None
    return _matmul(call.need(0), call.need(1), out_type=out_type)


def _added(call: OpCall) -> Cost | None:
    """addmm, baddbmm, addmv (self, left, right, beta, alpha[, out])."""
    bias = None if call.number(3) == 0 else call.tensor(0)
    return _matmul(call.need(1), call.need(2), [bias])


def _summed(call: OpCall) -> Cost | None:
    """addbmm (self, batch1, batch2): the sum over the batch is one matrix."""
    whole, out, left, right = _added(call), call.need(0), call.need(1), call.need(2)
    if whole is None or len(left.dims) < 2:
        return None
    result = Tensor((left.dims[-2], right.dims[-1]), out.type)
    return Cost(whole.flops, whole.bytes_read, result.bytes)


def linear(call: OpCall) -> Cost | None:
    """linear (input, weight [N, K], bias); a weight vector gives a dot product per row."""
    weight = call.need(1)
    turned = Tensor(weight.dims[::-1], weight.type, weight.strides and weight.strides[::-1])
    return _matmul(call.need(0), turned, [call.tensor(2)])


def _outer(call: OpCall) -> Cost | None:
    """outer, ger (self [M], other [N])."""
    left, right = call.need(0), call.need(1)
    if len(left.dims) != 1 or len(right.dims) != 1:
        return None
    out = Tensor(left.dims + right.dims, promote((left.type, right.type)))
    return moved([left, right], [out], out.elements)


def _scaled(call: OpCall) -> Cost | None:
    """_scaled_mm (self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, ...[, out])."""
    out = call.tensor(8)
    out_type = call.scalar_type(6) or (out.type if out else None)
    extra = [call.tensor(index) for index in (2, 3, 4)]
    return _matmul(call.need(0), call.need(1), extra, out_type)


def _grouped(offsets: int, bias: int, out_dtype: int, scales: tuple[int, ...] = ()) -> Price:
    """_grouped_mm, _scaled_grouped_mm: offsets cut a 2-D operand along rows, columns or K."""

    def price(call: OpCall) -> Cost | None:
        left, right, groups = call.need(0), call.need(1), call.tensor(offsets)
        if len(left.dims) < 2 or len(right.dims) < 2:
            return None
        extra = [call.tensor(index) for index in (*scales, offsets, bias)]
        out_type = call.scalar_type(out_dtype) or promote((left.type, right.type))
        rows, inner, columns = left.dims[-2], left.dims[-1], right.dims[-1]
        flops = 2 * rows * inner * columns
        if len(left.dims) == len(right.dims) == 2:
            batch = groups.dims[0] if groups and groups.dims else 1
        else:
            batch = left.dims[0] if len(left.dims) == len(right.dims) else 1
            flops *= batch
        return moved([left, right, *extra], [Tensor((batch, rows, columns), out_type)], flops)

    return price


def _share(price: Price, bias_at: int) -> Share:
    """The parts of a matmul made by several kernels; `bias_at` is the place of the bias, or -1."""

    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        whole = price(call)
        bias = None if call.number(3) == 0 else call.tensor(bias_at)
        added, out = total([bias]), whole.bytes_written if whole else None
        if whole is None or whole.bytes_read is None or out is None or added is None:
            return None
        if _REDUCE.search(kernel.name):
            return _part(out, out, "reads one partial result, writes the result")
        if _SCALE in kernel.name:
            return _part(None, out, "writes the result")
        if _EPILOGUE in kernel.name:
            return _part(out + added, out, "reads the result and the bias, writes the result")
        if bias is not None and _only(kernel, kernels, "copy"):
            return _part(added, out, "reads the bias, copies it into the result")
        if not _only(kernel, kernels, "gemm", "gemv"):
            return None
        begun = out if any(each.role == "copy" or _SCALE in each.name for each in kernels) else 0
        read = whole.bytes_read - added + begun
        return _part(read, out, "reads the operands, writes the result once")

    return share


def _part(read: int | None, written: int, note: str) -> Cost:
    touched = written if read is None else None
    return Cost(None, read, written, note, Certainty.AT_LEAST, touched)


def _only(kernel: Launch, kernels: Sequence[Launch], *roles: str) -> bool:
    return kernel.role in roles and sum(other.role in roles for other in kernels) == 1


_PLAIN = "mm bmm mv dot vdot matmul inner"
_ADDED = "addmm addmm_ baddbmm baddbmm_ addmv addmv_ _addmm_activation"

MATMUL = CostKind(
    prices={
        **table(_PLAIN, _plain),
        **table(_ADDED, _added),
        **table("addbmm addbmm_", _summed),
        "aten::linear": linear,
        **table("outer ger", _outer),
        "aten::_scaled_mm": _scaled,
        # (self int8, mat2 int8[, out])
        "aten::_int_mm": lambda call: _matmul(call.need(0), call.need(1), out_type="int"),
        "aten::_grouped_mm": _grouped(offsets=2, bias=3, out_dtype=4),
        "aten::_scaled_grouped_mm": _grouped(offsets=4, bias=5, out_dtype=7, scales=(2, 3)),
    },
    shares={
        **table(_PLAIN, _share(_plain, bias_at=-1)),
        **table(_ADDED, _share(_added, bias_at=0)),
        "aten::linear": _share(linear, bias_at=2),
    },
)


def _dynamic_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source, out = call.need(1), call.need(0)
    if any(mark in kernel.name.lower() for mark in ("max", "reduce", "absmax")):
        return at_least([source], [], "reads the input for its largest value")
    return at_least([source], [out], "reads the input, writes the result")


def _fp4(call: OpCall) -> Cost | None:
    """scaled_fp4_quant (out, input, out_scale, input_scale), or (input, input_scale, ...)."""
    first, second = call.need(0), call.need(1)
    if first.type == "unsigned char":
        return moved([second, call.tensor(3)], [first, call.tensor(2)], second.elements)
    count = first.elements
    # values that share a scale of nvfp4
    writes = [Tensor((each,), "unsigned char") for each in (count // 2, count // 16)]
    return moved([first, second], writes, count)


_GROUPED = takes("in out out", per=0)
_STATIC = "static_scaled_fp8_quant static_scaled_int8_quant"
_DYNAMIC = "dynamic_scaled_fp8_quant dynamic_per_token_scaled_fp8_quant"
_SGL = "sgl_per_token_group_quant_fp8 sgl_per_token_group_quant_int8 sgl_per_token_quant_fp8"
_NORMED = "rms_norm_dynamic_per_token_quant rms_norm_per_block_quant"

QUANTIZE = CostKind(
    prices={
        **table(_STATIC, takes("out in in? in?", per=1), "_C::"),
        **table(_DYNAMIC, takes("out in out?", per=1), "_C::"),
        "_C::dynamic_scaled_int8_quant": takes("out in out? out?", per=1),
        **table("per_token_group_fp8_quant per_token_group_quant_int8", _GROUPED, "_C::"),
        **table(_SGL, _GROUPED, "sgl_kernel::"),
        "_C::scaled_fp4_quant": _fp4,
        # out, input, weight, scale
        "_C::rms_norm_static_fp8_quant": takes("out in in? in?"),
        # out, input, residual, weight, scale
        "_C::fused_add_rms_norm_static_fp8_quant": takes("out in both? in? in?"),
        # out, input, weight, scale, eps, bound, residual
        **table(_NORMED, takes("out in in? out? - in? both?"), "_C::"),
        "_C::silu_and_mul_quant": takes("out in in?"),
        "_C::silu_and_mul_per_block_quant": takes("out in out?"),
    },
    shares={"_C::dynamic_scaled_fp8_quant": _dynamic_share},
)


def _narrow(
    left_at: int = 0,
    right_at: int = 1,
    extra: tuple[int, ...] = (),
    *,
    out_at: int = -1,
    dtype: int = -1,
    by_rows: bool = True,
    packed: int = 1,
) -> Price:
    """A matmul by the places of its arguments; the weight is [N, K] where `by_rows`.

    `extra` are scales and bias. `packed` values share an element of both operands.
    """

    def price(call: OpCall) -> Cost | None:
        left, right = call.need(left_at), call.need(right_at)
        if len(left.dims) < 2 or len(right.dims) != 2:
            return None
        columns, depth = right.dims if by_rows else right.dims[::-1]
        *rows, inner = left.dims
        if inner != depth:
            return None
        wide = left.type if SIZES.get(left.type, 0) > 1 else "c10::BFloat16"
        out = Tensor((*rows, columns), call.scalar_type(dtype) or wide)
        given = call.tensor(out_at)
        if given is not None and given.elements == out.elements:
            out = given
        found = [call.tensor(place) for place in extra]
        scales = [each for each in found if each is not None and each.elements < out.elements]
        return moved([left, right, *scales], [out], 2 * out.elements * inner * packed)

    return price


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


_COLUMNS = _narrow(extra=(2, 3, 5), dtype=4, by_rows=False)
_WRITTEN = _narrow(1, 2, extra=(3, 4, 5, 6, 7), out_at=0, by_rows=False)
_FP4 = _narrow(extra=(2, 3), out_at=4, packed=2)
_SCALED = _narrow(extra=(2, 3))
_AITER_W8A8 = "rocm_aiter_w8a8_gemm rocm_aiter_gemm_w8a8"

QUANTIZED = CostKind(
    {
        **table("cutlass_scaled_mm cutlass_scaled_mm_azp", _WRITTEN, "_C::"),
        "_C::cutlass_scaled_fp4_mm": _narrow(1, 2, (3, 4, 5), out_at=0, packed=2),
        **table("fp8_scaled_mm int8_scaled_mm fp8_blockwise_scaled_mm", _COLUMNS, "sgl_kernel::"),
        "aiter::gemm_a8w8*": _narrow(extra=(2, 3, 4), out_at=4),
        **table("gemm_a4w4* _gemm_a4w4*", _FP4, "aiter::"),
        "trtllm::cublas_scaled_mm": _narrow(extra=(2, 3, 4), dtype=5, by_rows=False),
        "vllm::rocm_aiter_gemm_a8w8_blockscale*": _narrow(extra=(2, 3), dtype=4),
        **table(_AITER_W8A8, _narrow(extra=(2, 3, 4), dtype=5), "vllm::"),
        **table("w8a8_triton_block_scaled_mm_func w8a8_block_fp8_matmul", _SCALED, "vllm::"),
        "sglang::w8a8_block_fp8_matmul*": _SCALED,
        # a weight or an input on either side: the matmul is the same
        **table("wvSplitK wvSplitKrc", _narrow(extra=(2,)), "_rocm_C::"),
        "_rocm_C::LLMM1": _narrow(),
        "_rocm_C::wvSplitKQ": _narrow(extra=(2, 4, 5), out_at=3),
        **table("marlin_gemm gptq_marlin_gemm", _packed(2, (3, 4)), "_C::"),
        "_C::machete_mm": _packed(1, (4,), others=(5, 7, 8)),
        "_C::awq_gemm": _packed(1, (2,), others=(3,)),
        "_C::gptq_gemm": _packed(1, (3,), others=(2, 4)),
    }
)


KINDS = (MATMUL, QUANTIZE, QUANTIZED)
