"""Triton kernels that people write: the name is the Python function's, unchanged.

Triton 2 appended `_0d1d2c3…`. A plain identifier counts as Triton when it is a known one, begins
with `_`, or ends the way such functions do. That is a habit, not a rule: a plain `extern "C"` CUDA
kernel looks the same. The role comes from the words of the name. The matmul of
triton_kernels for MoE states more:

    _matmul_ogs_<layout>_<out>x<A>x<B>_<M>x<N>x<K>x<split K>[_swiglu]
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._parser import TRIPLE, KernelId, NameParser, family, row_for, rx

_OGS = (
    r"_p?(?P<base>matmul_ogs)_(?P<layout>[NT]{3})_(?P<out>[a-z0-9]{1,16}?)x(?P<a>[a-z0-9]{1,16}?)x"
    rf"(?P<b>[a-z0-9]{{1,16}}?)_(?P<tile>{TRIPLE})x(?P<split_k>\d{{1,5}})(?P<rest>(?:_[a-z0-9]+)*)"
)
EPILOGUES = ("swiglu", "geglu", "gelu", "relu", "silu")
_HABIT = (
    r"_[A-Za-z]\w*|\w*(?:_kernel|_fwd|_bwd|_forward|_backward|_triton|_fwd_inner)"
    r"(?:_\w{1,24})?|triton_\w+"
)
_SPEC = "0123456789cde"  # how Triton writes what it made a kernel for: 0d1d2de3


def _decode(r: NameParser) -> KernelId | None:
    if len(r.name) > 400 or r.name.startswith("_Z"):
        return None
    if found := rx(_OGS).fullmatch(r.name):
        r.found = found
        return _ogs(r)
    plain = _without_spec(r.name)
    if way := row_for("user_triton_attention", plain):
        return _attention(r, plain, *way)
    if known := row_for("user_triton", plain):
        return _known(r, plain, *known)
    if not rx(_HABIT).fullmatch(plain):
        return None
    meaning = "looks like a Triton kernel: then the name is the Python function's"
    r.put(plain, "op", "user triton", meaning)
    _spec(r, plain)
    return r.done(_words.role(plain), "", _words.plain(plain))


def _without_spec(name: str) -> str:
    """`matmul_0d1d2de3` -> `matmul`."""
    spec = rx(r"0[dce]").search(name, len(name.rstrip(_SPEC)))
    return name[: spec.start()].removesuffix("_") if spec else name


def _known(r: NameParser, plain: str, role: str, op: str, short: str, lib: str) -> KernelId:
    r.note(plain, "a Triton kernel, known by its function name")
    r.put(plain, "op", op, f"{short}, from the function's name")
    r.put(plain, "lib", lib, "{} defines a function of this name")
    _spec(r, plain)
    return r.done(role, short)


def _attention(r: NameParser, plain: str, way: str) -> KernelId:
    r.put(plain, "op", f"sdpa_{way}", f"attention, {'forward' if way == 'fwd' else 'backward'}")
    r.put(plain, "lib", "AOTriton / Triton flash attention", "what PyTorch's SDPA launches on ROCm")
    return r.done("attention", f"attn {way}")


def _spec(r: NameParser, plain: str) -> None:
    spec = r.name[len(plain) :].lstrip("_")
    meaning = "Triton 2's argument list: d = divisible by 16, c = equal to 1"
    r.put(spec, "arg_spec", spec, meaning, "documented")


def _ogs(r: NameParser) -> KernelId:
    r.put(r["base"], "op", "gemm", "a matmul, grouped by expert (MoE)")
    r.put(r["base"], "lib", "triton_kernels matmul_ogs", "triton_kernels")
    r.put(r["layout"], "layout", r["layout"], "layouts of the operands")
    r.put(r["out"], "dtype_out", r["out"])
    r.put(r["a"], "dtype_a", r["a"], "type of the activation: {}")
    r.put(r["b"], "dtype_b", r["b"], "type of the weight: {}")
    r.put_tile(r["tile"], row_major=True)
    r.groups("split_k")
    rest = [word for word in r["rest"].split("_") if word in EPILOGUES]
    if rest:
        r.put(rest[0], "epilogue", rest, "applied at the end")
    return r.done("gemm", "matmul_ogs {tile} {epilogue}")


_STATES = "tile split_k dtype_b epilogue op arg_spec"
FAMILY = family("user_triton", _decode, 90, _STATES, hint=r"^[A-Za-z_]\w*")
