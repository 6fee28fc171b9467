"""ATen's layer, RMS, group and batch norm kernels.

`vectorized_layer_norm_kernel<T, acc, true>` is RMS norm: the last flag tells, where there is one.
The older form without the flag is always layer norm. `RowwiseMomentsCUDAKernel<T>` is group norm;
with two types it was layer norm.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import rx
from foretrace.schema.kernel import KernelId

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


def _decode(r: NameParser) -> KernelId | None:
    row = r.row(KERNELS) if rx(r"at::native(?!::xpu)").match(r.cpp.scope) else None
    if not row:
        return None
    op, short = row
    r.put(r.base, "template", r.base, "ATen's kernel for this norm")
    types = [text for text in r.cpp.args if _cpp.dtype(text) not in (None, "bool")]
    dtype = r.read(_cpp.nth(types, 0), "dtype_in", "reads {}")
    rms = _cpp.boolean(r.arg(2)) if "layer_norm" in r.base else None
    r.put(r.arg(2), "rms_norm", rms, "RMS norm | layer norm", "checked")
    if rms:
        op = op.replace("native_layer_norm", "_fused_rms_norm")
        short = short.replace("layer_norm", "rms_norm")
    if r.base == "RowwiseMomentsCUDAKernel" and len(types) > 1:
        op, short = "", "norm moments"
    r.put(r.base, "op", op and f"aten::{op}", certainty="checked")
    return r.done("normalization", short, dtype)


_HINT = r"orm|Rowwise|GammaBeta|ComputeFusedParams|Compute\w{0,60}Backward|ComputeInternal"
FAMILY = family("aten_norm", _decode, 40, "op rms_norm dtype_in", "documented", hint=_HINT)
