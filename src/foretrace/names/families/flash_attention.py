"""Flash attention 2 (`pytorch_flash::` is PyTorch's copy, `flash::` the package's) and 3.

    flash_fwd_kernel<Flash_fwd_kernel_traits<D, BM, BN, warps, …, elem, …>, dropout, causal, local,
        alibi, even_mn, even_k, [softcap,] return_softmax>
    cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloop…<
        stages, cluster, tuple<BM, BN, D>, Dv, elem, acc, Sm90, causal, local, softcap, varlen,
        paged_kv, append_kv, has_qv, pv_in_registers, overlap, pack_gqa, split, v_colmajor>>>>

Flags are read only where their number is one that is known. Forks of version 3 insert more: then
`causal` and `local`, the first two, are all that is read.
"""

from __future__ import annotations

from itertools import takewhile

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import MatmulParser
from foretrace.names.families._parser import joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_MASKS = ("causal", "local", "alibi", "even_mn", "even_k")
# kernel and number of flags after its traits -> the flags
FLAGS = {
    ("flash_fwd_kernel", 7): ("dropout", *_MASKS, "return_softmax"),
    ("flash_fwd_kernel", 8): ("dropout", *_MASKS, "softcap", "return_softmax"),
    ("flash_fwd_splitkv_kernel", 7): (*_MASKS, "split", "append_kv"),
    ("flash_fwd_splitkv_kernel", 8): (*_MASKS, "softcap", "split", "append_kv"),
    ("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 6): ("dropout", *_MASKS),
    ("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 7): ("dropout", *_MASKS, "softcap"),
}
_COMMON3 = ("causal", "local", "softcap", "varlen")
_BACKWARD3 = (*_COMMON3, "deterministic", "swap_sdp", "swap_dkv", "swap_dq")
# way, chip and number of flags after version 3's types -> the flags
FLAGS3 = {
    ("Fwd", "90", 12): (
        *(*_COMMON3, "paged_kv", "append_kv", "has_qv", "pv_in_registers", "overlap"),
        *("pack_gqa", "split", "v_colmajor"),
    ),
    ("Fwd", "80", 8): (*_COMMON3, "paged_kv", "append_kv", "pack_gqa", "split"),
    ("Bwd", "90", 8): _BACKWARD3,
    ("Bwd", "80", 8): _BACKWARD3,
}
TRAITS = {
    "head_dim": "head dimension, padded: {}",
    "block_m": "{} query rows per block",
    "block_n": "{} key rows per block",
    "warps": "{} warps",
}
OPS = {
    "flash_fwd_kernel": ("sdpa_fwd", "flash fwd"),
    "flash_fwd_splitkv_kernel": ("sdpa_fwd", "flash fwd split-KV"),
    "flash_fwd_splitkv_combine_kernel": ("", "flash fwd split-KV: combine"),
    "flash_bwd_dot_do_o_kernel": ("sdpa_bwd_preprocess", "flash bwd: rowsum(dO*O)"),
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": ("sdpa_bwd", "flash bwd"),
    "flash_bwd_dq_dk_dv_loop_kernel": ("sdpa_bwd", "flash bwd"),
    "flash_bwd_convert_dq_kernel": ("sdpa_bwd_postprocess", "flash bwd: dQ conversion"),
    "flash_bwd_convert_dkv_kernel": ("sdpa_bwd_postprocess", "flash bwd: dK, dV conversion"),
    "flash_bwd_clear_dkvaccum_kernel": ("sdpa_bwd_preprocess", "flash bwd: clear dK, dV"),
}
MEANINGS = {
    "dropout": "dropout",
    "causal": "causal mask",
    "local": "local window",
    "alibi": "ALiBi bias",
    "softcap": "score cap",
    "even_mn": "lengths are multiples of the blocks",
    "even_k": "head dimension equals the padded one",
    "return_softmax": "returns the scores",
    "split": "keys split over blocks",
    "append_kv": "appends to the KV cache",
    "varlen": "sequences of different lengths",
    "paged_kv": "loads a paged KV cache without TMA",
    "has_qv": "second query part (Qv, for MLA)",
    "pv_in_registers": "P stays in registers for P @ V",
    "overlap": "softmax and matmuls overlap within a warpgroup",
    "pack_gqa": "query heads of one KV head are packed into rows",
    "v_colmajor": "V is column-major",
    "deterministic": "deterministic sums",
    "swap_sdp": "operands of S and dP are swapped",
    "swap_dkv": "operands of dK and dV are swapped",
    "swap_dq": "operands of dQ are swapped",
}
_TUPLE = r"cute::tuple<((?:cute::)?C<[^<>]*>(?:, ?(?:cute::)?C<[^<>]*>){2}) ?>"
_MAINLOOP = r"(?:flash::)?CollectiveMainloop(Fwd|Bwd)Sm(\d{2,3})"


def _decode(name: str) -> KernelId | None:
    if "flash_" not in name[:120]:
        return None
    cpp = _cpp.parse(name)
    if cpp.base not in OPS:
        return None
    r = MatmulParser(name, "flash_attention_2", "documented")
    op, short = OPS[cpp.base]
    r.put(cpp.scope, "namespace", cpp.scope, "whose copy of flash attention this is")
    r.put(cpp.base, "kernel", cpp.base, "the function")
    r.put(cpp.base, "op", op, "fused attention, or a step of it")
    place = next((i for i, text in enumerate(cpp.args) if "kernel_traits<" in text), -1)
    if place >= 0:
        _traits(r, _cpp.inside(cpp.args[place], _cpp.leaf(cpp.args[place])))
        _flags(r, cpp.base, cpp.args[place + 1 :])
    size = f"hd{r.fields['head_dim']}" if "head_dim" in r.fields else ""
    causal = "causal" if r.get("causal") else ""
    return r.done("attention", joined(short, r.get("dtype_in"), size, causal))


def _traits(r: MatmulParser, args: tuple[str, ...]) -> None:
    for text, (field, meaning) in zip(args, TRAITS.items(), strict=False):
        r.put(text, field, _cpp.integer(text), meaning)
    types = (text for text in args if text.startswith("cutlass::") and _cpp.dtype(text))
    _cpp.put_dtype(r, next(types, ""), "dtype_in", "type of Q, K and V: {}")


def _flags(r: MatmulParser, kernel: str, texts: tuple[str, ...]) -> None:
    values = [value for text in texts if (value := _cpp.boolean(text)) is not None]
    fields = FLAGS.get((kernel, len(values)), ())
    for field, value, text in zip(fields, values, texts, strict=False):
        r.put(text, field, value, MEANINGS[field] if value else f"not: {MEANINGS[field]}")


def _decode3(name: str) -> KernelId | None:
    if "FlashAttn" not in name[:200] and "prepare_varlen_num_blocks_kernel" not in name[:80]:
        return None
    r = MatmulParser(name, "flash_attention_3", "documented")
    cpp = _cpp.parse(name)
    if cpp.base == "device_kernel":
        entry = "cutlass::device_kernel"
        r.put(entry, "wrapper", entry, "CUTLASS 3's common entry")
    backward = "FlashAttnBwd" in name
    helper = rx(r"Combine|prepare_varlen|Preprocess|Postprocess").search(name)
    kernel = rx(r"FlashAttn\w+|prepare_varlen_num_blocks_kernel").search(name)
    op = "sdpa_bwd" if backward else "sdpa_fwd"
    r.put(kernel[0] if kernel else "", "op", "" if helper else op, "fused attention")
    loop = rx(_MAINLOOP).search(name)
    if loop:
        args = _cpp.inside(name, loop[0])
        _mainloop(r, args, loop[2], loop[1] == "Bwd")
        _flags3(r, args, loop[1], loop[2])
    if cpp.truncated:
        r.put("", "truncated", True, "a bracket does not close: the name was cut", "checked")
    size = f"hd{r.fields.get('head_dim', '?')}" if loop else "helper"
    words = (r.get("dtype_in"), size, "causal" if r.get("causal") else "")
    return r.done("attention", joined(op.replace("_", " "), "FA3", *words))


def _mainloop(r: MatmulParser, args: tuple[str, ...], sm: str, backward: bool) -> None:
    r.put_arch(f"Sm{sm}", f"sm{sm}")
    tuples = [place for place, text in enumerate(args) if rx(_TUPLE).fullmatch(text)]
    stages = _cpp.integer(args[0]) if args and not backward and sm == "90" else None
    r.put(_cpp.nth(args, 0), "stages", stages, "{} pipeline stages")
    if len(tuples) < 2:  # the kernels of older chips have no clusters
        return
    cluster, tile = (
        [int(number) for number in rx(r"(\d{1,6})>").findall(args[place])] for place in tuples[:2]
    )
    r.put(args[tuples[0]], "cluster", cluster, "thread blocks that share data")
    text = args[tuples[1]]
    r.put(text, "tile_mnk", tile, "query rows x key rows x head dimension per block")
    for field, value in zip(("block_m", "block_n", "head_dim"), tile, strict=True):
        r.put(text, field, value, f"{field.replace('_', ' ')} {value}")
    _types(r, args[tuples[1] + 1 :])


def _types(r: MatmulParser, args: tuple[str, ...]) -> None:
    size = _cpp.integer(args[0]) if args else None
    if size is not None:
        r.put(args[0], "head_dim_v", size, "head dimension of V: {}")
        args = args[1:]
    meanings = ("type of Q, K and V", "sums are kept in")
    for text, field, meaning in zip(args, ("dtype_in", "dtype_acc"), meanings, strict=False):
        dtype = _cpp.dtype(text)
        r.put(text, field, dtype, f"{meaning}: {dtype}")


def _flags3(r: MatmulParser, args: tuple[str, ...], way: str, chip: str) -> None:
    """The flags after the chip's tag: all where their number is known and no cut hides some."""
    tag = next((place for place, text in enumerate(args) if "arch::Sm" in text), len(args))
    texts = tuple(takewhile(lambda text: _cpp.boolean(text) is not None, args[tag + 1 :]))
    cut = r.name.count("<") != r.name.count(">") and tag + 1 + len(texts) == len(args)
    fields = () if cut else FLAGS3.get((way, chip, len(texts)), ())
    for text, field in zip(texts, fields or ("causal", "local"), strict=False):
        value = _cpp.boolean(text)
        r.put(text, field, value, MEANINGS[field] if value else f"not: {MEANINGS[field]}")


_STATES = "op head_dim block_m block_n dtype_in causal namespace split append_kv even_k"
_STATES3 = """
    stages cluster tile_mnk head_dim causal dtype_in local softcap varlen paged_kv append_kv has_qv
    pack_gqa split v_colmajor deterministic
"""
FAMILIES = (
    Family("flash_attention_2", _decode, 21, word_set(_STATES)),
    Family("flash_attention_3", _decode3, 18, word_set(_STATES3)),
)
