"""AMD's libraries: Tensile, MIOpen, Composable Kernel and AITER."""

from __future__ import annotations

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import (
    CONVOLUTIONS,
    PAIR,
    TRIPLE,
    WORDS,
    arch_meaning,
    by_spelling,
    is_cut,
    row_for,
    rows,
    rx,
    uncut,
)
from foretrace.work.families._parser import NameParser, family, plain_kernel, role_by_words, shape
from foretrace.work.kernel import KernelId

# Tensile: the matmuls of rocBLAS and hipBLASLt.
#
#     C<ijk>_A<idx>_B<idx>_<types>_<flags>[_Bias][_HA_S][_SAV][_UserArgs]_MT<M>x<N>x<K>
#         _MI<m>x<n>[x<k>]x<b>_SN_<parameters>
#
# `Alik` has the summation index first, so A is transposed (t); `Bljk` is not (n): `Alik_Bljk` is
# tn, what F.linear runs. Types: S f32, D f64, H f16, B bf16, I i32, I8, X xf32, F8 and B8 the two
# fp8 kinds, C and Z complex; `BBS` is input, output, arithmetic (newer builds write `B_BS`). Bias,
# activation and scaling are what the kernel can do, not proof of it.

LIB = "hipBLASLt/rocBLAS (Tensile)"
TYPES = by_spelling("tensile_types")
ALGORITHMS = {"MB": "several buffers", "SB": "one buffer", "MBSK": "several buffers, one kernel"}
_T = "F8|B8|I8|[SDHBIXCZ]"
_HEAD = (
    r"(?:Custom_)?C(?P<c>[a-z]+)_A(?P<a>[a-z]+C?)_B(?P<b>[a-z]+C?)_(?P<problem>\w*?)_?"
    rf"(?P<tile>MT{TRIPLE})(?=_|$)"
)
_SPLIT_TYPES = rf"(?P<in>{_T})_(?P<out>{_T})(?P<comp>{_T})_(?P<flags>B?H?)(?=_|$)"
_THREE_TYPES = rf"(?P<in>{_T})(?P<out>{_T})(?P<comp>{_T})_(?P<flags>B?H?)(?=_|$)"
_ONE_TYPE = rf"(?P<in>{_T})_?(?P<flags>B?H?)(?=_|$)"


@family(
    "rocm_tensile",
    10,
    "layout tile dtype_in dtype_compute bias arch stream_k workgroup mfma dtype_out global_split_u",
    "documented",
    hint="^(?:Custom_)?Cij",
)
def _decode_tensile(r: NameParser) -> KernelId:
    head = rx(_HEAD).match(uncut(r.name)[:2000])
    if not head:
        return _helper(r)
    r.found, out = head, f"C{head['c']}"
    r.put(out, "op", "gemm", "a matmul")
    r.put(out, "lib", LIB, "a kernel of AMD's BLAS libraries")
    letters = ("t" if r["a"].startswith("l") else "n") + ("n" if r["b"].startswith("l") else "t")
    r.put_layout(f"A{r['a']}_B{r['b']}", letters, "checked")
    _problem(r, r["problem"])
    r.put_tile(r["tile"])
    tail = uncut(r.name)[head.end() : 4000]
    # a parameter is the capital letters of its name and its value; the telling ones are read
    for field, meaning, pattern in rows("tensile"):
        if found := rx(pattern).search(tail):
            words = f"{meaning}: {ALGORITHMS.get(found[1], found[1])}"
            words = arch_meaning(f"gfx{found[1]}") if field == "arch" else words
            r.put(found[0].strip("_"), field, _value(field, found[1]), words)
    return r.done("gemm", "tensile {tile} {layout} {dtype_in}")


def _problem(r: NameParser, problem: str) -> None:
    matches = (rx(pattern).match(problem) for pattern in (_THREE_TYPES, _SPLIT_TYPES, _ONE_TYPE))
    types = next(filter(None, matches), None)
    if not types:
        return
    found = types.groupdict()
    target, compute = (TYPES[found.get(side) or found["in"]] for side in ("out", "comp"))
    r.put(types[0], "dtype_in", TYPES[found["in"]], "type of both inputs: {}")
    r.put(types[0], "dtype_out", target)
    r.put(types[0], "dtype_compute", compute, "computed in {}")
    r.put(types[0], "use_beta", "B" in found["flags"], "can add beta * C")
    meaning = "sums in a wider type than the inputs"
    r.put(types[0], "high_precision_acc", "H" in found["flags"], meaning)
    words = problem[types.end() :].strip("_").split("_")
    for field, meaning, ability in rows("tensile_abilities"):
        text = next((word for word in words if rx(ability).fullmatch(word)), "")
        r.put(text, field, bool(text), f"{meaning} | it cannot: no word for it ({meaning})")
    active = next((word for word in words if rx(rf"H?A(?:{_T})?").fullmatch(word)), "")
    if active:
        kind = "hipblaslt_all" if active.startswith("H") else "all"
        meaning = "an activation can be chosen at run time; the name does not tell which, if any"
        r.put(active, "activation", f"runtime-selectable ({kind})", meaning)


def _value(field: str, text: str) -> object:
    if field in ("mfma", "workgroup"):
        return shape(text.replace("_", "x"))
    if field == "stream_k":
        return text != "0"
    if field == "global_split_u":
        return int(text)
    return f"gfx{text}" if field == "arch" else text


def _helper(r: NameParser) -> KernelId:
    """`Cijk_S_PostGSU3_VW4` adds the pieces of a matmul split over K; others scale C first."""
    if is_cut(r.name):
        return r.done("gemm", "tensile")
    r.put(r.name[:4], "lib", LIB, "a kernel of AMD's BLAS libraries")
    if "PostGSU" not in r.name[:2000]:
        return r.done("pointwise", "tensile scale C by beta")
    r.put("PostGSU", "op", "splitk_reduce", "adds the pieces of a matmul split over K", "inferred")
    return r.done("reduction", "tensile split-K reduce")


# MIOpen: assembly implicit-GEMM convolutions, and literal names for the rest.
#
#     igemm_(fwd|bwd|wrw)_gtcx<gen>_(nhwc|nchw)_<dtype>_bx<b>_ex<e>_bt<M>x<N>x<K>
#         _wt<…>_ws<…>_wr<…>_ta<…>_tb<…>[_gkgs]…
#
# `gkgs` splits K over the grid. `wrw` is the weight gradient.

DIRECTIONS = {"fwd": "conv_fprop", "bwd": "conv_dgrad", "wrw": "conv_wgrad"}
_IGEMM = (
    r"igemm_(?P<dir>fwd|bwd|wrw)_(?P<gtc>gtc(?:x(?P<gen>\d)?)?)_(?:dlops_)?(?P<layout>n[a-z]+\d*)_"
    rf"(?P<dtype>[a-z]+\d+)(?:_bx\d+_ex\d+)?_(?P<tile>bt{TRIPLE})(?:_(?P<wave_tile>wt{TRIPLE}))?"
    rf"(?:_(?P<wave_step>ws{PAIR}))?(?:_(?P<wave_repeat>wr{PAIR}))?(?=_|$)"
)
_TRANSPOSE = r"batched_transpose_(?P<tile>\d{1,4}x\d{1,4})(?:_pack_\w+?)?_(?P<unit>byte|half|dword)"
_BATCH_NORM = r"MIOpenBatchNorm(Fwd|Bwd)(Train|Infer)?(Spatial|PerActivation)?\w*"
MODES = {
    "Spatial": "spatial",
    "PerActivation": "per activation",
    "Train": "training",
    "Infer": "inference",
}
BYTES = {"byte": 1, "half": 2, "dword": 4}


@family(
    "miopen_igemm",
    10,
    "op gtc_gen dtype_in tile splitk wave_step",
    "documented",
    hint="igemm_",
    head=_IGEMM,
)
def _decode_igemm(r: NameParser) -> KernelId:
    r.conv, op = True, DIRECTIONS[r["dir"]]
    r.put(r["dir"], "op", op, CONVOLUTIONS[op])
    words = "a convolution as a matmul, in assembly"
    r.put("igemm", "lib", "MIOpen (asm implicit GEMM)", words)
    r.put(r["gtc"], "gtc_gen", r["gen"], "2 seen on MI210, 3 on MI300X", "checked")
    r.put(r["layout"], "layout", r["layout"], "order of the tensor's dimensions")
    r.put(r["dtype"], "dtype_in", WORDS.get(r["dtype"], r["dtype"]))
    r.put_tile(r["tile"])
    r.groups("wave_tile wave_step wave_repeat")
    split = "gkgs" in r.found.string[r.found.end() :][:400].split("_")
    if split or not is_cut(r.name):  # without the end of the name, a missing word says nothing
        words = "K is split over the grid | K is not split over the grid"
        r.put("gkgs" if split else "", "splitk", split, words)
    return r.done("conv", f"igemm {op.replace('_', ' ')} {{tile}} {{dtype_in}}")


@family("miopen", 50, "tile element_bytes op mode", hint=r"^[A-Za-z]")
def _decode_miopen(r: NameParser) -> KernelId | None:
    plain = r.name.partition("(")[0]
    if is_cut(plain):
        return r.done("other", "MIOpen") if plain.startswith("MIOpen") else None
    if found := rx(_TRANSPOSE).match(plain):
        size = BYTES[found["unit"]]
        changes = "changes the layout around a convolution"
        r.put("batched_transpose", "op", "layout_transform", changes)
        r.put("batched_transpose", "lib", "MIOpen", "a MIOpen kernel")
        r.read(found["tile"], "tile")
        r.put(found["unit"], "element_bytes", size, "elements of {} bytes")
        return r.done("copy", f"batched transpose {size * 8}-bit")
    if found := rx(_BATCH_NORM).match(plain):
        text, way, mode, kind = (group or "" for group in (found[0], *found.groups()))
        meaning = f"batch norm, {'forward' if way == 'Fwd' else 'backward'}"
        r.put(text, "op", f"batch_norm_{way.lower()}", meaning)
        r.put(text, "lib", "MIOpen", "a MIOpen kernel")
        modes = ", ".join(MODES[word] for word in (kind, mode) if word)
        r.put(text, "mode", modes, "{}")
        return r.done("normalization", f"batch_norm {way.lower()}")
    role, short, op = row_for("miopen", plain) or ("", "", "")
    if not role and not plain.startswith(("MIOpen", "miopen")):
        return None
    short = short or plain_kernel(plain)
    r.put(plain, "op", op, "the name is literal")
    r.put(plain, "lib", "MIOpen", f"a MIOpen kernel: {short}")
    return r.done(role or role_by_words(plain), "", short)


# AMD's Composable Kernel and CK Tile. The kernel's identifier, mostly mangled, tells the op.


@family(
    "composable_kernel",
    20,
    "op lib kernel mangled",
    hint=r"^(?:_ZN2ck|_ZN7ck_tile|(?:void )?(?:std::\S{1,200} )?ck(?:_tile)?::)",
)
def _decode_ck(r: NameParser) -> KernelId:
    mangled = _cpp.is_mangled(r.name)
    words = _cpp.identifiers(r.name) if mangled else tuple(rx(r"\w+").findall(r.name))
    tile = "ck_tile" in words[:2]
    if tile:
        kernels = (word for word in words[2:] if row_for("ck_tile", word))
    else:
        kernels = (word for word in words if word.startswith("kernel_"))
    kernel = next(kernels, "")
    if mangled:
        r.put("_Z", "mangled", True, certainty="documented")
    lib = "CK Tile" if tile else "Composable Kernel"
    r.put("ck_tile" if tile else "ck", "lib", lib, "AMD's kernel library", "documented")
    return _tile(r, kernel) if tile else _plain(r, kernel)


def _plain(r: NameParser, kernel: str) -> KernelId:
    r.read(kernel, "kernel", "the kernel")
    row = next((row for row in rows("composable_kernel") if rx(row[-1]).search(kernel)), None)
    if not row:
        return r.done(role_by_words(kernel), "", kernel or "CK")
    role, op, short, _ = row
    r.put(kernel, "op", op, "from the kernel's name")
    kind = next((kind for kind in ("xdl", "wmma", "dl") if f"_{kind}" in kernel), "")
    return r.done(role, f"{short} (CK {kind})".replace(" )", ")"))


def _tile(r: NameParser, kernel: str) -> KernelId:
    row = row_for("ck_tile", kernel)
    if not row:
        return r.done("other", "CK Tile")
    role, op, short = row
    r.put(kernel, "op", op, "from the kernel's name")
    problem = next((word for word in _cpp.identifiers(r.name) if word.endswith("Problem")), "")
    r.put(problem, "dtype_in", _cpp.type_after(r.name, problem) if problem else None)
    return r.done(role, f"{short} {{dtype_in}}")


# AMD's AITER (assembly attention, fused norms, MoE), and the paged attention it shares with vLLM.
#
# Names:
#
#     aiter::fmha_(fwd|bwd)_hd<D>_<dtype>[_causal][_a16|_a32][_rtne|_rtz|_rtna]…

PAGED = "vLLM/AITER ROCm paged attention"
_FMHA = (
    r"fmha_(?P<way>fwd|bwd)_(?P<head_dim>hd\d{1,4})(?:_hd\d{1,4})?"
    r"(?:_(?P<dtype>bf16|fp16|f16|fp8))?(?P<rest>(?:_\w+)?)"
)


@family(
    "aiter",
    22,
    "op head_dim dtype_in rounding causal lib mangled",
    hint=r"paged_attention_ll4mi|^(?:void )?aiter::|^_ZN5aiter",
)
def _decode_aiter(r: NameParser) -> KernelId | None:
    if "paged_attention_ll4mi" in r[0]:
        r.put(r.base, "op", "attention", "attention over a paged KV cache, for decoding")
        r.put(r.base, "lib", PAGED, "ROCm's paged attention")
        args, reduce = r.cpp.args, "reduce" in r.base
        kind = next((place for place, text in enumerate(args) if "Fp8KVCacheDataType" in text), 0)
        sizes = [text for text in args[kind:] if _cpp.integer(text) is not None]
        for text in sizes[:1] if reduce else sizes[1:2]:  # the page size comes before it
            r.read(text, "head_dim")
        return r.done("attention", f"paged attention ({'reduce' if reduce else 'decode'})")
    mangled = _cpp.is_mangled(r.name)
    base = _cpp.nth(_cpp.identifiers(r.name), 1) if mangled else r.base
    if mangled:
        r.put("_Z", "mangled", True, certainty="documented")
    r.put("aiter", "lib", "AITER", "AMD's AITER")
    if found := rx(_FMHA).fullmatch(base):
        r.found = found
        way = r["way"]
        words = f"fused attention, {'forward' if way == 'fwd' else 'backward'}"
        r.put(base, "op", f"sdpa_{way}", words)
        r.groups("head_dim")
        dtype = WORDS.get(r["dtype"], r["dtype"])
        r.put(r["dtype"], "dtype_in", dtype, "type of Q, K and V: {}")
        rest = r["rest"].split("_")
        r.read(next((word for word in rest if word in ("rtz", "rtne", "rtna")), ""), "rounding")
        r.read("causal" if "causal" in rest else "", "causal")
        return r.done("attention", f"fmha {way} {{dtype_in}} hd{{head_dim}}")
    plain = plain_kernel(base)
    r.note(base, f"the name is literal: {plain}")
    return r.done(role_by_words(base), "", plain or "aiter")
