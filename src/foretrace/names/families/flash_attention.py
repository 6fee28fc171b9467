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
from foretrace.names.families._parser import KernelId, NameParser, family, rx

_TUPLE = r"cute::tuple<((?:cute::)?C<[^<>]*>(?:, ?(?:cute::)?C<[^<>]*>){2}) ?>"
_MAINLOOP = r"(?:flash::)?CollectiveMainloop(Fwd|Bwd)Sm(\d{2,3})"


def _decode(r: NameParser) -> KernelId | None:
    row = r.row("flash_attention")
    if not row:
        return None
    op, short = row
    r.put(r.cpp.scope, "namespace", r.cpp.scope, "whose copy of flash attention this is")
    r.read(r.base, "kernel")
    r.put(r.base, "op", op, "fused attention, or a step of it")
    place = next((i for i, text in enumerate(r.cpp.args) if "kernel_traits<" in text), -1)
    if place >= 0:
        _traits(r, _cpp.inside(r.cpp.args[place], _cpp.leaf(r.cpp.args[place])))
        r.flags(r.cpp.args[place + 1 :], r.base)
    return _done(r, f"{short} {{dtype_in}}")


def _traits(r: NameParser, args: tuple[str, ...]) -> None:
    r.read(_cpp.nth(args, 0), "head_dim", "head dimension, padded: {}")
    r.read_all(args, "- block_m block_n")
    r.put(_cpp.nth(args, 3), "warps", _cpp.integer(_cpp.nth(args, 3)), "{} warps")
    types = (text for text in args if text.startswith("cutlass::") and _cpp.dtype(text))
    r.read(next(types, ""), "dtype_in", "type of Q, K and V: {}")


def _done(r: NameParser, short: str, size: str = "") -> KernelId:
    size = size or (f"hd{r.get('head_dim')}" if "head_dim" in r.fields else "")
    return r.done("attention", short, size, "causal" if r.get("causal") else "")


def _decode3(r: NameParser) -> KernelId:
    if r.base == "device_kernel":
        entry = "cutlass::device_kernel"
        r.put(entry, "wrapper", entry, "CUTLASS 3's common entry")
    op = "sdpa_bwd" if "FlashAttnBwd" in r.name else "sdpa_fwd"
    helper = rx(r"Combine|prepare_varlen|Preprocess|Postprocess").search(r.name)
    kernel = rx(r"FlashAttn\w+|prepare_varlen_num_blocks_kernel").search(r.name)
    r.put(kernel[0] if kernel else "", "op", "" if helper else op, "fused attention")
    loop = rx(_MAINLOOP).search(r.name)
    if loop:
        args = _cpp.inside(r.name, loop[0])
        _mainloop(r, args, loop[2], loop[1] == "Bwd")
        _flags3(r, args, loop[1], loop[2])
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


def _flags3(r: NameParser, args: tuple[str, ...], way: str, chip: str) -> None:
    """The flags after the chip's tag: all where their number is known and no cut hides some."""
    tag = next((place for place, text in enumerate(args) if "arch::Sm" in text), len(args))
    texts = tuple(takewhile(lambda text: _cpp.boolean(text) is not None, args[tag + 1 :]))
    cut = r.name.count("<") != r.name.count(">") and tag + 1 + len(texts) == len(args)
    paged = "loads a paged KV cache without TMA"
    r.flags(texts, "" if cut else f"{way}{chip}", "causal local", paged_kv=paged)


_STATES = "op head_dim block_m block_n dtype_in causal namespace split append_kv even_k"
_STATES3 = """
    stages cluster tile_mnk head_dim causal dtype_in local softcap varlen paged_kv append_kv has_qv
    pack_gqa split v_colmajor deterministic
"""
_HINT3 = "FlashAttn|prepare_varlen_num_blocks_kernel"
FAMILIES = (
    family("flash_attention_2", _decode, 21, _STATES, "documented", hint="flash_"),
    family("flash_attention_3", _decode3, 18, _STATES3, "documented", hint=_HINT3),
)
