"""vLLM's CUDA and HIP kernels, and SGLang's, which began as copies. Names are literal.

    vllm::act_and_mul_kernel<T, &vllm::silu_kernel<T>, act_first>
    vllm::paged_attention_v1_kernel<T, T of the cache, head_dim, page_size, threads, …>
    vllm::paged_attention_v2_kernel<…the same…, partition>
    vllm::paged_attention_v2_reduce_kernel<T, head_dim, threads, partition>

Paged attention gets half data as `unsigned short`.
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx, word_set

# SGLang's names without a namespace of their own.
UNSCOPED = word_set("""
    rotary_embedding store_kvcache clamp_position resolve_future_token_ids
    cross_device_reduce_1stage cross_device_reduce_2stage act_and_mul moe_align_block_size
""")
_ACTIVATION = r"(?<!\w)((?:\w+::)?(\w+?)_kernel)<"
_SCOPES = ("vllm", "sglang", "marlin", "marlin_moe_wna16", "sgl_hip", "sgl", "device")


def _decode(r: NameParser) -> KernelId | None:
    if _cpp.is_mangled(r.name):
        return _mangled_name(r)
    function = r.base.removesuffix("_kernel")
    scoped = r.cpp.scope.split("::")[0] in _SCOPES
    if "(" not in r.name or not (scoped or (function in UNSCOPED and not r.cpp.scope)):
        return None
    if function.startswith("reshape_and_cache") or function == "concat_and_cache_mla":
        return _cache(r)
    if "quant" in function and "norm" not in function:
        r.put(r.base, "op", "quantize", "converts to fewer bits")
        source, target = map(_cpp.dtype, r.cpp.args[:2] if len(r.cpp.args) > 1 else ("", ""))
        r.put(r.arg(0), "dtype_in", source, "reads {}")
        if target in ("e4m3", "e5m2", "i8", "e4m3fnuz"):
            r.put(r.arg(1), "dtype_out", target, "writes {}")
        kind = "fp8" if target or "fp8" in r.base else "fewer bits"
        kind = "int8" if target == "i8" or "int8" in r.base else kind
        return r.done("pointwise", f"quantize {source or ''}->{kind}")
    return _literal(r, function)


def _literal(r: NameParser, function: str) -> KernelId:
    plain = _words.plain(r.base)
    role, op, short = row_for("vllm", function) or (_words.role(r.base), "", plain + " {}")
    r.put(r.base, "op", op, "the name is literal")
    if not op:
        r.note(r.base, f"the name is literal: {plain}")
    dtype = _cpp.dtype(r.arg(0))
    if dtype == "u16" and function.startswith("paged_attention_v"):
        dtype = "f16"  # vLLM passes half as 16-bit words, bfloat16 as itself
    r.put(r.arg(0), "dtype", dtype if "{}" in short else "")
    if function == "rotary_embedding":
        r.put(r.arg(1), "neox", _cpp.boolean(r.arg(1)))
    if function.startswith("paged_attention_v"):
        numbers = [text for text in r.cpp.args if _cpp.integer(text) is not None]
        r.read_all(numbers, "head_dim" if function.endswith("_reduce") else "head_dim page_size")
        short += f" hd{r.get('head_dim')}" if r.get("head_dim") else ""
    elif "act" in function:
        short = _activation(r, short)
    return r.done(role, "", short.replace("{}", dtype or "").strip())  # the name's own braces stay


def _activation(r: NameParser, short: str) -> str:
    """The function that the template gets: `&vllm::silu_kernel<T>`; the short name with it."""
    found = next(filter(None, (rx(_ACTIVATION).search(text) for text in r.cpp.args[1:])), None)
    if not found:
        return short
    r.put(found[1], "activation", found[2])
    first = _cpp.boolean(r.arg(2)) if len(r.cpp.args) == 3 else None
    if "and_mul" not in short or first is None:
        return short.replace("act_and_mul", f"{found[2]}_and_mul").replace("activation", found[2])
    r.put(r.arg(2), "act_first", first)
    both = f"{found[2]}_and_mul" if first else f"mul_and_{found[2]}"
    return short.replace("act_and_mul", both)


def _cache(r: NameParser) -> KernelId:
    r.put(r.base, "op", "kv_cache_write", "writes keys and values into the paged cache")
    r.read(r.arg(0), "dtype_in", "reads {}")
    if kind := rx(r"Fp8KVCacheDataType\)(\d)").search(r.arg(2)):
        held = _cpp.dtype(r.arg(1)) if kind[1] == "0" else "fp8"
        r.put(r.arg(2), "dtype_cache", held, "the cache holds {}")
    return r.done("scatter_gather", "kv cache write")


def _mangled_name(r: NameParser) -> KernelId | None:
    words = _cpp.identifiers(r.name)
    if not words or words[0] not in _SCOPES:
        return None
    base = next((word for word in words[1:] if word.endswith("kernel")), words[-1])
    r.put("_Z", "mangled", True, certainty="documented")
    function = base.removesuffix("_kernel")
    role, op, short = row_for("vllm", function) or (_words.role(base), "", _words.plain(base))
    r.put(base, "op", op, "the name is literal")
    return r.done(role, "", short.replace("{}", "").strip())


_HINT = r"vllm::|marlin|sgl|::type |_kernel|kvcache|^_Z"
_STATES = "op dtype neox dtype_in dtype_cache activation act_first head_dim page_size"
FAMILY = family("vllm_cuda", _decode, 55, _STATES, hint=_HINT)
