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
from foretrace.names.families._matmul import MatmulParser
from foretrace.names.families._parser import joined, row_for, rx, word_set
from foretrace.names.families.cute_dsl import class_of, put_dtype
from foretrace.schema.kernel import Family, KernelId

LIB = "FlashInfer"
MASKS = ("no mask", "causal", "custom", "multi-item scoring")
_PREFILL = r"(?P<single>Single|Batch)PrefillWith(?P<cache>Paged|Ragged)?KVCacheKernel"
_DECODE = r"(?P<single>Single|Batch)DecodeWith(?P<cache>Paged)?KVCacheKernel"
# role, pattern of the function; what is not here goes by its words
ROLES = r"""
    attention       \w*(?:MergeState|AttentionSum|MLAPage|BatchPOD|PODWith|PrefillWithKV)\w*
    random          \w*Sampling\w*
    softmax         OnlineSoftmax\w*
    scatter_gather  \w*AppendPagedKV\w*
    pointwise       \w*(?:ApplyRotary|RopeQuantize)\w*
"""
_ACTIVATION = r"\b(silu|gelu_tanh|gelu)\b"


def _decode(name: str) -> KernelId | None:
    if found := class_of(name):
        ours = found["module"].startswith("flashinfer")
        return _cute(name, found["class"]) if ours else None
    cpp = _cpp.parse(name) if "flashinfer::" in name[:200] else None
    if not cpp or cpp.scope.split("::")[0] != "flashinfer":
        return None
    r = MatmulParser(name, "flashinfer", "documented")
    r.put("flashinfer", "lib", LIB, LIB)
    if found := rx(_PREFILL).fullmatch(cpp.base):
        return _prefill(r, cpp, found["cache"] or "")
    if found := rx(_DECODE).fullmatch(cpp.base):
        return _decoding(r, cpp, found["cache"] or "")
    return _literal(r, cpp)


def _cute(name: str, called: str) -> KernelId:
    r = MatmulParser(name, "flashinfer")
    r.put("flashinfer", "lib", LIB, f"{LIB}, in the CuTe DSL")
    r.put(called, "class", called, "the Python class that holds the kernel")
    put_dtype(r, name)
    return r.done(_words.role(called), joined(_words.plain(called), r.get("dtype_in")))


def _prefill(r: MatmulParser, cpp: _cpp.Cpp, cache: str) -> KernelId:
    r.put(cpp.base, "op", "attention", "attention over a prompt, or over several new tokens")
    _paged(r, cpp.base, cache)
    args = _cpp.inside(cpp.arg(0), _cpp.leaf(cpp.arg(0)))
    if len(args) >= 13 and "MaskMode" in args[0]:
        mask = args[0][-1:]
        known = MASKS[int(mask)] if mask.isdigit() and int(mask) < len(MASKS) else ""
        r.put(args[0], "mask", known, "mask: {}")
        r.put(args[1], "tile_q", _cpp.integer(args[1]), "{} query rows per block")
        parts = _cpp.integer(args[4])
        r.put(args[4], "head_dim", parts and 16 * parts, f"head dimension: {parts} MMAs of 16")
        _cpp.put_dtype(r, args[9], "dtype_in", "type of Q: {}")
        _cpp.put_dtype(r, args[10], "dtype_kv", "type of K and V: {}")
    causal = "causal" if r.get("mask") == "causal" else ""
    words = (cache.lower(), r.get("dtype_in"), _size(r), causal)
    return r.done("attention", joined("flashinfer prefill", *words))


def _decoding(r: MatmulParser, cpp: _cpp.Cpp, cache: str) -> KernelId:
    r.put(cpp.base, "op", "attention", "attention of one new token per sequence")
    _paged(r, cpp.base, cache)
    sizes = [_cpp.integer(text) for text in cpp.args[1:7]]
    if "PosEncodingMode" in cpp.arg(0) and len(cpp.args) > 7 and None not in sizes:
        stages, _, vec, across, group, _ = (size or 0 for size in sizes)
        r.put(cpp.arg(1), "stages", stages, "{} pipeline stages")
        words = f"head dimension: {across} threads of {vec} elements"
        r.put(f"{cpp.arg(3)}, {cpp.arg(4)}", "head_dim", vec * across, words)
        r.put(cpp.arg(5), "group_size", group, "{} query heads per KV head in a block", "inferred")
    return r.done("attention", joined("flashinfer decode", cache.lower(), _size(r)))


def _literal(r: MatmulParser, cpp: _cpp.Cpp) -> KernelId:
    plain = _words.plain(cpp.base)
    types = ((text, _cpp.dtype(text)) for text in cpp.args)
    text, dtype = next((each for each in types if each[1] not in (None, "bool", "i32")), ("", ""))
    r.note(cpp.base, f"the name is literal: {plain}")
    r.put(text, "dtype", dtype, "works on {}")
    activation = rx(_ACTIVATION).search(cpp.arg(1)) if cpp.base == "act_and_mul_kernel" else None
    if activation:
        r.put(activation[1], "activation", activation[1], "the activation: {}")
        plain = plain.replace("act", activation[1], 1)
    row = row_for(ROLES, cpp.base)
    role = row[0] if row else _words.role(cpp.base)
    role = role if role != "other" else _words.role(f"{cpp.scope}_{cpp.base}")
    return r.done(role, joined(plain, dtype))


def _paged(r: MatmulParser, base: str, cache: str) -> None:
    if cache:
        words = "the KV cache is in pages" if cache == "Paged" else "keys and values are packed"
        r.put(base, "paged_kv", cache == "Paged", words)


def _size(r: MatmulParser) -> str:
    return f"hd{r.get('head_dim')}" if r.get("head_dim") else ""


_STATES = """
    lib dtype op mask tile_q head_dim dtype_in dtype_kv paged_kv stages group_size activation class
"""
FAMILY = Family("flashinfer", _decode, 15, word_set(_STATES))
