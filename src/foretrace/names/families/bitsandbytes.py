"""bitsandbytes: 4-bit and 8-bit quantization, matmuls with 4-bit weights, 8-bit optimizers.

    kQuantizeBlockwise<T, block, per_thread, stochastic, format>
    kDequantizeBlockwise<T, tile, threads, per_thread, format>
    kgemm_4bit_inference_naive<T, threads, bits>
    gemm_4bit_(simt|sm75_m16n8k8|sm80_m16n8k16)<T, …>
    kOptimizer32bit(1|2)State<T, optimizer>
    kOptimizerStatic8bit(1|2)StateBlockwise<T, optimizer, block, per_thread>

The format is 0 (8-bit, by a code book), 1 (FP4) or 2 (NF4); the optimizer is a number too.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, one_of, rx

FORMATS = ("8-bit", "fp4", "nf4")
OPTIMIZERS = ("Adam", "momentum SGD", "RMSprop", "LARS", "Adagrad", "Lion", "AdEMAMix")


def _decode(r: NameParser) -> KernelId | None:
    row = r.row("bitsandbytes")
    if not row:
        return None
    role, op, short, meaning = row
    r.put(r.base, "op", op, meaning)
    r.put(r.base, "lib", "bitsandbytes")
    if chip := rx(r"(sm\d\d)_m(\d+)n(\d+)k(\d+)").search(r.base):
        r.put(chip[1], "arch", chip[1], "written for {}; it may run on a newer card")
        r.put(chip[0], "mma", [int(size) for size in chip.groups()[1:]])
    dtype = r.read(r.arg(0), "dtype")
    if op == "optimizer":
        known = one_of(OPTIMIZERS, _cpp.integer(r.arg(1)))
        r.put(r.arg(1), "optimizer", known, "the optimizer: {}")
        return r.done(role, "bnb", short, known or "optimizer", dtype)
    return r.done(role, "bnb", short, dtype, _format(r, op))


def _format(r: NameParser, op: str) -> str:
    """The format is the last argument of the block-wise kernels."""
    if not r.base.startswith(("kQuantizeBlockwise", "kDequantizeBlockwise")):
        return ""
    text = r.arg(2 if r.base.endswith("Small") else 4)
    last = len(r.cpp.args) == (3 if r.base.endswith("Small") else 5)
    known = one_of(FORMATS, _cpp.integer(text) if last else None)
    if not known:
        return ""
    r.put(text, "format", known, "the format of fewer bits: {}")
    if op == "quantize":
        r.read(r.arg(1), "block")
    return f"{'->' if op == 'quantize' else '<-'} {known}"


_HINT = r"^(?:void )?(?:k[A-Z]\w+|kgemm_4bit\w+|gemm_4bit\w+|kdequant_mm\w+)<"
_STATES = "op lib dtype format block optimizer arch mma"
FAMILY = family("bitsandbytes", _decode, 38, _STATES, "documented", hint=_HINT)
