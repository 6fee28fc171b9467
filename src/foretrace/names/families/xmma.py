"""xmma: matmuls and convolutions in cuBLAS and cuDNN, `sm80_xmma_…` to `sm90_xmma_…`.

    sm<arch>_xmma_gemm_<T1>_<T2>_<T3>_<layout>_<layout of C>_tilesize<M>x<N>x<K>[_cgasize<c>]
        [_stage<S>]_(warpsize|warpgroupsize)<w>[_tensor<mma>|_ffma][_<words>]_execute
        [_<k mode>]_kernel__5x_(cublas|cudnn)
    sm<arch>_xmma_(fprop|dgrad|wgrad)_implicit_gemm[_indexed][_wo_smem]_<T1>_<T2>_<T3>
        _<input+filter>_<output>_tilesize…

T1 is input and output type (A, B and output where A and B differ), T2 the arithmetic and the
accumulator, T3 the type of the end. NVIDIA has not explained the convention: everything here is
inferred from some 15,000 names that fit it.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, number, row_for
from foretrace.names.families._tables import CONVOLUTIONS, TRIPLE, WORDS, is_cut, rx

_TYPE = "tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|u8|i32|i4"
_HEAD = (
    r"(?P<arch>sm\d{2,3}[a-z]?)_xmma_(?P<kind>gemm|fprop|dgrad|wgrad)"
    r"(?P<how>(?:_implicit_gemm|_indexed|_wo_smem){0,3})"
    rf"(?:_(?P<t1>(?:{_TYPE}){{2,3}})_(?P<t2>(?:{_TYPE}){{2,3}})_"
    rf"(?P<t3>{_TYPE})"
    r"|(?:_[a-z]{1,12}\d[a-z0-9]{0,24}){1,3})?(?:_(?P<in>[ntc]{2}|n[a-z]{1,12}\d{0,4}k[a-z]{1,12}\d{0,4})_"
    r"(?P<out>[ntc]|n[a-z]{1,12}\d{0,4}))?(?=_|$)"
)
_SIZES = (
    rf"_(?P<tile>tilesize{TRIPLE})(?:_(?P<cluster>cgasize{TRIPLE}))?"
    rf"(?:_(?P<stages>stage\d{{1,3}}))?"
    rf"(?:_(?P<warpgroups>warpgroupsize{TRIPLE})|_(?P<warps>warpsize{TRIPLE}))?"
    rf"(?:_(?P<groups>g\d{{1,4}}))?(?:_(?P<mma>tensor{TRIPLE})|_(?P<ffma>ffma))?(?=_|$)"
)
_END = (
    r"_?execute(?:_(?P<mode>segment_k_off|segment_k_on|split_k))?_kernel(?:_+(?:5x_)?"
    r"(?P<lib>cublas|cudnn))?"
)


def _decode(r: NameParser) -> KernelId:
    kind, whole, end = r["kind"], r.found.string, r.found.end()
    op = kind if kind == "gemm" else f"conv_{kind}"
    r.conv = kind != "gemm"
    r.put_arch(r["arch"])
    r.note("xmma", "a kernel library that cuBLAS and cuDNN share")
    r.put(kind, "op", op, CONVOLUTIONS[op])
    if "implicit" in r["how"]:
        r.note("implicit_gemm", "a convolution as a matmul, without a copy of its input")
    if "indexed" in r["how"]:
        r.put("indexed", "indexed", True, "input addressed through an index, presumably", "unknown")
    if "wo_smem" in r["how"]:
        r.note("wo_smem", "without shared memory, presumably", "unknown")
    if r["t1"]:
        _types(r)
    if rx(r"[ntc]{2}").fullmatch(r["in"]):
        r.put_layout(r["in"], certainty="checked")
    elif filters := rx(r"(n[a-z0-9]{1,16}?)(k[a-z]*)").fullmatch(r["in"]):
        r.read_all(filters.groups(), "layout_in layout_filter")
    r.read(r["out"], "layout_out")
    if sizes := rx(_SIZES).match(whole, end):
        r.found = sizes
        _sizes(r)
        _end(r, whole[sizes.end() :])
    way = op.replace("_", " ") if r.conv else ""
    dtype = "{dtype_in}" if r.get("dtype_in") else "{dtype_a}"
    if r.get("k_mode") == "split_k":  # in every trace it follows another kernel of the same op
        sums = "adds the pieces that the kernel before it wrote"
        r.put("split_k", "op", "conv_wgrad_reduce" if op == "conv_wgrad" else "splitk_reduce", sums)
        return r.done("reduction", f"xmma {{arch}} split-K reduce {dtype}")
    short = f"xmma {{arch}} {way} {{tile}} {{layout}} {dtype}"
    return r.done("conv" if r.conv else "gemm", short)


def _types(r: NameParser) -> None:
    types = f"{r['t1']}_{r['t2']}_{r['t3']}"  # one piece: they may be equal
    storage = [WORDS[word] for word in rx(_TYPE).findall(r["t1"])]
    fields = ("dtype_in", "dtype_out") if len(storage) == 2 else ("dtype_a", "dtype_b", "dtype_out")
    for field, dtype in zip(fields, storage, strict=True):
        meaning = "type of the result" if field == "dtype_out" else "type of the input"
        r.put(types, field, dtype, f"{meaning}: {dtype}")
    *math, acc = [WORDS[word] for word in rx(_TYPE).findall(r["t2"])]
    r.put(types, "math_dtype", "*".join(math), f"multiplied as {' times '.join(math)}")
    r.put(types, "dtype_acc", acc)
    r.put(types, "dtype_epilogue", WORDS[r["t3"]], "the end is computed in {}")


def _sizes(r: NameParser) -> None:
    # the grids of 125 matmuls on an H200 say that rows come first
    r.put_tile(r["tile"], row_major=True)
    r.groups("cluster stages warpgroups warps")
    r.put(r["groups"], "g", number(r["groups"]), "group count, presumably", "unknown")
    r.groups("mma")
    core = r["ffma"] or r["mma"] or r["warpgroups"]
    r.put(core, "tensor_core", not r["ffma"] if core else None)


def _end(r: NameParser, tail: str) -> None:
    end = rx(_END).search(tail)
    tokens = rx(r"_?execute.*").sub("", tail).removesuffix("kernel").strip("_")
    if tokens and (end or not is_cut(r.name)):
        ending = "what the end of the kernel can do (bias, gelu, …)"
        r.put(tokens, "tokens", tokens, f"alignment, or {ending}; not proof that it was done")
        r.put_abilities(tokens)
        for operand, size in rx(r"align([ac])(\d{1,3})").findall(tokens):
            words = "alignment, in bytes or elements"
            r.put(tokens, f"align_{operand}", int(size), words, "unknown")
    if not end:
        return
    mode = end["mode"] or "plain"
    meaning, certainty = row_for("xmma", mode) or ("no K mode in the name", "inferred")
    r.put(end["mode"] or "execute", "k_mode", mode, meaning, certainty)
    r.put(end["mode"] or "execute", "splitk", mode == "split_k", meaning)
    r.put(end["lib"], "lib", end["lib"], "launched by {}")


_STATES = """
    arch layout tile tensor_core tokens splitk lib dtype_acc op layout_in layout_filter stages g
"""
FAMILY = family("xmma", _decode, 12, _STATES, hint="_xmma_", head=_HEAD)
