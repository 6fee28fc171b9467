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
from foretrace.names.families._parser import NameParser, joined, row_for, rx, shape, word_set
from foretrace.schema.kernel import Family, KernelId

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


def _decode(name: str) -> KernelId | None:
    if not rx(r"(?:void )?(?:k[A-Z]\w+|kgemm_4bit\w+|gemm_4bit\w+|kdequant_mm\w+)<").match(name):
        return None
    cpp = _cpp.parse(name)
    row = row_for(KERNELS, cpp.base)
    if not row:
        return None
    role, op, short, meaning = row
    r = NameParser(name, "bitsandbytes", "documented")
    r.put(cpp.base, "op", op, meaning)
    r.put(cpp.base, "lib", "bitsandbytes", "bitsandbytes")
    chip = rx(r"(sm\d\d)_m(\d+)n(\d+)k(\d+)").search(cpp.base)
    if chip:
        r.put(chip[1], "arch", chip[1], "written for {}; it may run on a newer card")
        r.put(chip[0], "mma", shape("x".join(chip.groups()[1:])), "shape of one MMA")
    _cpp.put_dtype(r, cpp.arg(0), "dtype", "works on {}")
    what = _optimizer(r, cpp) if op == "optimizer" else _format(r, cpp, op)
    words = (short, what, r.get("dtype")) if op == "optimizer" else (short, r.get("dtype"), what)
    return r.done(role, joined("bnb", *words))


def _format(r: NameParser, cpp: _cpp.Cpp, op: str) -> str:
    """The format is the last argument of the block-wise kernels."""
    if not cpp.base.startswith(("kQuantizeBlockwise", "kDequantizeBlockwise")):
        return ""
    text, short = (cpp.args[-1] if cpp.args else ""), cpp.base.endswith("Small")
    number = _cpp.integer(text) if len(cpp.args) == (3 if short else 5) else None
    if number is None or not 0 <= number < len(FORMATS):
        return ""
    r.put(text, "format", FORMATS[number], "the format of fewer bits: {}")
    if op == "quantize":
        r.put(cpp.arg(1), "block", _cpp.integer(cpp.arg(1)), "one scale per {} elements")
    return f"{'->' if op == 'quantize' else '<-'} {FORMATS[number]}"


def _optimizer(r: NameParser, cpp: _cpp.Cpp) -> str:
    number = _cpp.integer(cpp.arg(1))
    if number is None or not 0 <= number < len(OPTIMIZERS):
        return "optimizer"
    r.put(cpp.arg(1), "optimizer", OPTIMIZERS[number], "the optimizer: {}")
    return OPTIMIZERS[number]


FAMILY = Family(
    "bitsandbytes", _decode, 38, word_set("op lib dtype format block optimizer arch mma")
)
