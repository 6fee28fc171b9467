"""Quack: norms, softmax, cross entropy and matmuls written in the CuTe DSL.

    kernel_cutlass_kernel_quack<module><Class>[Sm<chip>]_object_at__<arguments>_<n>

`GemmGated` applies a gated activation (SwiGLU and its kin) to the matmul, `GemmDGated` its
gradient, `GemmAct` and `GemmDAct` a plain activation. Which activation ran is not in the name.
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import row_for, rx
from foretrace.names.families.cute_dsl import class_of, put_dtype
from foretrace.schema.kernel import KernelId

# role, op, short name, end of the matmul (or none), class without its chip
CLASSES = r"""
    gemm           gemm           GEMM + gated act bwd  gated activation backward  Gemm\w*?DGated
    gemm           gemm           GEMM + gated act   gated activation       Gemm\w*?Gated
    gemm           gemm           GEMM + act bwd     activation backward    Gemm\w*?DAct
    gemm           gemm           GEMM + act         activation             Gemm\w*?Act
    gemm           gemm           GEMM (symmetric)   -                      GemmSymmetric
    gemm           gemm           GEMM               -                      Gemm\w*
    normalization  rms_norm       rms_norm fwd       -                      RMSNorm
    normalization  rms_norm       rms_norm bwd       -                      RMSNormBackward
    normalization  layer_norm     layer_norm fwd     -                      LayerNorm
    softmax        softmax        softmax fwd        -                      Softmax
    softmax        softmax        softmax bwd        -                      SoftmaxBackward
    softmax        cross_entropy  cross_entropy fwd  -                      CrossEntropy
    softmax        cross_entropy  cross_entropy bwd  -                      CrossEntropyBackward
    sort           topk           topk fwd           -                      TopK
    sort           topk           topk bwd           -                      TopKBackward
"""


def _decode(r: NameParser) -> KernelId | None:
    found = class_of(r.name)
    if not found or not found["module"].startswith("quack"):
        return None
    called = found["class"]
    chip = rx(r"Sm\d{2,3}$").search(called)
    plain = called[: chip.start()] if chip else called
    row = row_for(CLASSES, plain) or (_words.role(plain), "", _words.plain(plain), "")
    role, op, short, end = row
    r.put("quack", "lib", "Quack", "Quack, in the CuTe DSL")
    r.read(called, "class")
    r.put(called, "op", op, f"{short}, by the name of the class")
    r.put(called, "epilogue", [end] if end else "", "applied to the matmul before it is written")
    r.put_arch(chip[0] if chip else "")
    put_dtype(r)
    return r.done(role, "quack", short, r.get("arch"), r.get("dtype_in"))


_STATES = "lib class op epilogue arch dtype_in"
FAMILY = family("quack", _decode, 15, _STATES, hint="^kernel_cutlass_")
