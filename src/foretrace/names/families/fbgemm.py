"""FBGEMM: embedding tables, jagged tensors, quantization. Names are literal."""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import NameParser, row_for, rx, word_set
from foretrace.schema.kernel import Family, KernelId

# role, short name (none: the function's own words), pattern of the function
KERNELS = r"""
    scatter_gather  permute 2D lengths                  permute_2D_lengths_kernel
    scatter_gather  -                                   permute_\w+
    scatter_gather  embedding fwd (fbgemm)              split_embedding(?:_\w{1,80})?_forward\w*
    scatter_gather  embedding bwd + optimizer (fbgemm)  split_embedding_backward\w*
    scatter_gather  embedding (fbgemm)                  (?:split|dense|batched)_embedding\w*
    scatter_gather  -                                   bounds_check_indices\w*|linearize_index\w*
        |_?offsets_range\w*
    pointwise       -  \w{0,80}(?:quantize|qparam|FP8rowwise|to_float|hfp8)\w*
"""
_UNSCOPED = (
    r"(?:split_embedding|dense_embedding|bounds_check_indices|linearize_index"
    r"|permute_pooled_embs)\w*"
)


def _decode(name: str) -> KernelId | None:
    if "fbgemm_gpu::" not in name[:60] and not rx(rf"(?:void )?{_UNSCOPED}").match(name):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("fbgemm_gpu") and not rx(_UNSCOPED).match(cpp.base):
        return None
    plain = _words.plain(cpp.base)
    role, short = row_for(KERNELS, cpp.base) or (_words.role(cpp.base), plain)
    r = NameParser(name, "fbgemm")
    if found := rx(r"_(un)?weighted(?:_kernel)?(?:_([a-z_]{1,60}?))?(?:_\d)?$").search(cpp.base):
        words = "each row has a weight" if not found[1] else "rows have no weights"
        r.put(found[0], "weighted", not found[1], words)
        r.put(found[2] or "", "step", (found[2] or "").replace("_", " "), "{}")
    if cpp.base.startswith("permute_"):
        r.put(cpp.base, "op", "jagged permute", "reorders the rows of a jagged tensor")
    else:
        r.note(cpp.base, f"the name is literal: {plain}")
    return r.done(role, short or plain)


FAMILY = Family("fbgemm", _decode, 39, word_set("op weighted step"))
