"""AMD's AITER (assembly attention, fused norms, MoE), and the paged attention it shares with vLLM.

Names:

    aiter::fmha_(fwd|bwd)_hd<D>_<dtype>[_causal][_a16|_a32][_rtne|_rtz|_rtna]…
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import WORDS, KernelId, NameParser, family, rx

PAGED = "vLLM/AITER ROCm paged attention"
_FMHA = (
    r"fmha_(?P<way>fwd|bwd)_(?P<head_dim>hd\d{1,4})(?:_hd\d{1,4})?"
    r"(?:_(?P<dtype>bf16|fp16|f16|fp8))?(?P<rest>(?:_\w+)?)"
)


def _decode(r: NameParser) -> KernelId | None:
    if "paged_attention_ll4mi" in r[0]:
        r.put(r.base, "op", "attention", "attention over a paged KV cache, for decoding")
        r.put(r.base, "lib", PAGED, "ROCm's paged attention")
        args, reduce = r.cpp.args, "reduce" in r.base
        kind = next((place for place, text in enumerate(args) if "Fp8KVCacheDataType" in text), 0)
        sizes = [text for text in args[kind:] if _cpp.integer(text) is not None]
        for text in sizes[:1] if reduce else sizes[1:2]:  # the page size comes before it
            r.read(text, "head_dim")
        return r.done("attention", f"paged attention ({'reduce' if reduce else 'decode'})")
    mangled = _cpp.is_mangled(r.name)
    base = _cpp.nth(_cpp.identifiers(r.name), 1) if mangled else r.base
    if mangled:
        r.put("_Z", "mangled", True, certainty="documented")
    r.put("aiter", "lib", "AITER", "AMD's AITER")
    if found := rx(_FMHA).fullmatch(base):
        r.found = found
        return _fmha(r, base)
    plain = _words.plain(base)
    r.note(base, f"the name is literal: {plain}")
    return r.done(_words.role(base), "", plain or "aiter")


def _fmha(r: NameParser, base: str) -> KernelId:
    way = r["way"]
    words = f"fused attention, {'forward' if way == 'fwd' else 'backward'}"
    r.put(base, "op", f"sdpa_{way}", words)
    r.groups("head_dim")
    dtype = WORDS.get(r["dtype"], r["dtype"])
    r.put(r["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
    rest = r["rest"].split("_")
    r.read(next((word for word in rest if word in ("rtz", "rtne", "rtna")), ""), "rounding")
    r.read("causal" if "causal" in rest else "", "causal")
    return r.done("attention", f"fmha {way} {{dtype_in}} hd{{head_dim}}")


_STATES = "op head_dim dtype_in rounding causal lib mangled"
FAMILY = family(
    "aiter", _decode, 22, _STATES, hint=r"paged_attention_ll4mi|^(?:void )?aiter::|^_ZN5aiter"
)
