"""What is named after its kernel: matmuls, copies, reductions, collectives and others."""

from __future__ import annotations

from foretrace.model.groups._group import (
    MATMULS,
    GpuWork,
    WorkGroup,
    named,
    plain,
    word_test,
    words,
)
from foretrace.model.groups._sequence import changes_type

_COLLECTIVES_NAMES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "AllToAll": "all-to-all",
    "Broadcast": "broadcast",
    "SendRecv": "send, receive",
}
_COLLECTIVES_OPS = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "allgather": "all-gather",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
}


def _collectives_name(work: GpuWork) -> str:
    """By the op: NCCL runs several collectives in a kernel that has the name of one (an all-to-all,
    and in old versions an all-reduce, in SendRecv). Else by the kernel's name.
    """
    if work.role != "comms":
        return ""
    by_op = {name for op in work.ops for word, name in _COLLECTIVES_OPS.items() if word in op}
    by_kernel = _COLLECTIVES_NAMES.get(str(work.id.get("coll")), "collectives")
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
    test = named(name, lambda work: work.role in roles)
    return WorkGroup(name, order, test, weak=True, with_backward=False)


GROUPS = (
    # Communication between GPUs, by the collective that the program called.
    WorkGroup("collectives", 10, _collectives_name, with_backward=False),
    WorkGroup("copies to and from the host", 12, _host_copies_name, with_backward=False),
    WorkGroup("convolution", 57, _convolution_name, with_backward=False),
    WorkGroup("pooling", 58, named("pooling", _is_pooling)),
    WorkGroup("quantization", 60, named("quantization", _is_quantization)),
    WorkGroup("argmax, top-k, sort", 61, named("argmax, top-k, sort", _is_choosing)),
    # The sums of the parts of split-K matmuls.
    WorkGroup(
        "split-K sums",
        62,
        named("split-K sums", lambda work: work.id.get("op") == "splitk_reduce"),
        with_backward=False,
    ),
    # Matmuls.
    WorkGroup("GEMM", 64, named("GEMM", lambda work: work.role in MATMULS), with_backward=False),
    WorkGroup("bias", 65, named("bias", _is_bias), with_backward=False),
    # Copies that only change the element type.
    WorkGroup(
        "casts",
        80,
        named("casts", lambda work: work.role == "copy" and changes_type(work)),
        weak=True,
        with_backward=False,
    ),
    WorkGroup("fills", 81, named("fills", _is_fills), weak=True, with_backward=False),
    WorkGroup("copies", 82, named("copies", _is_copies), weak=True, with_backward=False),
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
)
