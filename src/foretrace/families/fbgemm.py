"""FBGEMM: embedding tables of recommenders, jagged tensors, quantization. Names are literal, some
without a namespace.
"""

from __future__ import annotations

from foretrace.families import _cpp, _words
from foretrace.families._parser import NameParser, rx
from foretrace.schema.kernel import Family, KernelId

# pattern of the function -> (short, role); without a short, the function's own words
KERNELS = (
    (r"permute_2D_lengths_kernel", "permute 2D lengths", "scatter_gather"),
    (r"permute_\w+", "", "scatter_gather"),
    (r"split_embedding(?:_\w+)?_forward\w*", "embedding fwd (fbgemm)", "scatter_gather"),
    (r"split_embedding_backward\w*", "embedding bwd + optimizer (fbgemm)", "scatter_gather"),
    (r"(?:split|dense|batched)_embedding\w*", "embedding (fbgemm)", "scatter_gather"),
    (r"bounds_check_indices\w*|linearize_index\w*|_?offsets_range\w*", "", "scatter_gather"),
    (r"\w*(?:quantize|qparam|FP8rowwise|to_float|hfp8)\w*", "", "pointwise"),
)
_UNSCOPED = r"(?:split_embedding|dense_embedding|bounds_check_indices|linearize_index|permute_pooled_embs)\w*"


def decode(name: str) -> KernelId | None:
    if "fbgemm_gpu::" not in name[:60] and not rx(rf"(?:void )?{_UNSCOPED}").match(name):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("fbgemm_gpu") and not rx(_UNSCOPED).match(cpp.base):
        return None
    plain = _words.plain(cpp.base)
    found = next((entry for entry in KERNELS if rx(entry[0]).fullmatch(cpp.base)), None)
    short, role = found[1:] if found else (plain, _words.role(cpp.base))
    r = NameParser(name, "fbgemm")
    if cpp.base.startswith("permute_"):
        r.put(cpp.base, "op", "jagged permute", "reorders the rows of a jagged tensor")
    else:
        r.note(cpp.base, f"the name is literal: {plain}")
    return r.done(role, short or plain)


FAMILY = Family(name="fbgemm", decode=decode, order=39)
