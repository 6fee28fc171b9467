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
    says,
    told,
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


def _is_host_copy(work: GpuWork) -> bool:
    leaving = words("HtoD DtoH PtoP HtoH")
    return work.id.get("op") == "memcpy" and work.id.get("kind") in leaving


def _convolution_name(work: GpuWork) -> str:
    """Convolutions, and what their libraries launch around them to change the layout."""
    if work.role != "conv" and not says(r"convolution|conv[123]d|conv_depthwise", *work.ops):
        return ""
    if work.path and plain(work.path[-1]) in ("add", "sum"):
        return ""  # the bias and its gradient
    return "convolution backward" if work.backward else "convolution"


def _is_choosing(work: GpuWork) -> object:
    """The choice of the next token or of the best entries: argmax, top-k, sort, sampling."""
    if work.origins:
        return work.origins & words("argmax argmin topk sort multinomial")
    ops = words("argmax argmin topk sort argsort multinomial exponential searchsorted")
    chosen = work.ops & ops or work.role == "sort"
    return chosen or says(r"sampling|top_?k|top_?p|argmax", work.words)


def _is_fills(work: GpuWork) -> object:
    """Memory set to one value."""
    stated, fills = plain(str(work.id.get("op") or "").split(" ")[0]), ("fill", "zero")
    return stated in ("memset", *fills) or (work.path and plain(work.path[-1]) in fills)


def _is_copies(work: GpuWork) -> object:
    """Copies within the GPU: another layout, a joined tensor, a memcpy."""
    copying = words("clone cat stack constant_pad_nd permute expand transpose unsqueeze view")
    only = work.origins and work.origins <= copying and work.role == "pointwise"
    return work.role == "copy" or only


def _of_role(name: str, order: int, *roles: str) -> WorkGroup:
    """What no other group explains, by what the kernels do."""
    return told(name, order, lambda work: work.role in roles, weak=True, with_backward=False)


def _is_optimizer(work: GpuWork) -> object:
    """The optimizer's step: fused, foreach or one parameter at a time.

    `torch.optim` wraps it in a region `Optimizer.step#AdamW.step`. A foreach op outside of one is
    something else, such as the clipping of gradients.
    """
    stepping = any(name.startswith(STEP) for name in work.path)
    fused = r"fused_?(adam|sgd|adagrad|lamb|lion)|adam(w)?_kernel|multi_tensor_(adam|sgd)"
    return (
        stepping
        or work.ops & words("fused_adam fused_adamw fused_sgd fused_adagrad")
        or says(fused, work.words)
        or work.id.short.startswith("fused Ada")
    )


def _gradients_name(work: GpuWork) -> str:
    """Gradients added up: into a parameter's `.grad`, or where a tensor was used more than once.

    The engine itself adds the gradients of a tensor's uses, outside of any node.
    `AccumulateGrad` adds to the gradient that a parameter has from before.
    """
    if any(name.endswith("AccumulateGrad") for name in work.path):
        return "gradient accumulation"
    sums = len(work.path) > 1 and work.path[-2].startswith(ENGINE)
    return "gradient sums" if sums and work.path[-1] in ("aten::add", "aten::add_") else ""


def _gemm_backward_name(work: GpuWork) -> str:
    """Matmuls of the backward pass, and the gradient of their bias."""
    if not work.backward:
        return ""
    if work.role in MATMULS:
        return "GEMM backward"
    layer = r"(Addmm|Linear|Convolution)Backward\d*$|convolution_backward"
    summed = work.path[-1] == "aten::sum" and says(layer, *work.path)
    return "bias gradient" if summed else ""


GROUPS = (
    # Communication between GPUs, by the collective that the program called.
    WorkGroup("collectives", 10, _collectives_name, with_backward=False),
    # Memcpys between the host and the GPU, and between GPUs, by direction.
    WorkGroup(
        "copies to and from the host",
        12,
        lambda work: f"copy {work.id.get('kind')}" if _is_host_copy(work) else "",
        with_backward=False,
    ),
    WorkGroup("convolution", 57, _convolution_name, with_backward=False),
    # Pooling over windows.
    told(
        "pooling",
        58,
        lambda work: says(r"(max|avg|average)_?pool", *work.ops, *work.origins, work.words),
    ),
    # Quantization to 8 or 4 bits and back, by a kernel of its own.
    told(
        "quantization",
        60,
        lambda work: (
            work.role not in MATMULS and says(r"(?i)quant", work.words, *work.ops, *work.origins)
        ),
    ),
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
    # A bias added by a kernel of its own, inside the op of a matmul or a convolution.
    told(
        "bias",
        65,
        lambda work: (
            work.role == "pointwise"
            and says(r"^(linear|addmm|baddbmm|conv\dd|convolution)$", *work.ops)
        ),
        with_backward=False,
    ),
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
    # DistributedDataParallel: gradients divided, and copied to and from the buckets it reduces.
    told(
        "DDP buckets",
        21,
        lambda work: says(
            r"torch\.distributed\.ddp\.reducer|torch::distributed::reducer", *work.path
        ),
        with_backward=False,
    ),
    WorkGroup("gradient sums", 22, _gradients_name, with_backward=False),
    WorkGroup("GEMM backward", 63, _gemm_backward_name, with_backward=False),
)
