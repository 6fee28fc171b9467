"""CUTLASS 3 kernels: names that the generator prints, and names spelt out as C++ templates.

    cutlass3x_sm<arch>_<opclass>_[<acc><MxNxK>][<math>]gemm_<A>_<B>_<acc>_<C>_<D>_<M>x<N>x<K>
        [_<cluster>]_<stages>_<layout of A, B, C>_align<E>[_<schedule>][_<epilogue words>]

A block-scaled type has the type of its scales in front: `ue8m0xe4m3`.

Stages `0` mean chosen automatically. On sm100 the tile of a two-SM kernel spans two thread blocks.
Words such as `bias_bf16_relu` at the end are what cuBLAS kernels can do, not proof that it was
done.
"""

from __future__ import annotations

import re

from foretrace.names.families import _cpp
from foretrace.names.families._matmul import TRIPLE, WORDS, MatmulParser, times
from foretrace.names.families._parser import joined, rx, shape, uncut, word_set
from foretrace.schema.kernel import Family, KernelId

ENTRY = "cutlass::device_kernel"
CLASSES = {
    "simt": "plain CUDA cores",
    "tensorop": "tensor cores",
    "sptensorop": "tensor cores, sparse",
    "bstensorop": "tensor cores, block-scaled",
    "bssptensorop": "tensor cores, block-scaled and sparse",
}
BLOCK_SCALES = {
    "ue8m0": "one scale per block of elements, a power of two (microscaling formats)",
    "ue4m3": "one scale per block of elements, of type e4m3 without a sign (NVFP4)",
}
SCHEDULES = (
    r"warpspecialized(?:_pingpong|_cooperative)?(?:_fp8_fastaccum)?|epi_tma|epi_nosmem|stream_k"
    r"|cpasync|[12]sm|q|o_vs\d{1,3}"
)
_HEAD = (
    r"cutlass3x_(?P<arch>sm\d{2,3}[a-z]?)_(?P<opclass>(?:bs)?(?:sp)?tensorop|simt)_(?P<core>"
    rf"(?P<acc>g?[cz]|[shdi])?(?P<mma>{TRIPLE}|\d{{2,6}})?(?P<math>bf16|f16|tf32)?gemm)"
    r"(?:_block_scaled)?"
)
_TYPES = r"_(?P<a>[a-z0-9]+)_(?P<b>[a-z0-9]+)_(?P<acc>[a-z0-9]+)_(?P<c>[a-z0-9]+)_(?P<d>[a-z0-9]+)"
_SHAPES = (
    rf"_(?P<tile>{TRIPLE})(?:_(?P<cluster>{TRIPLE}))?(?:_(?P<stages>\d{{1,3}}))?"
    r"(?:_(?P<layout>[nth]{2,3}))?"
    r"(?:_align(?P<align>\d{1,3}))?(?=_|$|[>(])"
)
_GENERIC = r"(?:void )?cutlass::device_kernel<"
_SIZE = r"(?:cute::)?C<(?:\(int\))?(\d{1,5})>"
_TUPLE = rf"cute::tuple<{_SIZE}, ?{_SIZE}, ?{_SIZE} ?>"


def _decode(name: str) -> KernelId | None:
    at = name.find("cutlass3x_", 0, 120)
    head = rx(_HEAD).match(uncut(name), at) if at >= 0 else None
    if head:
        return _named(name, head)
    return _generic(name) if rx(_GENERIC).match(name) and "GemmUniversal" in name else None


def _named(name: str, head: re.Match[str]) -> KernelId:
    r = MatmulParser(name, "cutlass3x", "documented")
    found, whole = head.groupdict(), head.string
    if name.startswith("void cutlass::device_kernel<"):
        r.put(ENTRY, "wrapper", ENTRY, "CUTLASS 3's common entry")
    r.note("cutlass3x", "CUTLASS 3, as its generator writes names")
    r.put_arch(found["arch"], found["arch"])
    r.put(found["opclass"], "opclass", found["opclass"], CLASSES[found["opclass"]])
    r.put_tensor_core(found["opclass"], found["opclass"] != "simt")
    r.put(found["core"], "op", "gemm", "a matmul")
    if found["mma"] and "x" in found["mma"]:
        r.put(found["core"], "mma", shape(found["mma"]), "shape of one matrix instruction")
    r.put(found["core"], "math_dtype", found["math"], "inputs are rounded to {}")
    shapes = rx(_SHAPES).match(whole, _types(r, whole, head.end()))
    if shapes:
        _shapes(r, shapes.groupdict())
        tail = rx(r"[A-Za-z0-9_]*").match(whole, shapes.end())
        _tail(r, tail[0].strip("_") if tail else "", cut=whole != name)
    words = (r.get("arch"), times(r.get("tile")), r.get("layout"), r.get("dtype_a"))
    return r.done("gemm", joined("cutlass3", *words))


def _types(r: MatmulParser, whole: str, end: int) -> int:
    types = rx(_TYPES).match(whole, end)
    if types:
        listed = types[0].strip("_")  # one piece: a type that is repeated has no place of its own
        for key, field, meaning in (
            ("a", "dtype_a", "type of A (the weight)"),
            ("b", "dtype_b", "type of B (the activation)"),
            ("acc", "dtype_acc", "sums are kept in"),
            ("c", "dtype_c", "type of the matrix added in"),
            ("d", "dtype_out", "type of the result"),
        ):
            scale, _, text = types[key].rpartition("x")
            value = WORDS.get(text, text)
            r.put(listed, field, value, f"{meaning}: {'none' if value == 'void' else value}")
            r.put(listed, f"scale_{key}", scale, BLOCK_SCALES.get(scale, "block scales in {}"))
    return types.end() if types else end


def _shapes(r: MatmulParser, found: dict[str, str]) -> None:
    r.put_tile(found["tile"], shape(found["tile"]))
    r.put_groups(found, "cluster  {}  cluster  shape  thread blocks that share data")
    if found["stages"] == "0":
        r.put("0", "stages", "auto", "pipeline stages, chosen automatically")
    else:
        r.put_groups(found, "stages  {}  stages  number  {} pipeline stages")
    if found["layout"]:
        r.put_layout(found["layout"], found["layout"])
    r.put_groups(found, "align  align{}  align_elems  number  loads up to {} elements at once")


def _tail(r: MatmulParser, tail: str, cut: bool) -> None:
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


def _generic(name: str) -> KernelId:
    r = MatmulParser(name, "cutlass3x", "documented")
    r.put(ENTRY, "wrapper", ENTRY, "CUTLASS 3's common entry")
    r.put("GemmUniversal", "op", "gemm", "a matmul")
    loop = rx(r"MainloopSm(\d{2,3})\w{0,80}<").search(name)
    if loop:
        r.put_arch(f"Sm{loop[1]}", f"sm{loop[1]}", "inferred")
        stages = _cpp.integer(_cpp.split(name[loop.end() : loop.end() + 40])[0])
        if stages:
            r.put(str(stages), "stages", stages, "{} pipeline stages", "inferred")
        _tuples(r, name, loop.end())
    words = (r.get("arch"), times(r.get("tile")), r.get("dtype_a"))
    return r.done("gemm", joined("cutlass GEMM", *words))


def _tuples(r: MatmulParser, name: str, start: int) -> None:
    tuples = list(rx(_TUPLE).finditer(name, start, start + 2000))[:2]
    if len(tuples) < 2:
        return
    cluster, tile = ([int(number) for number in found.groups()] for found in tuples)
    r.put(tuples[0][0], "cluster", cluster, "thread blocks that share data", "inferred")
    r.put_tile(tuples[1][0], tile, "inferred")
    after = name[tuples[1].end() :].lstrip(" ,>").partition(",")[0].strip()
    _cpp.put_dtype(r, after, "dtype_a", "type of A: {}", "inferred")


_STATES = """
    arch tile cluster stages dtype_a dtype_c schedule layout tensor_core tokens epilogue dtype_bias
    scale_a
"""
FAMILY = Family("cutlass3x", _decode, 19, word_set(_STATES))
