"""ATen's layer, RMS, group and batch norm kernels.

`vectorized_layer_norm_kernel<T, acc, true>` is RMS norm: the last flag tells, where there is one.
The older form without the flag is always layer norm. `RowwiseMomentsCUDAKernel<T>` is group norm;
with two types it was layer norm.
"""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes
from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

LAYER, LAYER_BACK = "aten::native_layer_norm", "aten::native_layer_norm_backward"
GROUP, GROUP_BACK = "aten::native_group_norm", "aten::native_group_norm_backward"
BATCH, BATCH_BACK = "aten::native_batch_norm", "aten::native_batch_norm_backward"
# pattern -> (op, short); the first that fits wins
KERNELS = (
    (r"vectorized_layer_norm_kernel\w*|LayerNormForwardCUDAKernel", LAYER, "layer_norm fwd"),
    (r"layer_norm_grad_input_kernel\w*", LAYER_BACK, "layer_norm bwd (input)"),
    (
        r"GammaBetaBackward(?:Simple)?CUDAKernel(?:_32x32|_32x16)?|cuCompute(?:Part)?GradGammaBeta",
        LAYER_BACK,
        "layer_norm bwd (gamma/beta)",
    ),
    (r"GammaBetaBackward\w*", "", "layer/rms_norm bwd (gamma/beta)"),
    (r"RowwiseMomentsCUDAKernel", GROUP, "group_norm moments"),
    (r"ComputeFusedParamsCUDAKernel|GroupNorm1dForward\w*", GROUP, "group_norm fwd"),
    (
        r"Compute(?:1d)?BackwardFusedParams\w*|ComputeInternalGradients\w*|(?:GammaBeta1d|Gamma1d)Backward\w*|"
        r"GroupNorm\w*Backward\w*",
        GROUP_BACK,
        "group_norm bwd",
    ),
    (r"batch_norm_collect_statistics\w*", BATCH, "batch_norm stats"),
    (r"batch_norm_transform_input\w*", BATCH, "batch_norm apply"),
    (
        r"batch_norm_update_stats\w*|batch_norm_reduce_statistics\w*",
        BATCH,
        "batch_norm stats update",
    ),
    (r"batch_norm_backward\w*", BATCH_BACK, "batch_norm bwd"),
)


def decode(name: str) -> KernelId | None:
    if not rx(
        r"orm|Rowwise|GammaBeta|ComputeFusedParams|Compute\w*Backward|ComputeInternal"
    ).search(name[:160]):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("at::native") or cpp.scope.startswith("at::native::xpu"):
        return None
    found = next((entry for entry in KERNELS if rx(entry[0]).fullmatch(cpp.base)), None)
    return _norm(name, cpp, found[1], found[2]) if found else None


def _norm(name: str, cpp: _cpp.Cpp, op: str, short: str) -> KernelId:
    r = NameParser(name, "aten_norm", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel for this norm")
    types = [(text, dtype) for text in cpp.args if (dtype := _dtypes.cpp(text)) and dtype != "bool"]
    if types:
        r.put(types[0][0], "dtype_in", types[0][1], f"reads {types[0][1]}")
    rms = _cpp.boolean(cpp.arg(2)) if "layer_norm" in cpp.base else None
    r.put(cpp.arg(2), "rms_norm", rms, "RMS norm" if rms else "layer norm", "checked")
    if rms:
        op, short = (
            op.replace("native_layer_norm", "_fused_rms_norm"),
            short.replace("layer_norm", "rms_norm"),
        )
    if cpp.base == "RowwiseMomentsCUDAKernel" and len(types) > 1:
        op, short = "", "norm moments"
    r.put(cpp.base, "op", op, "the op that launches it", "checked")
    return r.done("normalization", f"{short} {types[0][1] if types else ''}".strip())


FAMILY = Family(name="aten_norm", decode=decode, order=40)
