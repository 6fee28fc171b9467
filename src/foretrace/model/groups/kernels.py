"""What is named after its kernel: matmuls, copies, reductions, collectives and others.

What training adds: the backward pass of matmuls, sums of gradients, the optimizer.
"""

from __future__ import annotations

from foretrace.model.autograd import ENGINE, STEP
from foretrace.model.groups._group import (
    MATMULS,
    GpuWork,
    WorkGroup,
    changes_type,
    plain,
    told,
    word_test,
    words,
)

_COLLECTIVES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "AllToAll": "all-to-all",
    "Broadcast": "broadcast",
    "SendRecv": "send, receive",
}


def _collectives_name(work: GpuWork) -> str:
    """By the op: NCCL runs several collectives in a kernel that has the name of one (an all-to-all,
    and in old versions an all-reduce, in SendRecv). Else by the kernel's name.
    """
    if work.role != "comms":
        return ""
    ops = [op.replace("_", "") for op in work.ops]
    by_op = {name for op in ops for word, name in _COLLECTIVES.items() if word.lower() in op}
    by_kernel = _COLLECTIVES.get(str(work.id.get("coll")), "collectives")
    return by_op.pop() if len(by_op) == 1 else by_kernel


_HOST_COPIES_LEAVING = words("HtoD DtoH PtoP HtoH")


def _host_copies_name(work: GpuWork) -> str:
    """Memcpys between the host and the GPU, and between GPUs, by direction."""
    kind = work.id.get("kind") if work.id.get("op") == "memcpy" else None
    return f"copy {kind}" if kind in _HOST_COPIES_LEAVING else ""


_CONVOLUTION_OPS = word_test(r"convolution|conv[123]d|conv_depthwise")


def _convolution_name(work: GpuWork) -> str:
    """Convolutions, and what their libraries launch around them to change the layout."""
    if work.role != "conv" and not any(_CONVOLUTION_OPS(op) for op in work.ops):
        return ""
    if work.path and plain(work.path[-1]) in ("add", "sum"):
        return ""  # the bias and its gradient
    return "convolution backward" if work.backward else "convolution"


_POOLING_POOL = word_test(r"(max|avg|average)_?pool")


def _is_pooling(work: GpuWork) -> object:
    """Pooling over windows."""
    return any(_POOLING_POOL(text) for text in (*work.ops, *work.origins, work.words))


_BIAS_OPS = word_test(r"^(linear|addmm|baddbmm|conv\dd|convolution)$")


def _is_bias(work: GpuWork) -> object:
    """A bias added by a kernel of its own, inside the op of a matmul or a convolution."""
    return work.role == "pointwise" and any(_BIAS_OPS(op) for op in work.ops)


_QUANTIZATION_QUANT = word_test(r"quant")


def _is_quantization(work: GpuWork) -> object:
    """Quantization to 8 or 4 bits and back, by a kernel of its own."""
    texts = (work.words, *work.ops, *work.origins)
    return work.role not in MATMULS and any(_QUANTIZATION_QUANT(text.lower()) for text in texts)


_CHOOSING_OPS = words("argmax argmin topk sort argsort multinomial exponential searchsorted")
_CHOOSING_KERNEL = word_test(r"sampling|top_?k|top_?p|argmax")


def _is_choosing(work: GpuWork) -> object:
    """The choice of the next token or of the best entries: argmax, top-k, sort, sampling."""
    if work.origins:
        return work.origins & words("argmax argmin topk sort multinomial")
    chosen = work.ops & _CHOOSING_OPS or work.role == "sort"
    return chosen or _CHOOSING_KERNEL(work.words)


_FILLS_OPS = words("fill zero")


def _is_fills(work: GpuWork) -> object:
    """Memory set to one value."""
    stated = plain(str(work.id.get("op") or "").split(" ")[0])
    return stated in ("memset", *_FILLS_OPS) or (work.path and plain(work.path[-1]) in _FILLS_OPS)


_COPIES_ORIGINS = words("clone cat stack constant_pad_nd permute expand transpose unsqueeze view")


def _is_copies(work: GpuWork) -> object:
    """Copies within the GPU: another layout, a joined tensor, a memcpy."""
    only = work.origins and work.origins <= _COPIES_ORIGINS and work.role == "pointwise"
    return work.role == "copy" or only


def _of_role(name: str, order: int, *roles: str) -> WorkGroup:
    """What no other group explains, by what the kernels do."""
    return told(name, order, lambda work: work.role in roles, weak=True, with_backward=False)


_OPTIMIZER_KERNEL = word_test(
    r"fused_?(adam|sgd|adagrad|lamb|lion)|adam(w)?_kernel|multi_tensor_(adam|sgd)"
)
_OPTIMIZER_OPS = words("fused_adam fused_adamw fused_sgd fused_adagrad")


def _is_optimizer(work: GpuWork) -> object:
    """The optimizer's step: fused, foreach or one parameter at a time.

    `torch.optim` wraps it in a region `Optimizer.step#AdamW.step`. A foreach op outside of one is
    something else, such as the clipping of gradients.
    """
    stepping = any(name.startswith(STEP) for name in work.path)
    return (
        stepping
        or work.ops & _OPTIMIZER_OPS
        or _OPTIMIZER_KERNEL(work.words)
        or work.id.short.startswith("fused Ada")
    )


_DDP_REDUCER = word_test(r"torch\.distributed\.ddp\.reducer|torch::distributed::reducer")


def _is_ddp(work: GpuWork) -> bool:
    """DistributedDataParallel: gradients divided, and copied to and from the buckets it reduces."""
    return any(_DDP_REDUCER(name) for name in work.path)


def _gradients_name(work: GpuWork) -> str:
    """Gradients added up: into a parameter's `.grad`, or where a tensor was used more than once.

    The engine itself adds the gradients of a tensor's uses, outside of any node.
    `AccumulateGrad` adds to the gradient that a parameter has from before.
    """
    if any(name.endswith("AccumulateGrad") for name in work.path):
        return "gradient accumulation"
    sums = len(work.path) > 1 and work.path[-2].startswith(ENGINE)
    return "gradient sums" if sums and work.path[-1] in ("aten::add", "aten::add_") else ""


_GEMM_BACKWARD_LINEAR = word_test(r"(Addmm|Linear|Convolution)Backward\d*$|convolution_backward")


def _gemm_backward_name(work: GpuWork) -> str:
    """Matmuls of the backward pass, and the gradient of their bias."""
    if not work.backward:
        return ""
    if work.role in MATMULS:
        return "GEMM backward"
    summed = work.path[-1] == "aten::sum" and any(_GEMM_BACKWARD_LINEAR(name) for name in work.path)
    return "bias gradient" if summed else ""


GROUPS = (
    # Communication between GPUs, by the collective that the program called.
    WorkGroup("collectives", 10, _collectives_name, with_backward=False),
    WorkGroup("copies to and from the host", 12, _host_copies_name, with_backward=False),
    WorkGroup("convolution", 57, _convolution_name, with_backward=False),
    told("pooling", 58, _is_pooling),
    told("quantization", 60, _is_quantization),
    told("argmax, top-k, sort", 61, _is_choosing),
    # The sums of the parts of split-K matmuls.
    told(
        "split-K sums",
        62,
        lambda work: work.id.get("op") == "splitk_reduce",
        with_backward=False,
    ),
    # Matmuls.
    told("GEMM", 64, lambda work: work.role in MATMULS, with_backward=False),
    told("bias", 65, _is_bias, with_backward=False),
    # Copies that only change the element type.
    told(
        "casts",
        80,
        lambda work: work.role == "copy" and changes_type(work),
        weak=True,
        with_backward=False,
    ),
    told("fills", 81, _is_fills, weak=True, with_backward=False),
    told("copies", 82, _is_copies, weak=True, with_backward=False),
    # Sums, means and other reductions that no other group explains.
    _of_role("reductions", 86, "reduction"),
    # Running sums and products: cumsum, and the prefix sums of other ops.
    _of_role("scans", 87, "scan"),
    # Reads and writes at indices.
    _of_role("gather, scatter", 88, "scatter_gather"),
    # Random numbers.
    _of_role("random numbers", 90, "random"),
    # Pointwise kernels that no other group explains; foreach kernels outside the optimizer.
    _of_role("pointwise", 95, "pointwise", "optimizer"),
    told("optimizer", 20, _is_optimizer, with_backward=False),
    # Gradients set to zero between steps; `set_to_none=True` launches nothing.
    told(
        "zero_grad",
        21,
        lambda work: any(name.startswith("Optimizer.zero_grad#") for name in work.path),
        with_backward=False,
    ),
    told("DDP buckets", 21, _is_ddp, with_backward=False),
    WorkGroup("gradient sums", 22, _gradients_name, with_backward=False),
    WorkGroup("GEMM backward", 63, _gemm_backward_name, with_backward=False),
)
