"""Triton kernels that people write: the name is the Python function's, unchanged.

Triton 2 appended `_0d1d2c3…`. A plain identifier counts as Triton when it is a known one, begins
with `_`, or ends the way such functions do. That is a habit, not a rule: a plain `extern "C"` CUDA
kernel looks the same. The role comes from the words of the name. The matmul of
triton_kernels for MoE states more:

    _matmul_ogs_<layout>_<out>x<A>x<B>_<M>x<N>x<K>x<split K>[_swiglu]
"""

from __future__ import annotations

from foretrace.names.families import _words
from foretrace.names.families._matmul import TRIPLE, MatmulParser
from foretrace.names.families._parser import joined, row_for, rx, shape, word_set
from foretrace.schema.kernel import Family, KernelId

_OGS = (
    r"_p?(?P<base>matmul_ogs)_(?P<layout>[NT]{3})_(?P<out>[a-z0-9]{1,16}?)x(?P<a>[a-z0-9]{1,16}?)x"
    rf"(?P<b>[a-z0-9]{{1,16}}?)_(?P<tile>{TRIPLE})x(?P<split>\d{{1,5}})(?P<rest>(?:_[a-z0-9]+)*)"
)
# group of the pattern, its text in the name, field, kind, meaning
_OGS_TYPES = """
    out  {}  dtype_out  text  type of the result: {}
    a    {}  dtype_a    text  type of the activation: {}
    b    {}  dtype_b    text  type of the weight: {}
"""
EPILOGUES = ("swiglu", "geglu", "gelu", "relu", "silu")
_HABIT = (
    r"_[A-Za-z]\w*|\w*(?:_kernel|_fwd|_bwd|_forward|_backward|_triton|_fwd_inner)"
    r"(?:_\w{1,24})?|triton_\w+"
)
_SPEC = "0123456789cde"  # how Triton writes what it made a kernel for: 0d1d2de3
ATTENTION = {
    "bwd_kernel_dk_dv": "bwd",
    "bwd_kernel_dq": "bwd",
    "bwd_preprocess": "bwd",
    "attn_fwd": "fwd",
    "bwd_kernel_fuse": "bwd",
    "attn_bwd": "bwd",
}
# role, op, short name, library, function
KNOWN = r"""
    attention       attention  paged attention (2D)  vLLM triton unified attention
        kernel_unified_attention_2d
    attention       attention  paged attention (3D)  vLLM triton unified attention
        kernel_unified_attention_3d
    attention       -  paged attention (sum of segments)  vLLM triton unified attention
        reduce_segments
    sort            user triton  topk fwd (MoE router)  -  _topk_forward
    scatter_gather  user triton  kv indices  -  create_flashinfer_kv_indices_triton
    scatter_gather  user triton  MoE routing  -  _combined_routing_compute
    copy            user triton  MoE routing (memset)  -  _combined_routing_memset
    gemm            -  fused MoE GEMM  -  fused_moe_kernel
    gemm            -  matmul  -  matmul_kernel
"""


def _decode(name: str) -> KernelId | None:
    if len(name) > 400 or not rx(r"[A-Za-z_]\w*").fullmatch(name) or name.startswith("_Z"):
        return None
    ogs = rx(_OGS).fullmatch(name)
    if ogs:
        return _ogs(name, ogs.groupdict())
    plain = _without_spec(name)
    if plain in ATTENTION:
        return _attention(name, plain)
    if known := row_for(KNOWN, plain):
        return _known(name, plain, *known)
    if not rx(_HABIT).fullmatch(plain):
        return None
    r = MatmulParser(name, "user_triton")
    meaning = "looks like a Triton kernel: then the name is the Python function's"
    r.put(plain, "op", "user triton", meaning)
    _spec(r, name, plain)
    return r.done(_words.role(plain), _words.plain(plain))


def _without_spec(name: str) -> str:
    """`matmul_0d1d2de3` -> `matmul`."""
    spec = rx(r"0[dce]").search(name, len(name.rstrip(_SPEC)))
    return name[: spec.start()].removesuffix("_") if spec else name


def _known(name: str, plain: str, role: str, op: str, short: str, lib: str) -> KernelId:
    r = MatmulParser(name, "user_triton")
    r.note(plain, "a Triton kernel, known by its function name")
    r.put(plain, "op", op, f"{short}, from the function's name")
    r.put(plain, "lib", lib, "{} defines a function of this name")
    _spec(r, name, plain)
    return r.done(role, short)


def _attention(name: str, plain: str) -> KernelId:
    way = ATTENTION[plain]
    r = MatmulParser(name, "user_triton")
    r.put(plain, "op", f"sdpa_{way}", f"attention, {'forward' if way == 'fwd' else 'backward'}")
    r.put(plain, "lib", "AOTriton / Triton flash attention", "what PyTorch's SDPA launches on ROCm")
    return r.done("attention", f"attn {way}")


def _spec(r: MatmulParser, name: str, plain: str) -> None:
    if plain != name:
        spec = name[len(plain) :].lstrip("_")
        meaning = "Triton 2's argument list: d = divisible by 16, c = equal to 1"
        r.put(spec, "arg_spec", spec, meaning, "documented")


def _ogs(name: str, found: dict[str, str]) -> KernelId:
    r = MatmulParser(name, "user_triton")
    r.put(found["base"], "op", "gemm", "a matmul, grouped by expert (MoE)")
    r.put(found["base"], "lib", "triton_kernels matmul_ogs", "triton_kernels")
    r.put(found["layout"], "layout", found["layout"], "layouts of the operands")
    r.put_groups(found, _OGS_TYPES)
    r.put_row_tile(found["tile"], shape(found["tile"]))
    r.put_groups(found, "split  {}  split_k  number  K in {} pieces")
    rest = [word for word in found["rest"].split("_") if word in EPILOGUES]
    if rest:
        r.put(rest[0], "epilogue", rest, "applied at the end")
    return r.done("gemm", joined("matmul_ogs", found["tile"], *rest))


FAMILY = Family("user_triton", _decode, 90, word_set("tile split_k dtype_b epilogue op arg_spec"))
