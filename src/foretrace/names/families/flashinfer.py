"""FlashInfer: attention, norms, sampling, rope for serving; C++ templates and CuTe DSL.

    flashinfer::BatchPrefillWith(Paged|Ragged)KVCacheKernel<KernelTraits<mask, query tile, MMAs of
        Q, of KV, of D for QK, for VO, warps of Q, of KV, position, T of Q, of KV, of O, …>, …>
    flashinfer::BatchDecodeWithPagedKVCacheKernel<position, stages, tile, vec, bdx, bdy, bdz, …>
    flashinfer::norm::FusedAddRMSNormKernel<vec, T>
    kernel_cutlass_kernel_flashinfer<module><Class>_object_at__…

An MMA covers 16 elements of the head, so the head dimension is 16 times their number; in decoding
it is `vec` times `bdx`.
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, one_of, rx
from foretrace.names.families.cute_dsl import class_of, put_dtype

LIB = "FlashInfer"
MASKS = ("no mask", "causal", "custom", "multi-item scoring")
_ATTENTION = r"(?:Single|Batch)(?P<way>Prefill|Decode)With(?P<cache>Paged|Ragged)?KVCacheKernel"
_ACTIVATION = r"\b(silu|gelu_tanh|gelu)\b"


def _decode(r: NameParser) -> KernelId | None:
    if found := class_of(r.name):
        if not found["module"].startswith("flashinfer"):
            return None
        r.put("flashinfer", "lib", LIB, f"{LIB}, in the CuTe DSL")
        called: str = r.read(found["class"], "class")
        put_dtype(r)
        return r.done(_words.role(called), "", _words.plain(called), r.get("dtype_in"))
    if r.cpp.scope.split("::")[0] != "flashinfer":
        return None
    r.certainty = "documented"
    r.put("flashinfer", "lib", LIB)
    r.found = rx(_ATTENTION).fullmatch(r.base)
    return _attention(r) if r.found else _literal(r)


def _attention(r: NameParser) -> KernelId:
    prefill = r["way"] == "Prefill"
    new = (
        "over a prompt, or over several new tokens" if prefill else "of one new token per sequence"
    )
    r.put(r.base, "op", "attention", f"attention {new}")
    if r["cache"]:
        words = "the KV cache is in pages | keys and values are packed"
        r.put(r.base, "paged_kv", r["cache"] == "Paged", words)
    (_prefill if prefill else _decoding)(r)
    size = f"hd{r.get('head_dim')}" if r.get("head_dim") else ""
    causal = "causal" if r.get("mask") == "causal" else ""
    short = f"flashinfer {r['way'].lower()} {r['cache'].lower()} {{dtype_in}}"
    return r.done("attention", short, size, causal)


def _prefill(r: NameParser) -> None:
    args = _cpp.inside(r.arg(0), _cpp.leaf(r.arg(0)))
    if len(args) < 13 or "MaskMode" not in args[0]:
        return
    r.put(args[0], "mask", one_of(MASKS, _cpp.integer(args[0][-1:])))
    r.read(args[1], "tile_q", "{} query rows per block")
    parts = _cpp.integer(args[4])
    r.put(args[4], "head_dim", parts and 16 * parts, f"head dimension: {parts} MMAs of 16")
    r.read(args[9], "dtype_in", "type of Q: {}")
    r.read(args[10], "dtype_kv")


def _decoding(r: NameParser) -> None:
    sizes = [_cpp.integer(text) for text in r.cpp.args[1:7]]
    if "PosEncodingMode" in r.arg(0) and len(r.cpp.args) > 7 and None not in sizes:
        _, _, vec, across, group, _ = (size or 0 for size in sizes)
        r.read(r.arg(1), "stages")
        words = f"head dimension: {across} threads of {vec} elements"
        r.put(f"{r.arg(3)}, {r.arg(4)}", "head_dim", vec * across, words)
        r.put(r.arg(5), "group_size", group, "{} query heads per KV head in a block", "inferred")


def _literal(r: NameParser) -> KernelId:
    plain = _words.plain(r.base)
    r.note(r.base, f"the name is literal: {plain}")
    dtype = _words.first_type(r)
    activation = rx(_ACTIVATION).search(r.arg(1)) if r.base == "act_and_mul_kernel" else None
    if activation:
        r.read(activation[1], "activation")
        plain = plain.replace("act", activation[1], 1)
    row = r.row("flashinfer")
    role = row[0] if row else _words.role(r.base)
    role = role if role != "other" else _words.role(f"{r.cpp.scope}_{r.base}")
    return r.done(role, "", plain, dtype)


_STATES = """
    lib dtype op mask tile_q head_dim dtype_in dtype_kv paged_kv stages group_size activation class
"""
FAMILY = family("flashinfer", _decode, 15, _STATES, hint="flashinfer::|^kernel_cutlass_")
