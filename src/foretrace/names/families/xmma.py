"""xmma: matmuls and convolutions in cuBLAS and cuDNN, `sm80_xmma_…` to `sm90_xmma_…`.

    sm<arch>_xmma_gemm_<T1>_<T2>_<T3>_<layout>_<layout of C>_tilesize<M>x<N>x<K>[_cgasize<c>]
        [_stage<S>]_(warpsize|warpgroupsize)<w>[_tensor<mma>|_ffma][_<words>]_execute
        [_<k mode>]_kernel__5x_(cublas|cudnn)
    sm<arch>_xmma_(fprop|dgrad|wgrad)_implicit_gemm[_indexed]_<T1>_<T2>_<T3>_<input+filter>
        _<output>_tilesize…

T1 is input and output type (A, B and output where A and B differ), T2 the arithmetic and the
accumulator, T3 the type of the end. NVIDIA has not explained the convention: everything here is
inferred from some 15,000 names that fit it.
"""

from __future__ import annotations

from foretrace.names.families._matmul import TRIPLE, WORDS, ConvParser, MatmulParser, times
from foretrace.names.families._parser import joined, rx, shape, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

OPS = {
    "gemm": ("gemm", "a matmul"),
    "fprop": ("conv_fprop", "convolution, forward"),
    "dgrad": ("conv_dgrad", "convolution, input gradient"),
    "wgrad": ("conv_wgrad", "convolution, weight gradient"),
}
K_MODES = {
    "segment_k_off": ("K segmentation of the scheduler is off", "unknown"),
    "segment_k_on": ("K segmentation of the scheduler is on", "unknown"),
    "split_k": ("the second of two kernels: K was split over blocks", "checked"),
}
_TYPE = "tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|u8|i32|i4"
_HEAD = (
    r"(?P<arch>sm\d{2,3}[a-z]?)_xmma_(?P<kind>gemm|fprop|dgrad|wgrad)"
    rf"(?P<how>(?:_implicit_gemm|_indexed){{0,2}})(?:_(?P<t1>(?:{_TYPE}){{2,3}})_(?P<t2>(?:{_TYPE}){{2,3}})_"
    rf"(?P<t3>{_TYPE})"
    r"|(?:_[a-z]{1,12}\d[a-z0-9]{0,24}){1,3})?(?:_(?P<in>[ntc]{2}|n[a-z]{1,12}\d{0,4}k[a-z]{1,12}\d{0,4})_"
    r"(?P<out>[ntc]|n[a-z]{1,12}\d{0,4}))?(?=_|$)"
)
_SIZES = (
    rf"_tilesize(?P<tile>{TRIPLE})(?:_cgasize(?P<cluster>{TRIPLE}))?"
    rf"(?:_stage(?P<stages>\d{{1,3}}))?"
    rf"(?:_warpgroupsize(?P<warpgroups>{TRIPLE})|_warpsize(?P<warps>{TRIPLE}))?"
    rf"(?:_g(?P<groups>\d{{1,4}}))?(?:_tensor(?P<mma>{TRIPLE})|_(?P<ffma>ffma))?(?=_|$)"
)
_END = (
    r"_?execute(?:_(?P<mode>segment_k_off|segment_k_on|split_k))?_kernel(?:_+(?:5x_)?"
    r"(?P<lib>cublas|cudnn))?"
)
# group of the pattern, its text in the name, field, kind, meaning
_PARTS = """
    cluster     cgasize{}        cluster     shape   thread blocks that share data
    stages      stage{}          stages      number  pipeline stages
    warpgroups  warpgroupsize{}  warpgroups  shape   warpgroups along M, N, K
    warps       warpsize{}       warps       shape   warps along M, N, K
"""
_GROUPS = "groups  g{}  g  number  group count, presumably"
_MMA = "mma  tensor{}  mma  shape  shape of one tensor-core instruction"


def _decode(name: str) -> KernelId | None:
    whole = uncut(name)
    head = rx(_HEAD).match(whole)
    if not head:
        return None
    found = head.groupdict()
    r = (MatmulParser if found["kind"] == "gemm" else ConvParser)(name, "xmma")
    r.put_arch(found["arch"], found["arch"])
    r.note("xmma", "a kernel library that cuBLAS and cuDNN share")
    op, meaning = OPS[found["kind"]]
    r.put(found["kind"], "op", op, meaning)
    if "implicit" in found["how"]:
        r.note("implicit_gemm", "a convolution as a matmul, without a copy of its input")
    if "indexed" in found["how"]:
        r.put("indexed", "indexed", True, "input addressed through an index, presumably", "unknown")
    if found["t1"]:
        _types(r, found)
    _layouts(r, found)
    end = _sizes(r, whole, head.end())
    if "tile" in r.fields:
        _end(r, whole[end:], cut=whole != name)
    words = (times(r.get("tile")), r.get("layout"), r.get("dtype_in") or r.get("dtype_a"))
    if r.get("k_mode") == "split_k":  # in every trace it follows another kernel of the same op
        sums = "adds the pieces that the kernel before it wrote"
        r.put("split_k", "op", "conv_wgrad_reduce" if op == "conv_wgrad" else "splitk_reduce", sums)
        return r.done("reduction", joined("xmma", found["arch"], "split-K reduce", words[2]))
    if op == "gemm":
        return r.done("gemm", joined("xmma", found["arch"], *words))
    return r.done("conv", joined("xmma", found["arch"], op.replace("_", " "), *words))


def _types(r: MatmulParser, found: dict[str, str]) -> None:
    types = f"{found['t1']}_{found['t2']}_{found['t3']}"  # one piece: they may be equal
    storage = [WORDS[word] for word in rx(_TYPE).findall(found["t1"])]
    fields = ("dtype_in", "dtype_out") if len(storage) == 2 else ("dtype_a", "dtype_b", "dtype_out")
    for field, dtype in zip(fields, storage, strict=True):
        meaning = "type of the result" if field == "dtype_out" else "type of the input"
        r.put(types, field, dtype, f"{meaning}: {dtype}")
    *math, acc = [WORDS[word] for word in rx(_TYPE).findall(found["t2"])]
    r.put(types, "math_dtype", "*".join(math), f"multiplied as {' times '.join(math)}")
    r.put(types, "dtype_acc", acc, "sums are kept in {}")
    r.put(types, "dtype_epilogue", WORDS[found["t3"]], "the end is computed in {}")


def _layouts(r: MatmulParser, found: dict[str, str]) -> None:
    first, out = found["in"] or "", found["out"] or ""
    if rx(r"[ntc]{2}").fullmatch(first):
        r.put_layout(first, first, "checked")
    elif filters := rx(r"(n[a-z0-9]{1,16}?)(k[a-z]*)").fullmatch(first):
        r.put(filters[1], "layout_in", filters[1], "order of the input's dimensions")
        r.put(filters[2], "layout_filter", filters[2], "order of the filter's dimensions")
    r.put(out, "layout_out", out, "layout of the result")


def _sizes(r: MatmulParser, name: str, end: int) -> int:
    sizes = rx(_SIZES).match(name, end)
    if not sizes:
        return end
    found = sizes.groupdict()
    text, tile = f"tilesize{found['tile']}", shape(found["tile"])
    if isinstance(r, ConvParser):
        r.put_tile(text, tile)
    else:  # the grids of 125 matmuls on an H200 say so
        r.put_row_tile(text, tile)
    r.put_groups(found, _PARTS)
    r.put_groups(found, _GROUPS, "unknown")
    r.put_groups(found, _MMA)
    if found["ffma"]:
        r.put_tensor_core("ffma", False)
    elif found["mma"]:
        r.put_tensor_core("tensor" + found["mma"], True)
    elif found["warpgroups"]:
        r.put_tensor_core("warpgroupsize" + found["warpgroups"], True)
    return sizes.end()


def _end(r: MatmulParser, tail: str, cut: bool) -> None:
    end = rx(_END).search(tail)
    tokens = rx(r"_?execute.*").sub("", tail).removesuffix("kernel").strip("_")
    if tokens and (end or not cut):
        ending = "what the end of the kernel can do (bias, gelu, …)"
        r.put(tokens, "tokens", tokens, f"alignment, or {ending}; not proof that it was done")
        r.put_abilities(tokens)
        for operand, number in rx(r"align([ac])(\d{1,3})").findall(tokens):
            words = "alignment, in bytes or elements"
            r.put(tokens, f"align_{operand}", int(number), words, "unknown")
    if not end:
        return
    mode = end["mode"] or "plain"
    meaning, certainty = K_MODES.get(mode, ("no K mode in the name", "inferred"))
    r.put(end["mode"] or "execute", "k_mode", mode, meaning, certainty)
    r.put(end["mode"] or "execute", "splitk", mode == "split_k", meaning)
    r.put(end["lib"], "lib", end["lib"], "launched by {}")


_STATES = """
    arch layout tile tensor_core tokens splitk lib dtype_acc op layout_in layout_filter stages g
"""
FAMILY = Family("xmma", _decode, 12, word_set(_STATES))
