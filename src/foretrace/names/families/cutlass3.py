"""CUTLASS 3 kernels: names that the generator prints, and names spelt out as C++ templates.

    cutlass3x_sm<arch>_<opclass>_[<acc><MxNxK>][<math>]gemm_<A>_<B>_<acc>_<C>_<D>_<M>x<N>x<K>
        [_<cluster>]_<stages>_<layout of A, B, C>_align<E>[_<schedule>][_<epilogue words>]

A block-scaled type has the type of its scales in front: `ue8m0xe4m3`.

Stages `0` mean chosen automatically. On sm100 the tile of a two-SM kernel spans two thread blocks.
Words such as `bias_bf16_relu` at the end are what cuBLAS kernels can do, not proof that it was
done.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, shape
from foretrace.names.families._tables import TRIPLE, WORDS, rx, uncut

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
_HEAD = (
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


def _decode(r: NameParser) -> KernelId | None:
    at = r.name.find("cutlass3x_", 0, 120)
    r.found = rx(_HEAD).match(uncut(r.name), at) if at >= 0 else None
    if r.name.startswith(("void cutlass::device_kernel<", "cutlass::device_kernel<")):
        r.put(ENTRY, "wrapper", ENTRY, "CUTLASS 3's common entry")
        if not r.found:
            return _generic(r) if "GemmUniversal" in r.name else None
    return _named(r) if r.found else None


def _named(r: NameParser) -> KernelId:
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
        _tail(r, tail[0].strip("_") if tail else "", cut=whole != r.name)
    return r.done("gemm", "cutlass3 {arch} {tile} {layout} {dtype_a}")


def _tail(r: NameParser, tail: str, cut: bool) -> None:
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


_STATES = """
    arch tile cluster stages dtype_a dtype_c schedule layout tensor_core tokens epilogue dtype_bias
    scale_a
"""
FAMILY = family(
    "cutlass3x", _decode, 19, _STATES, "documented", hint="cutlass3x_|cutlass::device_kernel<"
)
