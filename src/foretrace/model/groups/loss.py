"""The loss: cross entropy (log_softmax and nll_loss), mean squared error and others.

The cast of the logits to float32 in front of a cross entropy is part of it.
"""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, Pattern, WorkGroup, named, word_test, words

_OPS = words("""
    cross_entropy_loss nll_loss nll_loss_forward nll_loss_backward nll_loss2d_forward
    nll_loss2d_backward mse_loss mse_loss_backward l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits
""")
_KERNEL = word_test(r"cross_?entropy|nll_?loss|mse_?loss|jsd_|kldiv")


def _test(work: GpuWork) -> object:
    return work.ops & _OPS or (work.origins & _OPS and not _norm(work)) or _KERNEL(work.words)


def _norm(work: GpuWork) -> bool:
    """Inductor lists the loss among the origins of the first kernel of the backward pass too."""
    return work.role == "normalization" or "embedding_dense_backward" in work.origins


GROUP = WorkGroup(
    "loss",
    35,
    named("loss", _test),
    (
        Pattern("cast (pad|copy)* (cross_entropy_loss+|log_softmax nll_loss)"),
        Pattern("log_softmax nll_loss"),
    ),
)
