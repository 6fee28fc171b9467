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
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_CUDA = r"causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel"
_TRITON = r"_causal_conv1d_(?P<last>channellast_)?(?P<way>fwd|bwd|update)_kernel\w{0,40}"
WAYS = {
    "fwd": ("causal_conv1d_fwd", "causal convolution along the sequence, forward"),
    "bwd": ("causal_conv1d_bwd", "causal convolution along the sequence, backward"),
    "update": ("causal_conv1d_update", "causal convolution, one step of decoding"),
}


def _decode(name: str) -> KernelId | None:
    if "causal_conv1d" not in name[:80]:
        return None
    cpp = _cpp.parse(name)
    found = rx(_CUDA if cpp.args or cpp.params else _TRITON).fullmatch(cpp.base)
    if not found or (cpp.args and not cpp.arg(0).startswith("Causal_conv1d")):
        return None
    r = NameParser(name, "causal_conv1d", "documented")
    op, meaning = WAYS[found["way"]]
    r.put(cpp.base, "op", op, meaning)
    r.put(cpp.base, "lib", "causal-conv1d", "causal-conv1d, or a copy of it")
    if cpp.args:
        words = "channels are the last dimension" if found["last"] else "channels come before time"
        r.put(cpp.base, "channels_last", bool(found["last"]), words)
        _traits(r, _cpp.inside(cpp.arg(0), _cpp.leaf(cpp.arg(0))), found["way"])
    width = f"width {r.get('width')}" if r.get("width") else ""
    return r.done("conv", joined("causal conv1d", found["way"], r.get("dtype_in"), width))


def _traits(r: NameParser, args: tuple[str, ...], way: str) -> None:
    r.put(_cpp.nth(args, 0), "threads", _cpp.integer(_cpp.nth(args, 0)), "{} threads per block")
    r.put(_cpp.nth(args, 1), "width", _cpp.integer(_cpp.nth(args, 1)), "a filter of {} steps")
    flags = [text for text in args if _cpp.boolean(text) is not None]
    types = [text for text in args[2:] if _cpp.dtype(text)]
    if len(flags) == 2 and way == "bwd":
        silu = _cpp.boolean(flags[0])
        words = "gradient of SiLU too" if silu else "no SiLU"
        r.put(flags[0], "silu", silu, words)
    if len(types) == 2:
        _cpp.put_dtype(r, types[0], "dtype_in", "type of the input: {}")
        _cpp.put_dtype(r, types[1], "dtype_weight", "type of the filter: {}")


_STATES = "op lib channels_last threads width silu dtype_in dtype_weight"
FAMILY = Family("causal_conv1d", _decode, 38, word_set(_STATES))
