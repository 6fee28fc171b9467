"""What training adds: the backward pass of matmuls, sums of gradients, the optimizer."""

from __future__ import annotations

from foretrace.model.autograd import ENGINE, STEP
from foretrace.model.groups._group import MATMULS, GpuWork, WorkGroup, named, word_test, words

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
    WorkGroup("optimizer", 20, named("optimizer", _is_optimizer), with_backward=False),
    # Gradients set to zero between steps; `set_to_none=True` launches nothing.
    WorkGroup(
        "zero_grad",
        21,
        named(
            "zero_grad",
            lambda work: any(name.startswith("Optimizer.zero_grad#") for name in work.path),
        ),
        with_backward=False,
    ),
    WorkGroup("DDP buckets", 21, named("DDP buckets", _is_ddp), with_backward=False),
    WorkGroup("gradient sums", 22, _gradients_name, with_backward=False),
    WorkGroup("GEMM backward", 63, _gemm_backward_name, with_backward=False),
)
