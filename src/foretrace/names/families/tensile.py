"""Tensile: the matmuls of rocBLAS and hipBLASLt.

    C<ijk>_A<idx>_B<idx>_<types>_<flags>[_Bias][_HA_S][_SAV][_UserArgs]_MT<M>x<N>x<K>
        _MI<m>x<n>[x<k>]x<b>_SN_<parameters>

`Alik` has the summation index first, so A is transposed (t); `Bljk` is not (n): `Alik_Bljk` is tn,
what F.linear runs. Types: S f32, D f64, H f16, B bf16, I i32, I8, X xf32, F8 and B8 the two fp8
kinds, C and Z complex; `BBS` is input, output, arithmetic (newer builds write `B_BS`). Bias,
activation and scaling are what the kernel can do, not proof of it.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, rows, shape
from foretrace.names.families._tables import TRIPLE, arch_meaning, by_spelling, is_cut, rx, uncut

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


def _decode(r: NameParser) -> KernelId:
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
    _abilities(r, problem[types.end() :].strip("_").split("_"))


def _abilities(r: NameParser, words: list[str]) -> None:
    for field, meaning, pattern in rows("tensile_abilities"):
        text = next((word for word in words if rx(pattern).fullmatch(word)), "")
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


_STATES = """
    layout tile dtype_in dtype_compute bias arch stream_k workgroup mfma dtype_out global_split_u
"""
FAMILY = family("rocm_tensile", _decode, 10, _STATES, "documented", hint="^(?:Custom_)?Cij")
