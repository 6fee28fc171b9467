"""ATen's layer, RMS, group and batch norm kernels.

`vectorized_layer_norm_kernel<T, acc, true>` is RMS norm: the last flag tells, where there is one.
The older form without the flag is always layer norm. `RowwiseMomentsCUDAKernel<T>` is group norm;
with two types it was layer norm.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, row_for, rx, word_set
from foretrace.schema.kernel import Family, KernelId

# op, short name, pattern of the function; the first that fits wins
KERNELS = r"""
    native_layer_norm           layer_norm fwd                   vectorized_layer_norm_kernel\w*
        |LayerNormForwardCUDAKernel
    native_layer_norm_backward  layer_norm bwd (input)           layer_norm_grad_input_kernel\w*
    native_layer_norm_backward  layer_norm bwd (gamma/beta)
        GammaBetaBackward(?:Simple)?CUDAKernel(?:_32x32|_32x16)?|cuCompute(?:Part)?GradGammaBeta
    -                           layer/rms_norm bwd (gamma/beta)  GammaBetaBackward\w*
    native_group_norm           group_norm moments               RowwiseMomentsCUDAKernel
    native_group_norm           group_norm fwd                   ComputeFusedParamsCUDAKernel
        |GroupNorm1dForward\w*
    native_group_norm_backward  group_norm bwd  Compute(?:1d)?BackwardFusedParams\w*
        |ComputeInternalGradients\w*|(?:GammaBeta1d|Gamma1d)Backward\w*|GroupNorm\w{0,60}Backward\w*
    native_batch_norm           batch_norm stats                 batch_norm_collect_statistics\w*
    native_batch_norm           batch_norm apply                 batch_norm_transform_input\w*
    native_batch_norm           batch_norm stats update          batch_norm_update_stats\w*
        |batch_norm_reduce_statistics\w*
    native_batch_norm_backward  batch_norm bwd                   batch_norm_backward\w*
"""


def _decode(name: str) -> KernelId | None:
    words = r"orm|Rowwise|GammaBeta|ComputeFusedParams|Compute\w{0,60}Backward|ComputeInternal"
    if not rx(words).search(name[:160]):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("at::native") or cpp.scope.startswith("at::native::xpu"):
        return None
    row = row_for(KERNELS, cpp.base)
    if not row:
        return None
    op, short = row
    r = NameParser(name, "aten_norm", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel for this norm")
    types = [(text, dtype) for text in cpp.args if (dtype := _cpp.dtype(text)) and dtype != "bool"]
    if types:
        r.put(types[0][0], "dtype_in", types[0][1], "reads {}")
    rms = _cpp.boolean(cpp.arg(2)) if "layer_norm" in cpp.base else None
    r.put(cpp.arg(2), "rms_norm", rms, "RMS norm" if rms else "layer norm", "checked")
    if rms:
        op = op.replace("native_layer_norm", "_fused_rms_norm")
        short = short.replace("layer_norm", "rms_norm")
    if cpp.base == "RowwiseMomentsCUDAKernel" and len(types) > 1:
        op, short = "", "norm moments"
    r.put(cpp.base, "op", op and f"aten::{op}", "the op that launches it", "checked")
    return r.done("normalization", f"{short} {types[0][1] if types else ''}".strip())


FAMILY = Family("aten_norm", _decode, 40, word_set("op rms_norm dtype_in"))
