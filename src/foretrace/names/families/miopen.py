"""MIOpen: assembly implicit-GEMM convolutions, and literal names for the rest.

    igemm_(fwd|bwd|wrw)_gtcx<gen>_(nhwc|nchw)_<dtype>_bx<b>_ex<e>_bt<M>x<N>x<K>
        _wt<…>_ws<…>_wr<…>_ta<…>_tb<…>[_gkgs]…

`gkgs` splits K over the grid. `wrw` is the weight gradient.
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._matmul import PAIR, TRIPLE, WORDS, ConvParser, MatmulParser
from foretrace.names.families._parser import row_for, rx, shape, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

DIRECTIONS = {
    "fwd": ("conv_fprop", "convolution, forward"),
    "bwd": ("conv_dgrad", "convolution, input gradient"),
    "wrw": ("conv_wgrad", "convolution, weight gradient"),
}
_IGEMM = (
    r"igemm_(?P<dir>fwd|bwd|wrw)_gtc(?:x(?P<gen>\d)?)?_(?:dlops_)?(?P<layout>n[a-z]+\d*)_"
    rf"(?P<dtype>[a-z]+\d+)(?:_bx\d+_ex\d+)?_bt(?P<bt>{TRIPLE})(?:_wt(?P<wt>{TRIPLE}))?"
    rf"(?:_ws(?P<ws>{PAIR}))?(?:_wr(?P<wr>{PAIR}))?(?=_|$)"
)
_TRANSPOSE = r"batched_transpose_(?P<tile>\d{1,4}x\d{1,4})(?:_pack_\w+?)?_(?P<unit>byte|half|dword)"
# group of the pattern, its text in the name, field, kind, meaning
_WAVES = """
    wt  wt{}  wave_tile    shape  tile of one wave
    ws  ws{}  wave_step    shape  steps of one wave
    wr  wr{}  wave_repeat  shape  repeats of one wave
"""
MODES = {
    "Spatial": "spatial",
    "PerActivation": "per activation",
    "Train": "training",
    "Infer": "inference",
}
BYTES = {"byte": 1, "half": 2, "dword": 4}
# role, short name, op (none where the short name says it all), pattern
LITERAL = r"""
    pointwise  tensor op with scalar  fill/scale tensor  SubTensorOpWithScalar\w*
    copy       tensor cast            -                  SubTensorOpWithCastTensor\w*
    pointwise  tensor op              -                  SubTensorOpWithSubTensor\w*
        |Op\d?d?Tensor\w*
    conv       im2col                 -                  Im2d2Col\w*|Im3d2Col\w*|Col2Im\d?d?\w*
    conv       conv                   -                  miopenSp3AsmConv\w*|miopenGcnAsm\w*
        |gcnAsmConv\w*|MIOpenConv\w*|naive_conv\w*|gridwise_convolution\w*
    reduction  pool                   -                  mloPooling\w*
    softmax    softmax                -                  MIOpenSoftmax\w*|Softmax(?:For|Back)ward
    pointwise  activation             -                  MIOpenNeuron\w*|MIOpenActive\w*
    random     dropout                -                  MIOpenDropout\w*
"""


def _decode_igemm(name: str) -> KernelId | None:
    whole = uncut(name)
    found = rx(_IGEMM).match(whole)
    if not found:
        return None
    r = ConvParser(name, "miopen_igemm", "documented")
    op, meaning = DIRECTIONS[found["dir"]]
    r.put(found["dir"], "op", op, meaning)
    words = "a convolution as a matmul, in assembly"
    r.put("igemm", "lib", "MIOpen (asm implicit GEMM)", words)
    r.put(f"gtcx{found['gen']}", "gtc_gen", found["gen"], "2 seen on MI210, 3 on MI300X", "checked")
    r.put(found["layout"], "layout", found["layout"], "order of the tensor's dimensions")
    dtype = WORDS.get(found["dtype"], found["dtype"])
    r.put(found["dtype"], "dtype_in", dtype, "type of the input: {}")
    r.put_tile(f"bt{found['bt']}", shape(found["bt"]))
    r.put_groups(found.groupdict(), _WAVES)
    split = "gkgs" in whole[found.end() : found.end() + 400].split("_")
    if split or whole == name:  # without the end of the name, a missing word says nothing
        words = f"K is {'' if split else 'not '}split over the grid"
        r.put("gkgs" if split else "", "splitk", split, words)
    return r.done("conv", f"igemm {op.replace('_', ' ')} {found['bt']} {dtype}")


def _decode(name: str) -> KernelId | None:
    plain = name.partition("(")[0]
    if plain.endswith(("...", "…")):
        cut = MatmulParser(name, "miopen").done("other", "MIOpen")
        return cut if plain.startswith("MIOpen") else None
    transpose = rx(_TRANSPOSE).match(plain)
    if transpose:
        return _transpose(name, transpose["tile"], transpose["unit"])
    batch_norm = r"MIOpenBatchNorm(Fwd|Bwd)(Train|Infer)?(Spatial|PerActivation)?\w*"
    if found := rx(batch_norm).match(plain):
        return _batch_norm(name, found[0], found[1], found[2] or "", found[3] or "")
    role, short, op = row_for(LITERAL, plain) or ("", "", "")
    if not role and not plain.startswith(("MIOpen", "miopen")):
        return None
    short = short or _words.plain(plain)
    r = MatmulParser(name, "miopen")
    r.put(plain, "op", op, "the name is literal")
    r.put(plain, "lib", "MIOpen", f"a MIOpen kernel: {short}")
    return r.done(role or _words.role(plain), short)


def _transpose(name: str, tile: str, unit: str) -> KernelId:
    r = MatmulParser(name, "miopen")
    r.put("batched_transpose", "op", "layout_transform", "changes the layout around a convolution")
    r.put("batched_transpose", "lib", "MIOpen", "a MIOpen kernel")
    r.put(tile, "tile", shape(tile), "elements per block")
    r.put(unit, "element_bytes", BYTES[unit], "elements of {} bytes")
    return r.done("copy", f"batched transpose {BYTES[unit] * 8}-bit")


def _batch_norm(name: str, text: str, way: str, mode: str, kind: str) -> KernelId:
    r = MatmulParser(name, "miopen")
    meaning = f"batch norm, {'forward' if way == 'Fwd' else 'backward'}"
    r.put(text, "op", f"batch_norm_{way.lower()}", meaning)
    r.put(text, "lib", "MIOpen", "a MIOpen kernel")
    modes = ", ".join(MODES[word] for word in (kind, mode) if word)
    r.put(text, "mode", modes, modes)
    return r.done("normalization", f"batch_norm {way.lower()}")


FAMILIES = (
    Family(
        "miopen_igemm", _decode_igemm, 10, word_set("op gtc_gen dtype_in tile splitk wave_step")
    ),
    Family("miopen", _decode, 50, word_set("tile element_bytes op mode")),
)
