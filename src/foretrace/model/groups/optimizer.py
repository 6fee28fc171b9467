"""The optimizer's step: fused, foreach or one parameter at a time.

`torch.optim` wraps it in a region `Optimizer.step#AdamW.step`. A foreach op outside of one is
something else, such as the clipping of gradients.
"""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test, words

_KERNEL = word_test(r"fused_?(adam|sgd|adagrad|lamb|lion)|adam(w)?_kernel|multi_tensor_(adam|sgd)")
_OPS = words("fused_adam fused_adamw fused_sgd fused_adagrad")


def _test(work: GpuWork) -> object:
    stepping = any(name.startswith("Optimizer.step#") for name in work.path)
    return (
        stepping or work.ops & _OPS or _KERNEL(work.words) or work.id.short.startswith("fused Ada")
    )


GROUP = WorkGroup("optimizer", 20, named("optimizer", _test), with_backward=False)
