"""PyTorch's memory-efficient attention (from xFormers, on CUTLASS).

    fmha_cutlassF_<dtype>_(aligned|notaligned)_<queries>x<keys>_(rf|gmem)_sm<arch>
    fmha_cutlassB_<dtype>_(aligned|notaligned)_<i>x<j>_k<max>[_dropout][_seqaligned]_sm<arch>

F is forward, B backward. The arch is the oldest chip it fits: sm80 runs on everything newer.
"""

from __future__ import annotations

from foretrace.names.families._parser import PAIR, WORDS, KernelId, NameParser, family, shape

LIB = "pytorch mem-efficient (xformers/CUTLASS)"
ABILITIES = {"dropout": "dropout", "seqaligned": "lengths that are multiples of the block"}
_NAME = (
    r"(?:void )?(?P<kernel>fmha_cutlass(?P<way>[FB]))_(?P<dtype>[a-z0-9]+)_"
    rf"(?P<aligned>aligned|notaligned)_(?P<blocks>{PAIR})(?:_(?P<acc>rf|gmem|urf))?"
    r"(?:_(?P<max_head_dim>k\d{1,6}))?(?P<dropout>_dropout)?(?P<seqaligned>_seqaligned)?"
    r"(?:_(?P<arch>sm\d{2,3}))?"
)


def _decode(r: NameParser) -> KernelId:
    forward = r["way"] == "F"
    way, sides = ("fwd", "qk") if forward else ("bwd", "ij")
    r.put(r["kernel"], "op", f"sdpa_{way}", f"fused attention, {'for' if forward else 'back'}ward")
    r.put(r["kernel"], "lib", LIB, "PyTorch's memory-efficient attention")
    dtype = WORDS.get(r["dtype"], r["dtype"])
    r.put(r["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
    r.put(r["aligned"], "aligned", r["aligned"] == "aligned")
    for side, size, rows in zip(sides, shape(r["blocks"]), ("query", "key"), strict=True):
        r.put(r["blocks"], f"block_{side}", size, f"{{}} {rows} rows per block")
    where = "registers" if r["acc"] == "rf" else "memory, for large head dimensions"
    r.put(r["acc"], "out_acc", r["acc"], f"the output is gathered in {where}")
    r.groups("max_head_dim")
    if not forward and r["arch"]:  # without the end of the name, a missing word says nothing
        for field, words in ABILITIES.items():
            r.put(r[field].strip("_"), field, bool(r[field]), f"{words} | no word for {words}")
    r.put_arch(r["arch"])
    return r.done("attention", f"mem-efficient {way} {{dtype_in}} {r['blocks']}")


_STATES = "block_q block_k out_acc arch aligned max_head_dim dropout seqaligned dtype_in"
FAMILY = family(
    "mem_efficient_attention", _decode, 12, _STATES, "documented", hint="fmha_cutlass", head=_NAME
)
