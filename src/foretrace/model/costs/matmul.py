"""Matmuls: 2*M*N*K FLOP exactly; both operands (and a bias) read once, the result written
once.

A bias, an activation or a scale in the epilogue adds no FLOP, by convention; the bias is read,
unless beta is 0. The rows of a grouped matmul count whole: a trace does not record offsets that
leave rows out. Two fp4 values share a byte, so K counts twice there. Of several kernels, the only
one with the role of a matmul reads the operands and writes the result, or partial results at least
as large. Beside it: the sum of the partial results, and the bias copied or added by a kernel of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.patterns import regex
from foretrace.model.costs._call import OpCall, Tensor, broadcast, promote, total
from foretrace.model.costs._cost import Cost, CostKind, Launch, Price, Share, moved, table
from foretrace.schema.traffic import Certainty

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


def _integer(call: OpCall) -> Cost | None:
    """_int_mm (self int8, mat2 int8[, out]): the result is int32."""
    return _matmul(call.need(0), call.need(1), out_type="int")


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
        "aten::_int_mm": _integer,
        "aten::_grouped_mm": _grouped(offsets=2, bias=3, out_dtype=4),
        "aten::_scaled_grouped_mm": _grouped(offsets=4, bias=5, out_dtype=7, scales=(2, 3)),
    },
    shares={
        **table(_PLAIN, _share(_plain, bias_at=-1)),
        **table(_ADDED, _share(_added, bias_at=0)),
        "aten::linear": _share(linear, bias_at=2),
    },
)

KINDS = (MATMUL,)
