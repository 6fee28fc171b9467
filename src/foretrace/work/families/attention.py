"""Attention libraries: flash attention, PyTorch's memory-efficient attention, FlashInfer."""

from __future__ import annotations

from itertools import takewhile

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import PAIR, WORDS, one_of, rx
from foretrace.work.families._parser import (
    NameParser,
    family,
    first_type,
    plain_kernel,
    role_by_words,
    shape,
)
from foretrace.work.families.cutlass import class_of, put_dtype
from foretrace.work.kernel import KernelId

# Flash attention 2 (`pytorch_flash::` is PyTorch's copy, `flash::` the package's) and 3.
#
#     flash_fwd_kernel<Flash_fwd_kernel_traits<D, BM, BN, warps, …, elem, …>, dropout, causal,
#     local,
#         alibi, even_mn, even_k, [softcap,] return_softmax>
#     cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloop…<
#         stages, cluster, tuple<BM, BN, D>, Dv, elem, acc, Sm90, causal, local, softcap, varlen,
#         paged_kv, append_kv, has_qv, pv_in_registers, overlap, pack_gqa, split, v_colmajor>>>>
#
# Flags are read only where their number is one that is known. Forks of version 3 insert more: then
# `causal` and `local`, the first two, are all that is read.

_TUPLE = r"cute::tuple<((?:cute::)?C<[^<>]*>(?:, ?(?:cute::)?C<[^<>]*>){2}) ?>"


@family(
    "flash_attention_2",
    21,
    "op head_dim block_m block_n dtype_in causal namespace split append_kv even_k",
    "documented",
    hint="flash_",
)
def _decode_flash(r: NameParser) -> KernelId | None:
    row = r.row("flash_attention")
    if not row:
        return None
    op, short = row
    r.put(r.cpp.scope, "namespace", r.cpp.scope, "whose copy of flash attention this is")
    r.read(r.base, "kernel")
    r.put(r.base, "op", op, "fused attention, or a step of it")
    place = next((i for i, text in enumerate(r.cpp.args) if "kernel_traits<" in text), -1)
    if place >= 0:
        args = _cpp.inside(r.cpp.args[place], _cpp.leaf(r.cpp.args[place]))
        r.read(_cpp.nth(args, 0), "head_dim", "head dimension, padded: {}")
        r.read_all(args, "- block_m block_n")
        r.put(_cpp.nth(args, 3), "warps", _cpp.integer(_cpp.nth(args, 3)), "{} warps")
        types = (text for text in args if text.startswith("cutlass::") and _cpp.dtype(text))
        r.read(next(types, ""), "dtype_in", "type of Q, K and V: {}")
        r.flags(r.cpp.args[place + 1 :], r.base)
    return _done(r, f"{short} {{dtype_in}}")


def _done(r: NameParser, short: str, size: str = "") -> KernelId:
    size = size or (f"hd{r.get('head_dim')}" if "head_dim" in r.fields else "")
    return r.done("attention", short, size, "causal" if r.get("causal") else "")


@family(
    "flash_attention_3",
    18,
    """
        stages cluster tile_mnk head_dim causal dtype_in local softcap varlen paged_kv append_kv
        has_qv pack_gqa split v_colmajor deterministic
    """,
    "documented",
    hint="FlashAttn|prepare_varlen_num_blocks_kernel",
)
def _decode3(r: NameParser) -> KernelId:
    if r.base == "device_kernel":
        entry = "cutlass::device_kernel"
        r.put(entry, "wrapper", entry, "CUTLASS 3's common entry")
    op = "sdpa_bwd" if "FlashAttnBwd" in r.name else "sdpa_fwd"
    helper = rx(r"Combine|prepare_varlen|Preprocess|Postprocess").search(r.name)
    kernel = rx(r"FlashAttn\w+|prepare_varlen_num_blocks_kernel").search(r.name)
    r.put(kernel[0] if kernel else "", "op", "" if helper else op, "fused attention")
    loop = rx(r"(?:flash::)?CollectiveMainloop(Fwd|Bwd)Sm(\d{2,3})").search(r.name)
    if loop:
        args = _cpp.inside(r.name, loop[0])
        _mainloop(r, args, loop[2], loop[1] == "Bwd")
        # The flags after the chip's tag: all where their number is known and no cut hides some.
        tag = next((place for place, text in enumerate(args) if "arch::Sm" in text), len(args))
        texts = tuple(takewhile(lambda text: _cpp.boolean(text) is not None, args[tag + 1 :]))
        cut = r.name.count("<") != r.name.count(">") and tag + 1 + len(texts) == len(args)
        paged = "loads a paged KV cache without TMA"
        r.flags(texts, "" if cut else f"{loop[1]}{loop[2]}", "causal local", paged_kv=paged)
    r.put_cut()
    size = f"hd{r.fields.get('head_dim', '?')}" if loop else "helper"
    return _done(r, f"{op.replace('_', ' ')} FA3 {{dtype_in}}", size)


def _mainloop(r: NameParser, args: tuple[str, ...], sm: str, backward: bool) -> None:
    r.put_arch(f"Sm{sm}")
    tuples = [place for place, text in enumerate(args) if rx(_TUPLE).fullmatch(text)]
    if not backward and sm == "90":
        r.read(_cpp.nth(args, 0), "stages")
    if len(tuples) < 2:  # the kernels of older chips have no clusters
        return
    cluster, tile = (
        [int(number) for number in rx(r"(\d{1,6})>").findall(args[place])] for place in tuples[:2]
    )
    r.put(args[tuples[0]], "cluster", cluster)
    text = args[tuples[1]]
    r.put(text, "tile_mnk", tile, "query rows x key rows x head dimension per block")
    for field, value in zip(("block_m", "block_n", "head_dim"), tile, strict=True):
        r.put(text, field, value)
    rest = args[tuples[1] + 1 :]
    if _cpp.integer(_cpp.nth(rest, 0)) is not None:
        r.put(rest[0], "head_dim_v", _cpp.integer(rest[0]), "head dimension of V: {}")
        rest = rest[1:]
    r.read(_cpp.nth(rest, 0), "dtype_in", "type of Q, K and V: {}")
    r.read(_cpp.nth(rest, 1), "dtype_acc")


# PyTorch's memory-efficient attention (from xFormers, on CUTLASS).
#
#     fmha_cutlassF_<dtype>_(aligned|notaligned)_<queries>x<keys>_(rf|gmem)_sm<arch>
#     fmha_cutlassB_<dtype>_(aligned|notaligned)_<i>x<j>_k<max>[_dropout][_seqaligned]_sm<arch>
#
# F is forward, B backward. The arch is the oldest chip it fits: sm80 runs on everything newer.

LIB_EFFICIENT = "pytorch mem-efficient (xformers/CUTLASS)"
ABILITIES = {"dropout": "dropout", "seqaligned": "lengths that are multiples of the block"}
_NAME = (
    r"(?:void )?(?P<kernel>fmha_cutlass(?P<way>[FB]))_(?P<dtype>[a-z0-9]+)_"
    rf"(?P<aligned>aligned|notaligned)_(?P<blocks>{PAIR})(?:_(?P<acc>rf|gmem|urf))?"
    r"(?:_(?P<max_head_dim>k\d{1,6}))?(?P<dropout>_dropout)?(?P<seqaligned>_seqaligned)?"
    r"(?:_(?P<arch>sm\d{2,3}))?"
)


@family(
    "mem_efficient_attention",
    12,
    "block_q block_k out_acc arch aligned max_head_dim dropout seqaligned dtype_in",
    "documented",
    hint="fmha_cutlass",
    head=_NAME,
)
def _decode_efficient(r: NameParser) -> KernelId:
    forward = r["way"] == "F"
    way, sides = ("fwd", "qk") if forward else ("bwd", "ij")
    r.put(r["kernel"], "op", f"sdpa_{way}", f"fused attention, {'for' if forward else 'back'}ward")
    r.put(r["kernel"], "lib", LIB_EFFICIENT, "PyTorch's memory-efficient attention")
    dtype = WORDS.get(r["dtype"], r["dtype"])
    r.put(r["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
    r.put(r["aligned"], "aligned", r["aligned"] == "aligned")
    for side, size, rows in zip(sides, shape(r["blocks"]), ("query", "key"), strict=True):
        r.put(r["blocks"], f"block_{side}", size, f"{{}} {rows} rows per block")
    where = "registers" if r["acc"] == "rf" else "memory, for large head dimensions"
    r.put(r["acc"], "out_acc", r["acc"], f"the output is gathered in {where}")
    r.groups("max_head_dim")
    if not forward and r["arch"]:  # without the end of the name, a missing word says nothing
        for field, words in ABILITIES.items():
            r.put(r[field].strip("_"), field, bool(r[field]), f"{words} | no word for {words}")
    r.put_arch(r["arch"])
    return r.done("attention", f"mem-efficient {way} {{dtype_in}} {r['blocks']}")


# FlashInfer: attention, norms, sampling, rope for serving; C++ templates and CuTe DSL.
#
#     flashinfer::BatchPrefillWith(Paged|Ragged)KVCacheKernel<KernelTraits<mask, query tile, MMAs
#     of
#         Q, of KV, of D for QK, for VO, warps of Q, of KV, position, T of Q, of KV, of O, …>, …>
#     flashinfer::BatchDecodeWithPagedKVCacheKernel<position, stages, tile, vec, bdx, bdy, bdz, …>
#     flashinfer::norm::FusedAddRMSNormKernel<vec, T>
#     kernel_cutlass_kernel_flashinfer<module><Class>_object_at__…
#
# An MMA covers 16 elements of the head, so the head dimension is 16 times their number; in decoding
# it is `vec` times `bdx`.

LIB_FLASHINFER = "FlashInfer"
MASKS = ("no mask", "causal", "custom", "multi-item scoring")
_ATTENTION = r"(?:Single|Batch)(?P<way>Prefill|Decode)With(?P<cache>Paged|Ragged)?KVCacheKernel"
_ACTIVATION = r"\b(silu|gelu_tanh|gelu)\b"


@family(
    "flashinfer",
    15,
    """
        lib dtype op mask tile_q head_dim dtype_in dtype_kv paged_kv stages group_size activation
        class
    """,
    hint="flashinfer::|^kernel_cutlass_",
)
def _decode_flashinfer(r: NameParser) -> KernelId | None:
    if found := class_of(r.name):
        if not found["module"].startswith("flashinfer"):
            return None
        r.put("flashinfer", "lib", LIB_FLASHINFER, f"{LIB_FLASHINFER}, in the CuTe DSL")
        called: str = r.read(found["class"], "class")
        put_dtype(r)
        return r.done(role_by_words(called), "", plain_kernel(called), r.get("dtype_in"))
    if r.cpp.scope.split("::")[0] != "flashinfer":
        return None
    r.certainty = "documented"
    r.put("flashinfer", "lib", LIB_FLASHINFER)
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
    plain = plain_kernel(r.base)
    r.note(r.base, f"the name is literal: {plain}")
    dtype = first_type(r)
    activation = rx(_ACTIVATION).search(r.arg(1)) if r.base == "act_and_mul_kernel" else None
    if activation:
        r.read(activation[1], "activation")
        plain = plain.replace("act", activation[1], 1)
    row = r.row("flashinfer")
    role = row[0] if row else role_by_words(r.base)
    role = role if role != "other" else role_by_words(f"{r.cpp.scope}_{r.base}")
    return r.done(role, "", plain, dtype)
