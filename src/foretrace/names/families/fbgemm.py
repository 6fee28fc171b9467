"""FBGEMM: embedding tables, jagged tensors, quantization. Names are literal."""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._parser import KernelId, NameParser, family, rx

_UNSCOPED = (
    r"(?:split_embedding|dense_embedding|bounds_check_indices|linearize_index"
    r"|permute_pooled_embs)\w*"
)


def _decode(r: NameParser) -> KernelId | None:
    if not r.cpp.scope.startswith("fbgemm_gpu") and not rx(_UNSCOPED).match(r.base):
        return None
    plain = _words.plain(r.base)
    role, short = r.row("fbgemm") or (_words.role(r.base), plain)
    if found := rx(r"_(un)?weighted(?:_kernel)?(?:_([a-z_]{1,60}?))?(?:_\d)?$").search(r.base):
        words = "each row has a weight | rows have no weights"
        r.put(found[0], "weighted", not found[1], words)
        r.put(found[2] or "", "step", (found[2] or "").replace("_", " "), "{}")
    if r.base.startswith("permute_"):
        r.put(r.base, "op", "jagged permute", "reorders the rows of a jagged tensor")
    else:
        r.note(r.base, f"the name is literal: {plain}")
    return r.done(role, "", short or plain)


_HINT = rf"fbgemm_gpu::|^(?:void )?{_UNSCOPED}"
FAMILY = family("fbgemm", _decode, 39, "op weighted step", hint=_HINT)
