"""CUTLASS: names of its versions 2 and 3, inside libraries and spelt out, and xmma.

CuTe DSL kernels, flash attention 4 among them.

    kernel_cutlass_kernel_<module><Class>_object_at__<arguments>_<n>
    kernel_cutlass_<function>_<arguments>_<n>

The DSL runs module path and class together, encodes the arguments' layouts and cuts the name. Only
the class, the module and the first pointer's type are reliable.

Quack: norms, softmax, cross entropy and matmuls written in the CuTe DSL.

    kernel_cutlass_kernel_quack<module><Class>[Sm<chip>]_object_at__<arguments>_<n>

`GemmGated` applies a gated activation (SwiGLU and its kin) to the matmul, `GemmDGated` its
gradient, `GemmAct` and `GemmDAct` a plain activation. Which activation ran is not in the name.
"""

from __future__ import annotations

import re

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import (
    ACCUMULATOR,
    CONVOLUTIONS,
    PAIR,
    TRIPLE,
    WORDS,
    is_cut,
    row_for,
    rx,
    uncut,
)
from foretrace.work.families._parser import (
    NameParser,
    family,
    number,
    plain_kernel,
    role_by_words,
    shape,
)
from foretrace.work.kernel import KernelId

# CUTLASS 2 kernels inside cuBLAS, cuDNN and others.
#
#     [void cutlass::Kernel2<]cutlass_[<sm>_]<opclass>_[<out>_]<acc><mma>[<math>]<kind>
# [_<iterator>][_<epilogue>][_<in>]_<M>x<N>[_<K>x<S>]_<layout>[_unity_stride]_align<E>[>(…)]
#
# The sm number is the oldest chip the kernel fits, not the card in use. A type is printed only
# where it differs from the accumulator's. `relu` means that the kernel can apply one: plain biased
# layers use it too.

EPILOGUES = ("gelu", "drelu", "dgelu", "bgrada", "bgradb")
_TYPE_CUTLASS2 = "f16|bf16|tf32|f32|f64|s8|u8|s4|u4|s32|b1|cf32|cf64"
_BODY = (
    r"cutlass_(?:(?P<sm>\d{2,3})_)?(?P<opclass>simt|wmma_tensorop|sptensorop|tensorop)_"
    rf"(?:(?P<out>{_TYPE_CUTLASS2})_)?(?P<core>(?P<acc>g?[cz]|[shdi])(?P<mma>\d{{1,6}})?"
    r"(?P<math>bf16|f16|tf32|f32)?(?P<kind>gemm|fprop|dgrad|wgrad))(?=_|$|[>(])"
)
_NAMESPACE = r"(?:void )?(cutlass\w*)::Kernel2?<"


@family(
    "cutlass2x",
    20,
    """
        namespace lib arch tile_mn tile_k stages epilogue layout align_elems dtype_in math_dtype
        op iterator
    """,
    "documented",
    hint="cutlass",
)
def _decode_cutlass2(r: NameParser) -> KernelId | None:
    wrapper = rx(_NAMESPACE).match(r.name)
    body = rx(_BODY).match(uncut(r.name), wrapper.end() if wrapper else 0)
    if not (body or wrapper or rx(r"_ZN\d+cutlass\w*?[67]Kernel2?I").match(r.name)):
        return None
    r.found, namespace = body, wrapper[1] if wrapper else ""
    if body and not wrapper:
        r.note("cutlass", "NVIDIA's open templates for matmuls", "documented")
    r.put(namespace, "namespace", namespace, "whose copy of CUTLASS this is", "checked")
    if "cudnn" in namespace:
        r.put(namespace, "lib", "cudnn", "launched by cuDNN", "inferred")
    return _named_cutlass2(r, "cudnn" in namespace) if body else _template(r)


def _named_cutlass2(r: NameParser, by_cudnn: bool) -> KernelId:
    op = "gemm" if r["kind"] == "gemm" else f"conv_{r['kind']}"
    r.conv = op != "gemm"
    r.put_arch(r["sm"], "inferred")
    if r["sm"] and not by_cudnn:
        meaning = "cuBLAS prints the number, the public generator does not"
        r.put(r["sm"], "lib", "cublas", meaning, "inferred")
    r.put_word(r["opclass"], "opclass")
    r.put(r["opclass"], "tensor_core", r["opclass"] != "simt")
    r.put_core()
    r.put(r["core"], "math_dtype", r["math"], "inputs are rounded to {} for the multiplication")
    r.put(r["core"], "op", op, CONVOLUTIONS[op])
    tail = rx(r"[A-Za-z0-9_]*").match(r.found.string, r.found.end())
    _tail_cutlass2(r, tail[0] if tail else "")
    kind, tile = op.replace("_", " "), "{tile}" if r.get("tile") else "{tile_mn}"
    short = f"cutlass {kind if r.conv else ''} {{arch}} {tile} {{layout}} {{dtype_in}}"
    return r.done("conv" if r.conv else "gemm", short)


def _tail_cutlass2(r: NameParser, tail: str) -> None:
    words = tail.strip("_").split("_")
    inputs = [word for word in words if rx(_TYPE_CUTLASS2).fullmatch(word)]
    # before the tile it may be cut off
    by_absence = not inputs and any(rx(PAIR).fullmatch(word) for word in words)
    if by_absence:
        acc = ACCUMULATOR[r["acc"]]
        r.put(r["core"], "dtype_in", acc, "type of both inputs: {}, as the sums")
    if by_absence and r["core"] == "s1688gemm" and r["sm"] == "80":
        meaning = "float32 data, TF32 arithmetic on tensor cores"
        r.put(r["core"], "math_dtype", "tf32", meaning, "inferred")
    fields = iter(("dtype_in",) if len(inputs) == 1 else ("dtype_a", "dtype_b"))
    for word in words:
        if word in inputs and (field := next(fields, "")):
            r.put(word, field, WORDS[word], "type of the input: {}")
        else:
            _word(r, word)


def _word(r: NameParser, word: str) -> None:
    if rx(PAIR).fullmatch(word):
        r.put_pair(word)
    elif word == "relu":
        r.put_relu(word, "checked")
    elif word in EPILOGUES:
        r.put(word, "epilogue", [word], f"{word} is computed at the end", "inferred")
    elif r.put_word(word, "cutlass_words"):
        return
    elif rx(r"[ntch]{2,3}").fullmatch(word):
        r.put_layout(word)
    elif rx(r"align\d{1,3}").fullmatch(word):
        count = int(word[5:])
        more = "; below 8 for 16-bit data means a misaligned dimension" if count < 8 else ""
        r.put(word, "align_elems", count, f"loads up to {count} elements at once{more}", "checked")


def _template(r: NameParser) -> KernelId:
    """A CUTLASS 2 kernel spelt out as C++ templates: only what stands out is read."""
    r.conv = "Conv" in r.name
    if "ReduceSplitK" in r.name:
        meaning = "adds the partial sums of a matmul split over K"
        r.put("ReduceSplitK", "op", "splitk_reduce", meaning, "inferred")
        return r.done("reduction", "cutlass split-K reduce")
    if conv := rx(r"Conv\dd(Fprop|Dgrad|Wgrad)").search(r.name):
        op = f"conv_{conv[1].lower()}"
        r.put(conv[0], "op", op, CONVOLUTIONS[op], "inferred")
    elif rx(r"ImplicitGemmConvolution|DirectConvolution").search(r.name):
        r.put("Convolution", "op", "conv", "a convolution", "inferred")
    elif "attention" in r.name.lower() or "fmha" in r.name.lower():
        return r.done("attention", "cutlass attention")
    else:
        r.note("Kernel", "a CUTLASS kernel, a matmul as a rule", "inferred")
    sizes = r"GemmShape(?:ILi(\d+)ELi(\d+)ELi(\d+)E|<(\d+), ?(\d+), ?(\d+)>)"
    if found := rx(sizes).search(r.name):
        r.put_tile(found[0], "inferred", [int(number) for number in found.groups() if number])
    dtype = _cpp.dtype(next(iter(rx(r"cutlass::\w+_t\b").findall(r.name)), ""))
    kind = r.get("op").replace("_", " ") or "GEMM"
    return r.done("conv" if "conv" in r.get("op") else "gemm", f"cutlass {kind} {{tile}}", dtype)


# CUTLASS 3 kernels: names that the generator prints, and names spelt out as C++ templates.
#
#     cutlass3x_sm<arch>_<opclass>_[<acc><MxNxK>][<math>]gemm_<A>_<B>_<acc>_<C>_<D>_<M>x<N>x<K>
#         [_<cluster>]_<stages>_<layout of A, B, C>_align<E>[_<schedule>][_<epilogue words>]
#
# A block-scaled type has the type of its scales in front: `ue8m0xe4m3`.
#
# Stages `0` mean chosen automatically. On sm100 the tile of a two-SM kernel spans two thread
# blocks. Words such as `bias_bf16_relu` at the end are what cuBLAS kernels can do, not proof that
# it was done.

ENTRY = "cutlass::device_kernel"
BLOCK_SCALES = {
    "ue8m0": "one scale per block of elements, a power of two (microscaling formats)",
    "ue4m3": "one scale per block of elements, of type e4m3 without a sign (NVFP4)",
}
TYPES = {
    "a": ("dtype_a", "type of A (the weight)"),
    "b": ("dtype_b", "type of B (the activation)"),
    "acc": ("dtype_acc", "sums are kept in"),
    "c": ("dtype_c", "type of the matrix added in"),
    "d": ("dtype_out", "type of the result"),
}
SCHEDULES = (
    r"warpspecialized(?:_pingpong|_cooperative)?(?:_fp8_fastaccum)?|epi_tma|epi_nosmem|stream_k"
    r"|cpasync|[12]sm|q|o_vs\d{1,3}"
)
_HEAD_CUTLASS3 = (
    r"cutlass3x_(?P<arch>sm\d{2,3}[a-z]?)_(?P<opclass>(?:bs)?(?:sp)?tensorop|simt)_(?P<core>"
    rf"(?:g?[cz]|[shdi])?(?P<mma>{TRIPLE}|\d{{2,6}})?(?P<math>bf16|f16|tf32)?gemm)"
    r"(?:_block_scaled)?"
)
_TYPES = "".join(rf"_(?P<{key}>[a-z0-9]+)" for key in TYPES)
_SHAPES = (
    rf"_(?P<tile>{TRIPLE})(?:_(?P<cluster>{TRIPLE}))?(?:_(?P<stages>\d{{1,3}}))?"
    r"(?:_(?P<layout>[nth]{2,3}))?(?:_(?P<align_elems>align\d{1,3}))?(?=_|$|[>(])"
)
_SIZE = r"(?:cute::)?C<(?:\(int\))?(\d{1,5})>"
_TUPLE = rf"cute::tuple<{_SIZE}, ?{_SIZE}, ?{_SIZE} ?>"


@family(
    "cutlass3x",
    19,
    """
        arch tile cluster stages dtype_a dtype_c schedule layout tensor_core tokens epilogue
        dtype_bias scale_a
    """,
    "documented",
    hint="cutlass3x_|cutlass::device_kernel<",
)
def _decode_cutlass3(r: NameParser) -> KernelId | None:
    at = r.name.find("cutlass3x_", 0, 120)
    r.found = rx(_HEAD_CUTLASS3).match(uncut(r.name), at) if at >= 0 else None
    if r.name.startswith(("void cutlass::device_kernel<", "cutlass::device_kernel<")):
        r.put(ENTRY, "wrapper", ENTRY, "CUTLASS 3's common entry")
        if not r.found:
            return _generic(r) if "GemmUniversal" in r.name else None
    return _named_cutlass3(r) if r.found else None


def _named_cutlass3(r: NameParser) -> KernelId:
    whole, end = r.found.string, r.found.end()
    r.note("cutlass3x", "CUTLASS 3, as its generator writes names")
    r.put_arch(r["arch"])
    r.put_word(r["opclass"], "opclass")
    r.put(r["opclass"], "tensor_core", r["opclass"] != "simt")
    r.put(r["core"], "op", "gemm", "a matmul")
    if "x" in r["mma"]:
        r.put(r["core"], "mma", shape(r["mma"]))
    r.put(r["core"], "math_dtype", r["math"], "inputs are rounded to {}")
    if types := rx(_TYPES).match(whole, end):
        listed = types[0].strip("_")  # one piece: a type that is repeated has no place of its own
        for key, (field, meaning) in TYPES.items():
            scale, _, text = types[key].rpartition("x")
            value = WORDS.get(text, text)
            r.put(listed, field, value, f"{meaning}: {'none' if value == 'void' else value}")
            r.put(listed, f"scale_{key}", scale, BLOCK_SCALES.get(scale, "block scales in {}"))
    shapes = rx(_SHAPES).match(whole, types.end() if types else end)
    if shapes:
        r.found = shapes
        r.put_tile(r["tile"])
        r.groups("cluster")
        if r["stages"] == "0":
            r.put("0", "stages", "auto", "pipeline stages, chosen automatically")
        else:
            r.groups("stages")
        r.put_layout(r["layout"])
        r.groups("align_elems")
        tail = rx(r"[A-Za-z0-9_]*").match(whole, shapes.end())
        _tail_cutlass3(r, tail[0].strip("_") if tail else "", cut=whole != r.name)
    return r.done("gemm", "cutlass3 {arch} {tile} {layout} {dtype_a}")


def _tail_cutlass3(r: NameParser, tail: str, cut: bool) -> None:
    schedule: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(tail):
        found = rx(rf"(?:{SCHEDULES})(?=_|$)").match(tail, position)
        word = found[0] if found else tail[position:].partition("_")[0]
        (schedule if found else rest).append(word)
        if found:
            r.put(word, "schedule", schedule, "how loads, matmuls and stores are arranged")
        position += len(word) + 1
    tokens = "_".join(word for word in rest if word)
    if tokens and tokens in tail and not cut:
        meaning = "what the end of the kernel can do, not proof that it was done"
        r.put(tokens, "tokens", tokens, meaning, "inferred")
        r.put_abilities(tokens)


def _generic(r: NameParser) -> KernelId:
    r.put("GemmUniversal", "op", "gemm", "a matmul")
    if loop := rx(r"Mainloop(Sm\d{2,3})\w{0,80}<").search(r.name):
        r.put_arch(loop[1], "inferred")
        stages = _cpp.integer(_cpp.split(r.name[loop.end() : loop.end() + 40])[0])
        r.put(str(stages), "stages", stages or None, certainty="inferred")
        _tuples(r, loop.end())
    return r.done("gemm", "cutlass GEMM {arch} {tile} {dtype_a}")


def _tuples(r: NameParser, start: int) -> None:
    tuples = list(rx(_TUPLE).finditer(r.name, start, start + 2000))[:2]
    if len(tuples) < 2:
        return
    cluster, tile = ([int(number) for number in found.groups()] for found in tuples)
    r.put(tuples[0][0], "cluster", cluster, certainty="inferred")
    r.put_tile(tuples[1][0], "inferred", tile)
    after = r.name[tuples[1].end() :].lstrip(" ,>").partition(",")[0].strip()
    r.read(after, "dtype_a", certainty="inferred")


# xmma: matmuls and convolutions in cuBLAS and cuDNN, `sm80_xmma_…` to `sm90_xmma_…`.
#
#     sm<arch>_xmma_gemm_<T1>_<T2>_<T3>_<layout>_<layout of C>_tilesize<M>x<N>x<K>[_cgasize<c>]
#         [_stage<S>]_(warpsize|warpgroupsize)<w>[_tensor<mma>|_ffma][_<words>]_execute
#         [_<k mode>]_kernel__5x_(cublas|cudnn)
#     sm<arch>_xmma_(fprop|dgrad|wgrad)_implicit_gemm[_indexed][_wo_smem]_<T1>_<T2>_<T3>
#         _<input+filter>_<output>_tilesize…
#
# T1 is input and output type (A, B and output where A and B differ), T2 the arithmetic and the
# accumulator, T3 the type of the end. NVIDIA has not explained the convention: everything here is
# inferred from some 15,000 names that fit it.

_TYPE_XMMA = "tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|u8|i32|i4"
_HEAD_XMMA = (
    r"(?P<arch>sm\d{2,3}[a-z]?)_xmma_(?P<kind>gemm|fprop|dgrad|wgrad)"
    r"(?P<how>(?:_implicit_gemm|_indexed|_wo_smem){0,3})"
    rf"(?:_(?P<t1>(?:{_TYPE_XMMA}){{2,3}})_(?P<t2>(?:{_TYPE_XMMA}){{2,3}})_"
    rf"(?P<t3>{_TYPE_XMMA})"
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


@family(
    "xmma",
    12,
    "arch layout tile tensor_core tokens splitk lib dtype_acc op layout_in layout_filter stages g",
    hint="_xmma_",
    head=_HEAD_XMMA,
)
def _decode_xmma(r: NameParser) -> KernelId:
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
    storage = [WORDS[word] for word in rx(_TYPE_XMMA).findall(r["t1"])]
    fields = ("dtype_in", "dtype_out") if len(storage) == 2 else ("dtype_a", "dtype_b", "dtype_out")
    for field, dtype in zip(fields, storage, strict=True):
        meaning = "type of the result" if field == "dtype_out" else "type of the input"
        r.put(types, field, dtype, f"{meaning}: {dtype}")
    *math, acc = [WORDS[word] for word in rx(_TYPE_XMMA).findall(r["t2"])]
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


_NAME = (
    r"kernel_cutlass_(?P<function>[a-z][A-Za-z0-9]*)_(?P<module>[a-z_0-9]*)"
    r"(?P<class>[A-Z]\w*?)_object_at_"
)
_FUNCTION = (
    r"kernel_cutlass_(?P<function>\w+?)_(?=tensorptr|tensor\d|CopyAtom_|TiledMMA_|TiledCopy_|\d+$)"
)


def class_of(name: str) -> re.Match[str] | None:
    """Module and class of a CuTe DSL name, for the libraries that are written in it."""
    return rx(_NAME).match(name[:600]) if name.startswith("kernel_cutlass_") else None


@family("cute_dsl", 16, "class function dtype_in", hint="^kernel_cutlass_")
def _decode_user(r: NameParser) -> KernelId | None:
    """Any other class or function."""
    found = class_of(r.name)
    function = found or rx(_FUNCTION).match(r.name[:600])
    if not function:
        return None
    r.put("kernel_cutlass", "op", "user CuTe DSL kernel", "written in the CuTe DSL")
    called = found["class"] if found else function["function"]
    r.read(called if found else "", "class")
    r.read("" if found else called, "function", "the Python function")
    put_dtype(r)
    return r.done(role_by_words(called), "cute", plain_kernel(called), r.get("dtype_in"))


@family("flash_attention_4_cute", 15, "op arch class dtype_in", hint="^kernel_cutlass_")
def _attention(r: NameParser) -> KernelId | None:
    """Flash attention 4."""
    found = class_of(r.name)
    kernel = found["class"] if found else ""
    if "Flash" not in kernel:
        return None
    backward = "Backward" in kernel
    step = next((word for word in ("Preprocess", "Postprocess", "Combine") if word in kernel), "")
    way = f"sdpa_{'bwd' if backward else 'fwd'}{f'_{step.lower()}' if step else ''}"
    r.read(kernel, "class")
    r.put(kernel, "op", "" if step == "Combine" else way, "fused attention, or a step of it")
    r.put("kernel_cutlass", "lib", "flash-attn 4 (CuTe DSL)", "flash attention 4")
    if arch := rx(r"Sm\d{2,3}").search(kernel):
        r.put_arch(arch[0])
    put_dtype(r)
    return r.done("attention", f"FA4 {way.replace('_', ' ')} {{arch}} {{dtype_in}}")


def put_dtype(r: NameParser) -> None:
    """The type of the first pointer, where the name states it."""
    if pointer := rx(r"tensorptr(bf16|f16|f32|f64|i8|i32|u8|f8E4M3FN|f8E5M2)").search(r.name):
        dtype = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}.get(pointer[1]) or WORDS[pointer[1]]
        r.put(pointer[0], "dtype_in", dtype, "type of the first tensor: {}")


@family("quack", 15, "lib class op epilogue arch dtype_in", hint="^kernel_cutlass_")
def _quack(r: NameParser) -> KernelId | None:
    found = class_of(r.name)
    if not found or not found["module"].startswith("quack"):
        return None
    called = found["class"]
    chip = rx(r"Sm\d{2,3}$").search(called)
    plain = called[: chip.start()] if chip else called
    row = row_for("quack", plain) or (role_by_words(plain), "", plain_kernel(plain), "")
    role, op, short, end = row
    r.put("quack", "lib", "Quack", "Quack, in the CuTe DSL")
    r.read(called, "class")
    r.put(called, "op", op, f"{short}, by the name of the class")
    r.put(called, "epilogue", [end] if end else "", "applied to the matmul before it is written")
    r.put_arch(chip[0] if chip else "")
    put_dtype(r)
    return r.done(role, "quack", short, r.get("arch"), r.get("dtype_in"))
