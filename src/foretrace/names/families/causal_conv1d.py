"""causal-conv1d: the short convolution along the sequence in Mamba and its kin; CUDA and Triton.

    causal_conv1d_[channellast_]<fwd|bwd>_kernel<Causal_conv1d_…_kernel_traits<threads, width,
        [chunk,] [silu,] vec_load, T, T of the weight>, …>
    causal_conv1d_update_kernel<Causal_conv1d_update_kernel_traits<threads, width, T, T of the
        weight>, …>
    _causal_conv1d_<fwd|update>_kernel[_npu_tiled]

`update` is one step of decoding. The width is that of the filter.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import rx
from foretrace.schema.kernel import KernelId

_CUDA = r"causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel"
_TRITON = rf"_{_CUDA}\w{{0,40}}"
WAYS = {
    "fwd": "causal convolution along the sequence, forward",
    "bwd": "causal convolution along the sequence, backward",
    "update": "causal convolution, one step of decoding",
}


def _decode(r: NameParser) -> KernelId | None:
    args, way = r.cpp.args, rx(_CUDA if r.cpp.args or r.cpp.params else _TRITON)
    r.found = way.fullmatch(r.base)
    if not r.found or (args and not args[0].startswith("Causal_conv1d")):
        return None
    r.put(r.base, "op", f"causal_conv1d_{r['way']}", WAYS[r["way"]])
    r.put(r.base, "lib", "causal-conv1d", "causal-conv1d, or a copy of it")
    if args:
        words = "channels are the last dimension | channels come before time"
        r.put(r.base, "channels_last", bool(r["last"]), words)
        _traits(r, _cpp.inside(args[0], _cpp.leaf(args[0])))
    width = f"width {r.get('width')}" if r.get("width") else ""
    return r.done("conv", f"causal conv1d {r['way']} {{dtype_in}}", width)


def _traits(r: NameParser, args: tuple[str, ...]) -> None:
    r.read_all(args, "threads width")
    flags = [text for text in args if _cpp.boolean(text) is not None]
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if len(flags) == 2 and r["way"] == "bwd":
        r.read(flags[0], "silu")
    if len(types) == 2:
        r.read_all(types, "dtype_in dtype_weight")


_STATES = "op lib channels_last threads width silu dtype_in dtype_weight"
FAMILY = family("causal_conv1d", _decode, 38, _STATES, "documented", hint="causal_conv1d")
