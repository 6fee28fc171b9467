"""Causal attention that is told so, without a mask.

What it looks for: `scaled_dot_product_attention` with a mask that has a number for each pair of
tokens, and is the same for all sequences and heads.

What must hold: as many queries as keys, at least 128. A mask that differs between sequences
(padding) or heads (a bias) says more than `is_causal=True` does. A trace has no values: whether the
mask is causal, the user must know.

What changes: half of the scores need no work. The kernels below the call and below its backward
node, the conversion of the mask among them, become one fused kernel each.
"""

from __future__ import annotations

import math

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown
from foretrace.look.fixes.attention_dtype import WIDE, attention_change
from foretrace.work.costs import OpCall, Tensor

_INNER = ("flash", "efficient", "cudnn", "fused")
OPS = (
    "aten::scaled_dot_product_attention",
    *(f"aten::_scaled_dot_product_{name}_attention" for name in _INNER),
)
ORDER = "pass is_causal=True to SDPA instead of attn_mask"
RISK = "holds where the mask is causal: a window or packing needs flex_attention"


@fix("Causal attention without a mask", "gpu shapes")
def _find(step: Step) -> Proposals:
    calls = step.ops(*OPS).tolist()
    masks = {event: mask for event in calls if (mask := shared_mask(step.call(event)))}
    if not masks:
        return
    size = next(iter(masks.values())).dims[-1]
    events, count = np.array([*masks], np.int64), plural(len(masks), "attention", "attentions")
    why = f"{count} per step read a mask of {size} x {size}"
    changes = attention_change(step, events, 0.5)  # of the scores
    yield Proposal(ORDER, why, *changes, risk=RISK, events=shown(events))


def shared_mask(call: OpCall) -> Tensor | None:
    """The mask of an attention, if it is square and one for all sequences and heads."""
    query, key, mask = (call.tensor(at) for at in (0, 1, 3))  # the argument, of all of them
    if query is None or key is None or mask is None or query.type in WIDE or len(mask.dims) < 2:
        return None
    tokens = query.dims[-2]
    if tokens < 128 or (tokens, tokens) != mask.dims[-2:] or key.dims[-2] != tokens:
        return None
    # an expanded dimension repeats elements
    pairs = zip(mask.dims, mask.strides or (1,) * len(mask.dims), strict=False)
    different = math.prod(size for size, stride in pairs if stride)
    return mask if different == tokens * tokens else None
