"""Normalizations: input, scale and shift read once, output and statistics written once. FLOP are
not stated.

How many operations a normalization makes per element is the kernel's affair, so `flops` is None;
these kernels live by bandwidth. Statistics (mean, reciprocal deviation) are floats for 16-bit
inputs, as CUDA keeps them. A backward reads gradient, input, statistics and scale and writes what
its output mask asks for, or, where the mask is not recorded, all. Batch norm in training reads the
running statistics and writes them back. Layer norms in several kernels: the statistics apart from
the output; the gradient of the input apart from those of scale and shift, each of which reads
gradient and input anew.
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
    Tensor,
    at_least,
    dense,
    moved,
    part,
)


def _layer(statistics: int) -> Price:
    """native_layer_norm (input, normalized_shape, weight, bias, eps), _fused_rms_norm (input,
    shape, weight, eps).
    """

    def price(call: OpCall) -> Cost | None:
        source = call.tensor(0)
        if source is None:
            return None
        params = [call.tensor(index) for index in range(2, len(call.types))]
        shape = call.numbers(1)
        out = Tensor(source.dims, source.type)
        rows = source.elements // max(math.prod(shape), 1) if shape else None
        if rows is None:
            return at_least(
                [source, *params, out],
                "the normalized shape is not recorded, so statistics are left out",
            )
        kept = Tensor((statistics, rows), _accumulated(source.type))
        return moved([source, *params], [out, kept])

    return price


def _layer_backward(call: OpCall) -> Cost | None:
    """(grad_out, input, shape, statistics..., weight[, bias], output_mask): gradients of input,
    weight, bias.
    """
    source = call.tensor(1)
    if call.tensor(0) is None or source is None:
        return None
    mask = call.numbers(len(call.types) - 1) or (1, 1, 1)
    weight = _weight_at(call)
    reads = _arguments(call)[: weight + 1]  # a bias that follows only lends its shape
    return moved(reads, _gradients(mask, source, call.tensor(weight)))


def _weight_at(call: OpCall) -> int:
    return len(call.types) - (2 if call.name.endswith("rms_norm_backward") else 3)


def _layer_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """native_layer_norm: `RowwiseMoments` makes the statistics, `LayerNormForward` the output."""
    source = call.tensor(0)
    if source is None:
        return None
    if "RowwiseMoments" in kernel.name:
        return part([source], None, "the input read")
    if "LayerNormForward" not in kernel.name:
        return None
    reads = [source, *(call.tensor(index) for index in range(2, len(call.types)))]
    return part(reads, [dense(source)], "input, scale and shift read, the output written")


def _layer_backward_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    gradient, source, weight_at = call.tensor(0), call.tensor(1), _weight_at(call)
    if gradient is None or source is None:
        return None
    weight, statistics = (
        call.tensor(weight_at),
        [call.tensor(index) for index in range(3, weight_at)],
    )
    mask = call.numbers(len(call.types) - 1) or (1, 1, 1)
    if "grad_input" in kernel.name or "ComputeGradInput" in kernel.name:
        return part(
            [gradient, source, *statistics, weight],
            [dense(source)],
            "inputs read, the input's gradient written",
        )
    written = _gradients((0, *mask[1:]), source, weight)
    # the second step of ROCm and of old versions, over partial sums
    if "ComputeGradGammaBeta" in kernel.name:
        return part(None, written, "the gradients of scale and shift written")
    if "GammaBeta" not in kernel.name or not any(mask[1:2]):
        return None
    return part(
        [gradient, source, *statistics],
        written,
        "inputs read, the gradients of scale and shift written",
    )


def _batch(call: OpCall) -> Cost | None:
    """(input, weight, bias, running_mean, running_var, training, ...): statistics are per channel."""
    source = call.tensor(0)
    if source is None or len(source.dims) < 2:
        return None
    running = [call.tensor(3), call.tensor(4)]
    training = (
        call.flag(5) if call.text(5) in ("True", "False") else not call.name.endswith("no_training")
    )
    saved = Tensor((2, source.dims[1]), _accumulated(source.type))
    writes = [Tensor(source.dims, source.type), *([saved, *running] if training else [])]
    return moved([source, call.tensor(1), call.tensor(2), *running], writes)


def _batch_backward(call: OpCall) -> Cost | None:
    """Gradient and input come first, in either order; then weight and statistics; gradients of
    input, weight, bias.
    """
    first, second, weight = (call.tensor(index) for index in range(3))
    if first is None or second is None:
        return None
    mask = next(
        (mask for index in (9, 7) if (mask := call.numbers(index)) and len(mask) == 3), (1, 1, 1)
    )
    return moved(_arguments(call), _gradients(mask, second, weight))


def _group(call: OpCall) -> Cost | None:
    """native_group_norm (input, weight, bias, N, C, HxW, group, eps): statistics per sample and
    group.
    """
    source, samples, groups = call.tensor(0), call.integer(3), call.integer(6)
    if source is None:
        return None
    reads, out = [source, call.tensor(1), call.tensor(2)], Tensor(source.dims, source.type)
    if samples is None or groups is None:
        return at_least(
            [*reads, out], "the number of groups is not recorded, so statistics are left out"
        )
    return moved(reads, [out, Tensor((2, samples, groups), source.type)])


def _group_backward(call: OpCall) -> Cost | None:
    """native_group_norm_backward (grad_out, input, mean, rstd, weight, N, C, HxW, group,
    output_mask).
    """
    source = call.tensor(1)
    if call.tensor(0) is None or source is None:
        return None
    return moved(_arguments(call), _gradients(call.numbers(9) or (1, 1, 1), source, call.tensor(4)))


def _arguments(call: OpCall) -> list[Tensor | None]:
    return [call.tensor(index) for index in range(len(call.types))]


def _gradients(mask: tuple[int, ...], source: Tensor, weight: Tensor | None) -> list[Tensor]:
    """Of the input, and of scale and shift, which have the weight's size."""
    parts = (source, weight, weight)
    return [
        Tensor(part.dims, part.type)
        for wanted, part in zip(mask, parts, strict=False)
        if wanted and part
    ]


def _accumulated(type_name: str) -> str:
    return "float" if type_name in ("c10::Half", "c10::BFloat16") else type_name


KIND = Kind(
    prices={
        "aten::native_layer_norm": _layer(statistics=2),
        "aten::layer_norm": _layer(statistics=0),
        "aten::rms_norm": _layer(statistics=0),
        "aten::_fused_rms_norm": _layer(statistics=1),
        "aten::native_layer_norm_backward": _layer_backward,
        "aten::_fused_rms_norm_backward": _layer_backward,
        **dict.fromkeys(
            (
                "aten::batch_norm",
                "aten::native_batch_norm",
                "aten::cudnn_batch_norm",
                "aten::miopen_batch_norm",
                "aten::_native_batch_norm_legit",
                "aten::_native_batch_norm_legit_no_training",
                "aten::_batch_norm_with_update",
            ),
            _batch,
        ),
        **dict.fromkeys(
            (
                "aten::native_batch_norm_backward",
                "aten::cudnn_batch_norm_backward",
                "aten::batch_norm_backward",
                "aten::miopen_batch_norm_backward",
            ),
            _batch_backward,
        ),
        "aten::native_group_norm": _group,
        "aten::native_group_norm_backward": _group_backward,
    },
    examples=(
        (
            OpCall(
                "aten::native_layer_norm",
                [[1, 141, 512], [], [512], [512], []],
                ["c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"],
                concrete=["", "[512]", "", "", "1e-12"],
            ),
            Cost(None, 144_384 + 2 * 1024, 144_384 + 2 * 4 * 141),
        ),
        (
            OpCall(
                "aten::_fused_rms_norm_backward",
                [[6, 32], [6, 32], [], [6, 1], [32], []],
                ["float", "float", "ScalarList", "float", "float", "ScalarList"],
                concrete=["", "", "[32]", "", "", "[True, True]"],
            ),
            Cost(None, 4 * (192 + 192 + 6 + 32), 4 * (192 + 32)),
        ),
        (
            OpCall(
                "aten::cudnn_batch_norm",
                [[8, 3, 4, 4], [3], [3], [3], [3], [], [], []],
                ["float"] * 5 + ["Scalar"] * 3,
                concrete=["", "", "", "", "", "True", "0.1", "1e-05"],
            ),
            Cost(None, 4 * (384 + 12), 4 * (384 + 6 + 6)),
        ),
        (
            OpCall(
                "aten::native_group_norm",
                [[2, 8, 4], [8], [8], [], [], [], [], []],
                ["float"] * 3 + ["Scalar"] * 5,
                concrete=["", "", "", "2", "8", "4", "2", "1e-05"],
            ),
            Cost(None, 4 * (64 + 16), 4 * (64 + 8)),
        ),
    ),
    shares={
        "aten::native_layer_norm": _layer_share,
        "aten::native_layer_norm_backward": _layer_backward_share,
        "aten::_fused_rms_norm_backward": _layer_backward_share,
    },
    split=(
        (
            OpCall(
                "aten::_fused_rms_norm_backward",
                [[6, 32], [6, 32], [], [6, 1], [32], []],
                ["float", "float", "ScalarList", "float", "float", "ScalarList"],
                concrete=["", "", "[32]", "", "", "[True, True]"],
            ),
            {
                Launch(
                    "layer_norm_grad_input_kernel_vectorized<float, float, true>", "normalization"
                ): Cost(
                    None,
                    4 * (192 + 192 + 6 + 32),
                    4 * 192,
                    "at least: inputs read, the input's gradient written",
                ),
                Launch(
                    "GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u>", "normalization"
                ): Cost(
                    None,
                    4 * (192 + 192 + 6),
                    4 * 32,
                    "at least: inputs read, the gradients of scale and shift written",
                ),
            },
        ),
        (
            OpCall(
                "aten::native_layer_norm",
                [[8, 32], [], [32], [32], []],
                ["float", "", "float", "float", "Scalar"],
            ),
            {
                Launch("RowwiseMomentsCUDAKernel<float, float>", "normalization"): Cost(
                    None, 1024, None, "at least: the input read", touched=1024
                ),
                Launch("LayerNormForwardCUDAKernel<float, float>", "normalization"): Cost(
                    None,
                    1024 + 256,
                    1024,
                    "at least: input, scale and shift read, the output written",
                ),
            },
        ),
    ),
)
