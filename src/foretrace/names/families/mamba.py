"""Mamba's state-space kernels: the selective scan of Mamba 1 and the chunked scan of Mamba 2.

    selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<threads, items, rows, even_len,
        variable_b, variable_c, has_z, [varlen,] T, T of the weight[, T of the state]>>
    selective_scan_bwd_kernel<Selective_Scan_bwd_kernel_traits<threads, items, even_len,
        variable_b, variable_c, delta_softplus, has_z, T, T of the weight>>
    _selective_scan_update_kernel, _chunk_scan_fwd_kernel, _chunk_state_bwd_dx_kernel,
    _state_passing_fwd_kernel, _bmm_chunk_fwd_kernel, …

The Triton names are the functions of mamba_ssm, which vLLM and SGLang copied. `items` steps per
thread and `threads` make the chunk that one block scans at a time.

causal-conv1d: the short convolution along the sequence in Mamba and its kin; CUDA and Triton.

    causal_conv1d_[channellast_]<fwd|bwd>_kernel<Causal_conv1d_…_kernel_traits<threads, width,
        [chunk,] [silu,] vec_load, T, T of the weight>, …>
    causal_conv1d_update_kernel<Causal_conv1d_update_kernel_traits<threads, width, T, T of the
        weight>, …>
    _causal_conv1d_<fwd|update>_kernel[_npu_tiled]

`update` is one step of decoding. The width is that of the filter.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx


def _scan(r: NameParser) -> KernelId | None:
    if row := row_for("mamba", rx(r"_\d{1,3}$").sub("", r.name[:80])):
        role, op, short = row
        r.put(r.name, "op", op, f"a step of Mamba's chunked scan: {short}")
        r.put(r.name, "lib", "mamba_ssm", "mamba_ssm defines a Triton function of this name")
        r.put(r.name, "function", r.name.strip("_").removesuffix("_kernel"), "the Triton function")
        return r.done(role, short)
    found = rx(r"selective_scan_(fwd|bwd)_kernel").fullmatch(r.base)
    if not found or not r.arg(0).startswith("Selective_Scan"):
        return None
    way = found[1]
    words = f"Mamba's selective scan, {'forward' if way == 'fwd' else 'backward'}"
    r.put(r.base, "op", f"selective_scan_{way}", words)
    r.put(r.base, "lib", "mamba_ssm", "mamba_ssm, or a copy of it")
    args = _cpp.inside(r.arg(0), _cpp.leaf(r.arg(0)))
    r.read_all(args, "threads items")
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if types or not r.cpp.truncated:  # all flags stand in front of the types
        r.flags(args, f"selective_scan_{way}")
    r.read_all(types, "dtype_in dtype_weight dtype_state")
    gated = "gated" if r.get("has_z") else ""
    return r.done("scan", f"selective scan {way} {{dtype_in}}", gated)


_CUDA = r"causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel"
_TRITON = rf"_{_CUDA}\w{{0,40}}"
WAYS = {
    "fwd": "causal convolution along the sequence, forward",
    "bwd": "causal convolution along the sequence, backward",
    "update": "causal convolution, one step of decoding",
}


def _conv1d(r: NameParser) -> KernelId | None:
    args, way = r.cpp.args, rx(_CUDA if r.cpp.args or r.cpp.params else _TRITON)
    r.found = way.fullmatch(r.base)
    if not r.found or (args and not args[0].startswith("Causal_conv1d")):
        return None
    r.put(r.base, "op", f"causal_conv1d_{r['way']}", WAYS[r["way"]])
    r.put(r.base, "lib", "causal-conv1d", "causal-conv1d, or a copy of it")
    if args:
        words = "channels are the last dimension | channels come before time"
        r.put(r.base, "channels_last", bool(r["last"]), words)
        _conv1d_traits(r, _cpp.inside(args[0], _cpp.leaf(args[0])))
    width = f"width {r.get('width')}" if r.get("width") else ""
    return r.done("conv", f"causal conv1d {r['way']} {{dtype_in}}", width)


def _conv1d_traits(r: NameParser, args: tuple[str, ...]) -> None:
    r.read_all(args, "threads width")
    flags = [text for text in args if _cpp.boolean(text) is not None]
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if len(flags) == 2 and r["way"] == "bwd":
        r.read(flags[0], "silu")
    if len(types) == 2:
        r.read_all(types, "dtype_in dtype_weight")


_STATES = """
    op lib function threads items dtype_in dtype_weight dtype_state even_len variable_b variable_c
    has_z varlen delta_softplus
"""
_CONV1D = "op lib channels_last threads width silu dtype_in dtype_weight"
_HINT = "selective_scan_|_kernel"
FAMILIES = (
    family("causal_conv1d", _conv1d, 38, _CONV1D, "documented", hint="causal_conv1d"),
    family("selective_scan", _scan, 38, _STATES, "documented", hint=_HINT),
)
