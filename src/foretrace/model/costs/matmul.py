"""Matrix products: 2*M*N*K FLOP exactly; both operands (and a bias) read once, the result written
once.

A bias, an activation or a scale in the epilogue adds no FLOP to the count, as is the custom; the
bias is read. A bias with beta = 0 is not read. The rows of a grouped product are counted whole:
offsets that leave rows out are data, which a trace does not record. Two fp4 values share a byte, so
K counts twice there. Of several kernels, the only one with the role of a product reads the operands
and writes the result, or partial results at least as large. Beside it: the sum of the partial
results, the bias copied or added by a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    broadcast,
    moved,
    total,
)
from foretrace.model.costs._types import promote

_INTEGER_ACCUMULATOR = "int"
# cuBLAS and cuBLASLt: the sum of partial results, the bias and activation, the result scaled by
# beta.
_REDUCE, _EPILOGUE, _SCALE = "splitKreduce", "epilogue::impl", "scal_kernel"


def _product(
    left: Tensor | None,
    right: Tensor | None,
    extra: tuple[Tensor | None, ...] = (),
    out_type: str = "",
) -> Cost | None:
    """(..., M, K) x (..., K, N) with broadcast leading dimensions; a vector is a matrix with one
    row or column.
    """
    if left is None or right is None or not left.dims or not right.dims:
        return None
    *left_batch, rows, inner = left.dims if len(left.dims) > 1 else (1, *left.dims)
    *right_batch, depth, columns = right.dims if len(right.dims) > 1 else (*right.dims, 1)
    batch = broadcast(tuple(left_batch), tuple(right_batch))
    if inner != depth or batch is None:
        return None
    out = Tensor((*batch, rows, columns), out_type or promote((left.type, right.type)) or "")
    packed = 2 if left.type == "c10::Float4_e2m1fn_x2" else 1
    return moved([left, right, *extra], [out], 2 * math.prod(out.dims) * inner * packed)


def _plain(call: OpCall) -> Cost | None:
    """mm, bmm, mv, dot, matmul (self, other[, out or out_dtype])."""
    given = call.scalar_type(2) if call.tensor(2) is None else None
    return _product(call.tensor(0), call.tensor(1), out_type=given or "")


def _added(call: OpCall) -> Cost | None:
    """addmm, baddbmm, addmv (self, left, right, beta, alpha[, out])."""
    bias = None if call.number(3) == 0 else call.tensor(0)
    return _product(call.tensor(1), call.tensor(2), (bias,))


def _summed(call: OpCall) -> Cost | None:
    """addbmm (self, batch1, batch2): the batch is summed away, so the result is one matrix."""
    whole, out = _added(call), call.tensor(0)
    rows, columns = (call.tensor(1), call.tensor(2))
    if whole is None or out is None or rows is None or columns is None:
        return None
    result = Tensor((rows.dims[-2], columns.dims[-1]), out.type)
    return Cost(whole.flops, whole.bytes_read, result.bytes)


def _linear(call: OpCall) -> Cost | None:
    """linear (input, weight [N, K], bias); a weight vector gives a dot product per row."""
    weight = call.tensor(1)
    if weight is None or not weight.dims:
        return None
    turned = Tensor(weight.dims[::-1], weight.type, weight.strides and weight.strides[::-1])
    return _product(call.tensor(0), turned, (call.tensor(2),))


def _outer(call: OpCall) -> Cost | None:
    """outer, ger (self [M], other [N])."""
    left, right = call.tensor(0), call.tensor(1)
    if left is None or right is None or len(left.dims) != 1 or len(right.dims) != 1:
        return None
    out = Tensor(left.dims + right.dims, promote((left.type, right.type)) or "")
    return moved([left, right], [out], out.elements)


def _scaled(call: OpCall) -> Cost | None:
    """_scaled_mm (self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, ...[, out])."""
    out = call.tensor(8)
    out_type = call.scalar_type(6) or (out.type if out else "")
    return _product(
        call.tensor(0), call.tensor(1), (call.tensor(2), call.tensor(3), call.tensor(4)), out_type
    )


def _integer(call: OpCall) -> Cost | None:
    """_int_mm (self int8, mat2 int8[, out]): the result is int32."""
    return _product(call.tensor(0), call.tensor(1), out_type=_INTEGER_ACCUMULATOR)


def _grouped(offsets: int, bias: int, out_dtype: int, scales: tuple[int, ...] = ()) -> Price:
    """_grouped_mm, _scaled_grouped_mm: with offsets, one 2-D operand is cut into groups along rows,
    columns or K.
    """

    def price(call: OpCall) -> Cost | None:
        left, right = call.tensor(0), call.tensor(1)
        if left is None or right is None or len(left.dims) < 2 or len(right.dims) < 2:
            return None
        extra = tuple(call.tensor(index) for index in (*scales, offsets, bias))
        groups, out_type = (
            call.tensor(offsets),
            call.scalar_type(out_dtype) or promote((left.type, right.type)) or "",
        )
        rows, inner, columns = left.dims[-2], left.dims[-1], right.dims[-1]
        if len(left.dims) == len(right.dims) == 2:
            batch = groups.dims[0] if groups and groups.dims else 1
            flops = 2 * rows * inner * columns
        else:
            batch = left.dims[0] if len(left.dims) == len(right.dims) else 1
            flops = 2 * batch * rows * inner * columns
        return moved([left, right, *extra], [Tensor((batch, rows, columns), out_type)], flops)

    return price


def _share(price: Price, bias_at: int) -> Share:
    """The parts of a product made by several kernels; `bias_at` is the place of what is added, or
    -1.
    """

    def share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
        whole = price(call)
        bias = None if call.number(3) == 0 else call.tensor(bias_at)
        added, out = total([bias]), whole.bytes_written if whole else None
        if whole is None or whole.bytes_read is None or out is None or added is None:
            return None
        if _REDUCE in kernel.name:
            return Cost(None, out, out, "at least: one partial result read, the result written")
        if _SCALE in kernel.name:
            return Cost(None, None, out, "at least: the result written", touched=out)
        if _EPILOGUE in kernel.name:
            return Cost(
                None, out + added, out, "at least: the result read and written, and the bias read"
            )
        if bias is not None and _only(kernel, kernels, "copy"):
            return Cost(None, added, out, "at least: the bias read and copied into the result")
        if not _only(kernel, kernels, "gemm", "gemv"):
            return None
        begun = out if any(other.role == "copy" or _SCALE in other.name for other in kernels) else 0
        return Cost(
            None,
            whole.bytes_read - added + begun,
            out,
            "at least: the operands read, the result written once",
        )

    return share


def _only(kernel: Launch, kernels: Sequence[Launch], *roles: str) -> bool:
    return kernel.role in roles and sum(other.role in roles for other in kernels) == 1


_PLAIN = [f"aten::{name}" for name in ("mm", "bmm", "mv", "dot", "vdot", "matmul", "inner")]
_ADDED = [
    f"aten::{name}"
    for name in ("addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "_addmm_activation")
]
_BF16_MM = OpCall(
    "aten::mm", [[8192, 768], [768, 3072]], ["c10::BFloat16"] * 2, [[768, 1], [1, 768]], ["", ""]
)

KIND = Kind(
    prices={
        **dict.fromkeys(_PLAIN, _plain),
        **dict.fromkeys(_ADDED, _added),
        "aten::addbmm": _summed,
        "aten::addbmm_": _summed,
        "aten::linear": _linear,
        "aten::outer": _outer,
        "aten::ger": _outer,
        "aten::_scaled_mm": _scaled,
        "aten::_int_mm": _integer,
        "aten::_grouped_mm": _grouped(offsets=2, bias=3, out_dtype=4),
        "aten::_scaled_grouped_mm": _grouped(offsets=4, bias=5, out_dtype=7, scales=(2, 3)),
    },
    examples=(
        (_BF16_MM, Cost(38_654_705_664, 17_301_504, 50_331_648)),
        (
            OpCall(
                "aten::addmm",
                [[64], [1024, 32], [32, 64], [], []],
                ["float"] * 3 + ["Scalar"] * 2,
                concrete=["", "", "", "1", "1"],
            ),
            Cost(4_194_304, 4 * (64 + 32_768 + 2_048), 4 * 65_536),
        ),
        (
            OpCall("aten::bmm", [[16, 41, 64], [16, 64, 41]], ["c10::Half"] * 2),
            Cost(3_442_688, 2 * 2 * 16 * 41 * 64, 2 * 16 * 41 * 41),
        ),
        (
            OpCall(
                "aten::_scaled_mm",
                [[128, 256], [256, 512], [], [], [], [], [], []],
                ["c10::Float8_e4m3fn"] * 2 + ["float"] * 2 + ["", "", "Scalar", "Scalar"],
                concrete=["", "", "", "", "", "", "15", "True"],
            ),
            Cost(33_554_432, 128 * 256 + 256 * 512 + 8, 2 * 128 * 512),
        ),
        (OpCall("aten::dot", [[1000], [1000]], ["float"] * 2), Cost(2000, 8000, 4)),
        (
            OpCall("aten::linear", [[2, 5, 8], [16, 8], [16]], ["float"] * 3),
            Cost(2560, 4 * (80 + 128 + 16), 4 * 160),
        ),
    ),
    shares={
        **dict.fromkeys(_PLAIN, _share(_plain, bias_at=-1)),
        **dict.fromkeys(_ADDED, _share(_added, bias_at=0)),
        "aten::linear": _share(_linear, bias_at=2),
    },
    split=(
        (
            OpCall("aten::mm", [[2048, 32000], [32000, 768]], ["c10::BFloat16"] * 2),
            {
                Launch("nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_splitK_NNN", "gemm"): Cost(
                    100_663_296_000,
                    131_072_000 + 49_152_000,
                    3_145_728,
                    "at least: the operands read, the result written once",
                ),
                Launch(
                    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
                    "reduction",
                ): Cost(
                    None,
                    3_145_728,
                    3_145_728,
                    "at least: one partial result read, the result written",
                ),
            },
        ),
        (
            OpCall(
                "aten::addmm", [[128], [5, 128], [128, 128], [], []], ["float"] * 3 + ["Scalar"] * 2
            ),
            {
                Launch("elementwise_kernel<128, 2, direct_copy_kernel_cuda>", "copy"): Cost(
                    None, 512, 2560, "at least: the bias read and copied into the result"
                ),
                Launch("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32", "gemm"): Cost(
                    163_840,
                    2560 + 65_536 + 2560,
                    2560,
                    "at least: the operands read, the result written once",
                ),
            },
        ),
        (
            OpCall(
                "aten::addmm",
                [[160], [2048, 32], [32, 160], [], []],
                ["float"] * 3 + ["Scalar"] * 2,
            ),
            {
                Launch("ampere_sgemm_32x128_tn", "gemm"): Cost(
                    20_971_520,
                    4 * (65_536 + 5120),
                    1_310_720,
                    "at least: the operands read, the result written once",
                ),
                Launch(
                    "void epilogue::impl::globalKernel<float, float, float, true, true>",
                    "pointwise",
                ): Cost(
                    None,
                    1_310_720 + 640,
                    1_310_720,
                    "at least: the result read and written, and the bias read",
                ),
            },
        ),
    ),
)
