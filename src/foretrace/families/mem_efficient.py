"""PyTorch's memory-efficient attention (from xFormers, on CUTLASS).

    fmha_cutlassF_<dtype>_(aligned|notaligned)_<queries>x<keys>_(rf|gmem)_sm<arch>
    fmha_cutlassB_<dtype>_(aligned|notaligned)_<i>x<j>_k<max>[_dropout][_seqaligned]_sm<arch>

F is forward, B backward. The arch is the oldest chip it fits: sm80 runs on everything newer.
"""

from __future__ import annotations

from foretrace.families._dtypes import WORDS
from foretrace.families._matmul import PAIR, put_arch, shape
from foretrace.families._parser import NameParser, rx, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

LIB = "pytorch mem-efficient (xformers/CUTLASS)"
_NAME = (
    rf"(?:void )?fmha_cutlass(?P<way>[FB])_(?P<dtype>[a-z0-9]+)_(?P<aligned>aligned|notaligned)_"
    rf"(?P<blocks>{PAIR})"
    r"(?:_(?P<acc>rf|gmem|urf))?(?:_k(?P<maxk>\d{1,6}))?(?P<dropout>_dropout)?(?P<seq>_seqaligned)?"
    r"(?:_(?P<arch>sm\d{2,3}))?"
)


def _decode(name: str) -> KernelId | None:
    found = rx(_NAME).match(uncut(name))
    if not found:
        return None
    r = NameParser(name, "mem_efficient_attention", "documented")
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
    _blocks(r, found["blocks"], forward)
    _end(r, found.groupdict(), forward)
    return r.done("attention", f"mem-efficient {op[5:]} {dtype} {found['blocks']}")


def _blocks(r: NameParser, blocks: str, forward: bool) -> None:
    first, second = shape(blocks)
    names = ("block_q", "block_k") if forward else ("block_i", "block_j")
    r.put(blocks, names[0], first, "{} query rows per block")
    r.put(blocks, names[1], second, "{} key rows per block")


def _end(r: NameParser, found: dict[str, str], forward: bool) -> None:
    if found["acc"]:
        where = "registers" if found["acc"] == "rf" else "memory, for large head dimensions"
        r.put(found["acc"], "out_acc", found["acc"], f"the output is gathered in {where}")
    if found["maxk"]:
        largest = int(found["maxk"])
        r.put(f"k{largest}", "max_head_dim", largest, "head dimension up to {}")
    if not forward and found["arch"]:  # without the end of the name, a missing word says nothing
        for field, text in (("dropout", found["dropout"]), ("seqaligned", found["seq"])):
            words = {"dropout": "dropout", "seqaligned": "lengths that are multiples of the block"}[
                field
            ]
            meaning = words if text else f"no word for {words}"
            r.put((text or "").strip("_"), field, bool(text), meaning)
    put_arch(r, found["arch"], found["arch"])


FAMILY = Family(
    "mem_efficient_attention",
    _decode,
    order=12,
    states=word_set(
        "block_q block_k out_acc arch aligned max_head_dim dropout seqaligned dtype_in"
    ),
)
