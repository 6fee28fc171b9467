"""Quack: norms, softmax, cross entropy and matmuls written in the CuTe DSL.

    kernel_cutlass_kernel_quack<module><Class>[Sm<chip>]_object_at__<arguments>_<n>

`GemmGated` applies a gated activation (SwiGLU and its kin) to the matmul, `GemmDGated` its
gradient, `GemmAct` and `GemmDAct` a plain activation. Which activation ran is not in the name.
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._matmul import MatmulParser
from foretrace.names.families._parser import joined, row_for, rx, word_set
from foretrace.names.families.cute_dsl import class_of, put_dtype
from foretrace.schema.kernel import Family, KernelId

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


def _decode(name: str) -> KernelId | None:
    found = class_of(name)
    if not found or not found["module"].startswith("quack"):
        return None
    called = found["class"]
    plain, chip = rx(r"Sm\d{2,3}$").sub("", called), rx(r"Sm(\d{2,3})$").search(called)
    row = row_for(CLASSES, plain) or (_words.role(plain), "", _words.plain(plain), "")
    role, op, short, end = row
    r = MatmulParser(name, "quack")
    r.put("quack", "lib", "Quack", "Quack, in the CuTe DSL")
    r.put(called, "class", called, "the Python class that holds the kernel")
    r.put(called, "op", op, f"{short}, by the name of the class")
    r.put(called, "epilogue", [end] if end else "", "applied to the matmul before it is written")
    if chip:
        r.put_arch(chip[0], f"sm{chip[1]}")
    put_dtype(r, name)
    return r.done(role, joined("quack", short, r.get("arch"), r.get("dtype_in")))


FAMILY = Family("quack", _decode, 15, word_set("lib class op epilogue arch dtype_in"))
