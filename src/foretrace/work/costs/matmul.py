"""Matmuls, quantization, convolutions, pooling; `docs/costs.md` has the conventions.

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

A backward pass makes up to two matmuls of the same size (the gradients of the input and of the
weight), as its output mask says. Padding counts as if it were data, which is how the multiply-adds
are usually quoted; Winograd and FFT algorithms do fewer. Window, stride and padding come from
`Concrete Inputs`: without them the output is unknown and only reads are counted. A max pool keeps a
64-bit index per output element, which its backward reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.work.costs._cost import (
    SIZES,
    Cost,
    CostKind,
    Launch,
    OpCall,
    Price,
    Share,
    Tensor,
    at_least,
    broadcast,
    moved,
    promote,
    table,
    takes,
    total,
)
from foretrace.work.kernel import Certainty

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


_MATMULS = "mm bmm mv dot vdot matmul inner"
_ADDED = "addmm addmm_ baddbmm baddbmm_ addmv addmv_ _addmm_activation"

MATMUL = CostKind(
    prices={
        **table(_MATMULS, _plain),
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
        **table(_MATMULS, _share(_plain, bias_at=-1)),
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


NONE = -1


_Places = dict[str, int]  # of the arguments, by name


def _forward(arguments: str) -> Price:
    """`arguments` are those behind input and weight, in the order of the schema; `-` skips one."""
    places = {name: place for place, name in enumerate(arguments.split(), 2)}

    def price(call: OpCall) -> Cost | None:
        image, weight = call.need(0), call.need(1)
        if len(weight.dims) < 3:
            return None
        others = [call.tensor(places.get(name, NONE)) for name in ("bias", "residual")]
        reads = [image, weight, *others]
        out = _output(call, places, image, weight)
        if out is None:
            note = "stride and padding are not recorded, so the output is unknown"
            return at_least(reads, None, note)
        return moved(reads, [out], _flops(image, out, weight, _is_transposed(call, places)))

    return price


def _is_transposed(call: OpCall, places: _Places) -> bool:
    """An op that always transposes has only `output_padding`."""
    if "transposed" in places:
        return bool(call.flag(places["transposed"]))
    return "output_padding" in places


def _backward(call: OpCall) -> Cost | None:
    """convolution_backward (grad_output, input, weight, ..., transposed at 7, ..., mask at 10)."""
    gradient, image, weight = call.need(0), call.need(1), call.need(2)
    if len(weight.dims) < 3:
        return None
    mask = call.numbers(10)
    if mask is None or len(mask) != 3:
        return at_least([gradient, image, weight], None, "the output mask is not recorded")
    outs = (image, weight, Tensor(gradient.dims[1:2], gradient.type))
    writes = [out.dense() for wanted, out in zip(mask, outs, strict=True) if wanted]
    reads = [gradient, weight if mask[0] else None, image if mask[1] else None]
    matmuls = bool(mask[0]) + bool(mask[1])
    flops = matmuls * _flops(image, gradient, weight, bool(call.flag(7)))
    return replace(moved(reads, writes, flops), matmuls=max(matmuls, 1))


def _flops(image: Tensor, out: Tensor, weight: Tensor, transposed: bool) -> int:
    """A filter [outer, inner per group, *taps] meets each output (transposed: input) element."""
    return 2 * (image if transposed else out).elements * math.prod(weight.dims[1:])


def _output(call: OpCall, places: _Places, image: Tensor, weight: Tensor) -> Tensor | None:
    axes = len(weight.dims) - 2
    stride, padding = (_per_axis(call, places[name], axes) for name in ("stride", "padding"))
    dilation = places.get("dilation")
    gaps = (1,) * axes if dilation is None else _per_axis(call, dilation, axes)
    if not stride or not padding or not gaps or 0 in stride or len(image.dims) < axes + 1:
        return None
    rows = zip(image.dims[-axes:], weight.dims[2:], stride, padding, gaps, strict=True)
    if _is_transposed(call, places):
        extra = _per_axis(call, places["output_padding"], axes) or (0,) * axes
        channels = weight.dims[1] * (call.integer(places.get("groups", NONE)) or 1)
        sizes = [
            (size - 1) * step - 2 * pad + gap * (taps - 1) + 1 + more
            for (size, taps, step, pad, gap), more in zip(rows, extra, strict=True)
        ]
    else:
        channels = weight.dims[0]
        sizes = [
            (size + 2 * pad - gap * (taps - 1) - 1) // step + 1
            for size, taps, step, pad, gap in rows
        ]
    if min(sizes) < 0:
        return None
    return Tensor((*image.dims[: -axes - 1], channels, *sizes), image.type)


def _per_axis(call: OpCall, place: int, axes: int) -> tuple[int, ...] | None:
    values = call.numbers(place)
    if values is None or len(values) not in (1, axes):
        return None
    return values if len(values) == axes else values * axes


_CONV_TRANSPOSE = "conv_transpose1d conv_transpose2d conv_transpose3d"
_DEPTHWISE = "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d"
_SLOW = "thnn_conv2d _slow_conv2d_forward slow_conv3d slow_conv3d_forward"
_ADD_RELU = "cudnn_convolution_add_relu miopen_convolution_add_relu"
_MIOPEN = "miopen_convolution miopen_depthwise_convolution mkldnn_convolution"
_GENERAL = "bias stride padding dilation transposed output_padding groups"
_CONVOLUTIONS = "conv1d conv2d conv3d cudnn_convolution_relu miopen_convolution_relu"

CONVOLUTION = CostKind(
    {
        **table("convolution _convolution", _forward(_GENERAL)),
        **table(_CONVOLUTIONS, _forward("bias stride padding dilation groups")),
        **table(_CONV_TRANSPOSE, _forward("bias stride padding output_padding groups dilation")),
        "aten::cudnn_convolution": _forward("padding stride dilation groups"),
        "aten::cudnn_convolution_transpose": _forward(
            "padding output_padding stride dilation groups"
        ),
        "aten::miopen_convolution_transpose": _forward(
            "bias padding output_padding stride dilation groups"
        ),
        **table(_MIOPEN, _forward("bias padding stride dilation groups")),
        **table(_ADD_RELU, _forward("residual - bias stride padding dilation groups")),
        **table(_DEPTHWISE, _forward("- bias stride padding dilation")),
        **table(_SLOW, _forward("- bias stride padding")),
        "aten::convolution_backward": _backward,
    }
)


_WHY = "the window is not recorded, so the output is unknown"


def _pool(dilation: int, ceil_mode: int, indices: bool) -> Price:
    """(self, kernel_size, stride, padding, ...): an empty stride means the kernel size."""

    def price(call: OpCall) -> Cost:
        source, window = call.need(0), call.numbers(1) or ()
        axes = len(window)
        gaps = (1,) * axes if dilation < 0 else call.numbers(dilation)
        rows = [window, call.numbers(2) or window, call.numbers(3) or (), gaps or ()]
        if not axes or len(source.dims) <= axes or any(len(row) != axes for row in rows):
            return at_least([source], None, _WHY)
        rounds_up = bool(call.flag(ceil_mode))
        sizes = [
            _length(size, *column, ceil_mode=rounds_up)
            for size, column in zip(source.dims[-axes:], zip(*rows, strict=True), strict=True)
        ]
        out = Tensor((*source.dims[:-axes], *sizes), source.type)
        return moved([source], [out, out.dense("long int") if indices else None])

    return price


def _length(size: int, window: int, step: int, pad: int, gap: int, *, ceil_mode: bool) -> int:
    """Windows that fit; rounding up adds one that starts inside the input or its left padding."""
    step = max(step, 1)
    room = size + 2 * pad - gap * (window - 1) - 1
    length = -(-room // step) + 1 if ceil_mode else room // step + 1
    if ceil_mode and (length - 1) * step >= size + pad:
        length -= 1
    return max(length, 0)


def _resized(call: OpCall) -> Cost:
    """_adaptive_avg_pool2d, upsample_* (self, output_size, ...)."""
    source, size = call.need(0), call.numbers(1)
    if not size or len(source.dims) <= len(size):
        return at_least([source], None, _WHY)
    return moved([source], [Tensor((*source.dims[: -len(size)], *size), source.type)])


def _pooling_backward(call: OpCall) -> Cost:
    """(grad_output, self, ..., indices): the input's values themselves are not read."""
    gradient, source = call.need(0), call.need(1)
    indices = [each for each in call.arguments(2) if each and each.type == "long int"]
    return moved([gradient, *indices], [source.dense()])


def _resized_backward(call: OpCall) -> Cost:
    """upsample_*_backward (grad_output, output_size, input_size, ...)."""
    gradient, size = call.need(0), call.numbers(2)
    if not size:
        return at_least([gradient], None, _WHY)
    return moved([gradient], [Tensor(size, gradient.type)])


_MAX_POOL = _pool(dilation=4, ceil_mode=5, indices=True)
_AVG_POOL = _pool(dilation=-1, ceil_mode=4, indices=False)
_BACKWARD = """
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward
    avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"""
_UPSAMPLE = """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample__nearest_exact2d
    upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d"""

POOLING = CostKind(
    {
        **table("max_pool2d_with_indices max_pool3d_with_indices", _MAX_POOL),
        **table("avg_pool2d avg_pool3d", _AVG_POOL),
        **table("_adaptive_avg_pool2d _adaptive_avg_pool3d", _resized),
        **table(_BACKWARD, _pooling_backward),
        **table(_UPSAMPLE, _resized),
        **{f"aten::{name}_backward": _resized_backward for name in _UPSAMPLE.split()},
    }
)
KINDS = (MATMUL, QUANTIZE, QUANTIZED, CONVOLUTION, POOLING)
