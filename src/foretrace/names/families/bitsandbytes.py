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
from foretrace.names.families._parser import KernelId, NameParser, family, rx

FORMATS = ("8-bit", "fp4", "nf4")
OPTIMIZERS = ("Adam", "momentum SGD", "RMSprop", "LARS", "Adagrad", "Lion", "AdEMAMix")
# role, op, short name, meaning, function
KERNELS = r"""
    pointwise  quantize    quantize     converts to fewer bits, one scale per block
        kQuantizeBlockwise(?:Small|32)?
    pointwise  dequantize  dequantize   converts back from fewer bits, one scale per block
        kDequantizeBlockwise
    gemv       gemv_4bit   4-bit gemv   a vector times a 4-bit matrix, converted on the way
        kgemm_4bit_inference(?:_naive)?
    gemm       gemm_4bit   4-bit GEMM   a matmul with a 4-bit matrix, converted on the way
        gemm_4bit_(?:simt|sm75_m16n8k8|sm80_m16n8k16)
    optimizer  optimizer   8-bit        an optimizer step with 8-bit state
        kOptimizerStatic8bit[12]State(?:Blockwise)?
    optimizer  optimizer   32-bit       an optimizer step with 32-bit state
        kOptimizer32bit[12]State
    reduction  optimizer   norm for     the norm of the update, for the optimizer step that follows
        kPreconditionOptimizer(?:32bit|Static8bit)[12]State
    pointwise  quantize    int8 rows    converts rows to int8, one scale per row  kInt8VectorQuant
    pointwise  dequantize  int8 result  turns the int32 result of an int8 matmul into floats
        kdequant_mm_int32_fp16
"""


def _decode(r: NameParser) -> KernelId | None:
    row = r.row(KERNELS)
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
        return r.done(role, "bnb", short, _optimizer(r), dtype)
    return r.done(role, "bnb", short, dtype, _format(r, op))


def _format(r: NameParser, op: str) -> str:
    """The format is the last argument of the block-wise kernels."""
    if not r.base.startswith(("kQuantizeBlockwise", "kDequantizeBlockwise")):
        return ""
    text = r.arg(2 if r.base.endswith("Small") else 4)
    last = len(r.cpp.args) == (3 if r.base.endswith("Small") else 5)
    number = _cpp.integer(text) if last else None
    if number is None or not 0 <= number < len(FORMATS):
        return ""
    r.put(text, "format", FORMATS[number], "the format of fewer bits: {}")
    if op == "quantize":
        r.read(r.arg(1), "block")
    return f"{'->' if op == 'quantize' else '<-'} {FORMATS[number]}"


def _optimizer(r: NameParser) -> str:
    number = _cpp.integer(r.arg(1))
    if number is None or not 0 <= number < len(OPTIMIZERS):
        return "optimizer"
    r.put(r.arg(1), "optimizer", OPTIMIZERS[number], "the optimizer: {}")
    return OPTIMIZERS[number]


_HINT = r"^(?:void )?(?:k[A-Z]\w+|kgemm_4bit\w+|gemm_4bit\w+|kdequant_mm\w+)<"
_STATES = "op lib dtype format block optimizer arch mma"
FAMILY = family("bitsandbytes", _decode, 38, _STATES, "documented", hint=_HINT)
