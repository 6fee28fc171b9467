"""MIOpen: assembly implicit-GEMM convolutions, and literal names for the rest.

    igemm_(fwd|bwd|wrw)_gtcx<gen>_(nhwc|nchw)_<dtype>_bx<b>_ex<e>_bt<M>x<N>x<K>
        _wt<…>_ws<…>_wr<…>_ta<…>_tb<…>[_gkgs]…

`gkgs` splits K over the grid. `wrw` is the weight gradient.
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._parser import KernelId, NameParser, family
from foretrace.names.families._tables import CONVOLUTIONS, PAIR, TRIPLE, WORDS, is_cut, row_for, rx

DIRECTIONS = {"fwd": "conv_fprop", "bwd": "conv_dgrad", "wrw": "conv_wgrad"}
_IGEMM = (
    r"igemm_(?P<dir>fwd|bwd|wrw)_(?P<gtc>gtc(?:x(?P<gen>\d)?)?)_(?:dlops_)?(?P<layout>n[a-z]+\d*)_"
    rf"(?P<dtype>[a-z]+\d+)(?:_bx\d+_ex\d+)?_(?P<tile>bt{TRIPLE})(?:_(?P<wave_tile>wt{TRIPLE}))?"
    rf"(?:_(?P<wave_step>ws{PAIR}))?(?:_(?P<wave_repeat>wr{PAIR}))?(?=_|$)"
)
_TRANSPOSE = r"batched_transpose_(?P<tile>\d{1,4}x\d{1,4})(?:_pack_\w+?)?_(?P<unit>byte|half|dword)"
_BATCH_NORM = r"MIOpenBatchNorm(Fwd|Bwd)(Train|Infer)?(Spatial|PerActivation)?\w*"
MODES = {
    "Spatial": "spatial",
    "PerActivation": "per activation",
    "Train": "training",
    "Infer": "inference",
}
BYTES = {"byte": 1, "half": 2, "dword": 4}


def _decode_igemm(r: NameParser) -> KernelId:
    r.conv, op = True, DIRECTIONS[r["dir"]]
    r.put(r["dir"], "op", op, CONVOLUTIONS[op])
    words = "a convolution as a matmul, in assembly"
    r.put("igemm", "lib", "MIOpen (asm implicit GEMM)", words)
    r.put(r["gtc"], "gtc_gen", r["gen"], "2 seen on MI210, 3 on MI300X", "checked")
    r.put(r["layout"], "layout", r["layout"], "order of the tensor's dimensions")
    r.put(r["dtype"], "dtype_in", WORDS.get(r["dtype"], r["dtype"]))
    r.put_tile(r["tile"])
    r.groups("wave_tile wave_step wave_repeat")
    split = "gkgs" in r.found.string[r.found.end() :][:400].split("_")
    if split or not is_cut(r.name):  # without the end of the name, a missing word says nothing
        words = "K is split over the grid | K is not split over the grid"
        r.put("gkgs" if split else "", "splitk", split, words)
    return r.done("conv", f"igemm {op.replace('_', ' ')} {{tile}} {{dtype_in}}")


def _decode(r: NameParser) -> KernelId | None:
    plain = r.name.partition("(")[0]
    if is_cut(plain):
        return r.done("other", "MIOpen") if plain.startswith("MIOpen") else None
    if found := rx(_TRANSPOSE).match(plain):
        size = BYTES[found["unit"]]
        changes = "changes the layout around a convolution"
        r.put("batched_transpose", "op", "layout_transform", changes)
        r.put("batched_transpose", "lib", "MIOpen", "a MIOpen kernel")
        r.read(found["tile"], "tile")
        r.put(found["unit"], "element_bytes", size, "elements of {} bytes")
        return r.done("copy", f"batched transpose {size * 8}-bit")
    if found := rx(_BATCH_NORM).match(plain):
        return _batch_norm(r, *(group or "" for group in (found[0], *found.groups())))
    role, short, op = row_for("miopen", plain) or ("", "", "")
    if not role and not plain.startswith(("MIOpen", "miopen")):
        return None
    short = short or _words.plain(plain)
    r.put(plain, "op", op, "the name is literal")
    r.put(plain, "lib", "MIOpen", f"a MIOpen kernel: {short}")
    return r.done(role or _words.role(plain), "", short)


def _batch_norm(r: NameParser, text: str, way: str, mode: str, kind: str) -> KernelId:
    meaning = f"batch norm, {'forward' if way == 'Fwd' else 'backward'}"
    r.put(text, "op", f"batch_norm_{way.lower()}", meaning)
    r.put(text, "lib", "MIOpen", "a MIOpen kernel")
    modes = ", ".join(MODES[word] for word in (kind, mode) if word)
    r.put(text, "mode", modes, "{}")
    return r.done("normalization", f"batch_norm {way.lower()}")


_STATES = "op gtc_gen dtype_in tile splitk wave_step"
FAMILIES = (
    family("miopen_igemm", _decode_igemm, 10, _STATES, "documented", hint="igemm_", head=_IGEMM),
    family("miopen", _decode, 50, "tile element_bytes op mode", hint=r"^[A-Za-z]"),
)
