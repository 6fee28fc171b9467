"""AMD's AITER (assembly attention, fused norms, MoE), and the paged attention it shares with vLLM.

Names:

    aiter::fmha_(fwd|bwd)_hd<D>_<dtype>[_causal][_a16|_a32][_rtne|_rtz|_rtna]…
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._matmul import WORDS
from foretrace.names.families._parser import NameParser, rx, word_set
from foretrace.schema.kernel import Family, KernelId

PAGED = "vLLM/AITER ROCm paged attention"
_FMHA = (
    r"fmha_(?P<way>fwd|bwd)_hd(?P<hd>\d{1,4})(?:_hd\d{1,4})?(?:_(?P<dtype>bf16|fp16|f16|fp8))?"
    r"(?P<rest>(?:_\w+)?)"
)


def _decode(name: str) -> KernelId | None:
    if "paged_attention_ll4mi" in name[:80]:
        return _paged(name)
    if not name.startswith(("aiter::", "void aiter::", "_ZN5aiter")):
        return None
    mangled = _cpp.is_mangled(name)
    words = _cpp.identifiers(name) if mangled else ()
    base = (words[1] if len(words) > 1 else "") if mangled else _cpp.parse(name).base
    r = NameParser(name, "aiter")
    if mangled:
        r.put("_Z", "mangled", True, "the name stayed mangled", "documented")
    r.put("aiter", "lib", "AITER", "AMD's AITER")
    fmha = rx(_FMHA).fullmatch(base)
    if fmha:
        return _fmha(r, base, fmha.groupdict())
    plain = _words.plain(base)
    r.note(base, f"the name is literal: {plain}")
    return r.done(_words.role(base), plain or "aiter")


def _fmha(r: NameParser, base: str, found: dict[str, str]) -> KernelId:
    way, size = found["way"], int(found["hd"])
    words = f"fused attention, {'forward' if way == 'fwd' else 'backward'}"
    r.put(base, "op", f"sdpa_{way}", words)
    r.put(f"hd{size}", "head_dim", size, "head dimension {}")
    dtype = WORDS.get(found["dtype"] or "", found["dtype"] or "")
    r.put(found["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
    rest = (found["rest"] or "").split("_")
    rounding = next((word for word in rest if word in ("rtz", "rtne", "rtna")), "")
    r.put(rounding, "rounding", rounding, "how results are rounded")
    if "causal" in rest:
        r.put("causal", "causal", True, "causal mask")
    return r.done("attention", f"fmha {way} {dtype} hd{size}".replace("  ", " "))


def _paged(name: str) -> KernelId:
    base = _cpp.parse(name).base
    r = NameParser(name, "aiter")
    r.put(base, "op", "attention", "attention over a paged KV cache, for decoding")
    r.put(base, "lib", PAGED, "ROCm's paged attention")
    args, reduce = _cpp.parse(name).args, "reduce" in base
    kind = next((place for place, text in enumerate(args) if "Fp8KVCacheDataType" in text), 0)
    sizes = [(text, size) for text in args[kind:] if (size := _cpp.integer(text)) is not None]
    for text, size in sizes[:1] if reduce else sizes[1:2]:  # the page size comes before it
        r.put(text, "head_dim", size, "head dimension {}")
    return r.done("attention", f"paged attention ({'reduce' if reduce else 'decode'})")


FAMILY = Family("aiter", _decode, 22, word_set("op head_dim dtype_in rounding causal lib mangled"))
