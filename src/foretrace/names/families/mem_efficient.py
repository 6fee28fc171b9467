"""PyTorch's memory-efficient attention (from xFormers, on CUTLASS).

    fmha_cutlassF_<dtype>_(aligned|notaligned)_<queries>x<keys>_(rf|gmem)_sm<arch>
    fmha_cutlassB_<dtype>_(aligned|notaligned)_<i>x<j>_k<max>[_dropout][_seqaligned]_sm<arch>

F is forward, B backward. The arch is the oldest chip it fits: sm80 runs on everything newer.
"""

from __future__ import annotations

from foretrace.names.families._matmul import PAIR, WORDS, MatmulParser
from foretrace.names.families._parser import rx, shape, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

LIB = "pytorch mem-efficient (xformers/CUTLASS)"
ABILITIES = {"dropout": "dropout", "seqaligned": "lengths that are multiples of the block"}
_NAME = (
    r"(?:void )?fmha_cutlass(?P<way>[FB])_(?P<dtype>[a-z0-9]+)_(?P<aligned>aligned|notaligned)_"
    rf"(?P<blocks>{PAIR})(?:_(?P<acc>rf|gmem|urf))?(?:_k(?P<maxk>\d{{1,6}}))?"
    r"(?P<dropout>_dropout)?(?P<seqaligned>_seqaligned)?(?:_(?P<arch>sm\d{2,3}))?"
)


def _decode(name: str) -> KernelId | None:
    found = rx(_NAME).match(uncut(name))
    if not found:
        return None
    r = MatmulParser(name, "mem_efficient_attention", "documented")
    forward = found["way"] == "F"
    op = "sdpa_fwd" if forward else "sdpa_bwd"
    text = f"fmha_cutlass{found['way']}"
    r.put(text, "op", op, f"fused attention, {'forward' if forward else 'backward'}")
    r.put(text, "lib", LIB, "PyTorch's memory-efficient attention")
    dtype = WORDS.get(found["dtype"], found["dtype"])
    r.put(found["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
    aligned = found["aligned"] == "aligned"
    words = f"inputs are {'' if aligned else 'not '}aligned to 16 bytes"
    r.put(found["aligned"], "aligned", aligned, words)
    first, second = shape(found["blocks"])
    r.put(found["blocks"], "block_q" if forward else "block_i", first, "{} query rows per block")
    r.put(found["blocks"], "block_k" if forward else "block_j", second, "{} key rows per block")
    where = "registers" if found["acc"] == "rf" else "memory, for large head dimensions"
    r.put(found["acc"], "out_acc", found["acc"], f"the output is gathered in {where}")
    largest = "maxk  k{}  max_head_dim  number  head dimension up to {}"
    r.put_groups(found.groupdict(), largest)
    if not forward and found["arch"]:  # without the end of the name, a missing word says nothing
        for field, words in ABILITIES.items():
            text = (found[field] or "").strip("_")
            r.put(text, field, bool(text), words if text else f"no word for {words}")
    r.put_arch(found["arch"], found["arch"])
    return r.done("attention", f"mem-efficient {op[5:]} {dtype} {found['blocks']}")


_STATES = "block_q block_k out_acc arch aligned max_head_dim dropout seqaligned dtype_in"
FAMILY = Family("mem_efficient_attention", _decode, 12, word_set(_STATES))
