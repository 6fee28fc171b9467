"""ATen's softmax: a warp per row up to 1024 elements, a block per row above.

Names:

    softmax_warp_(forward|backward)<Tin, Tout, acc, log2_elements, is_log_softmax, is_masked>
    cunn_SoftMax(Forward|Backward)[Smem|Reg|…]<[vector width,] Tin, acc, Tout, Epilogue, …>
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.schema.kernel import KernelId

_OPS = {
    (False, False): "aten::_softmax",
    (True, False): "aten::_log_softmax",
    (False, True): "aten::_softmax_backward_data",
    (True, True): "aten::_log_softmax_backward_data",
}
_NAME = r"softmax_warp_(forward|backward)|cunn_(Spatial)?SoftMax(Forward|Backward)\w*"


def _decode(r: NameParser) -> KernelId:
    warp = bool(r[1])
    words = "warp per row, up to 1024 elements" if warp else "block per row"
    r.put(r.base, "template", r.base, f"softmax with one {words}")
    log = (_warp if warp else _block)(r)
    backward = "ackward" in r.base
    if log is not None:
        r.put(r.base, "op", _OPS[log, backward], certainty="checked")
    word = f"{'log_' if log else ''}softmax {'bwd' if backward else 'fwd'}"
    way = "warp" if warp else "spatial" if r[2] else "block"
    return r.done("softmax", f"{word} {{dtype_in}} ({way})")


def _warp(r: NameParser) -> bool | None:
    _types(r, r.cpp.args, "dtype_in dtype_out dtype_acc")
    size = _cpp.integer(r.arg(3))
    if size is not None and size < 64:
        r.put(r.arg(3), "log2_elements", size, f"rows of up to {2**size} elements", "checked")
    log = _cpp.boolean(r.arg(4))
    r.put(r.arg(4), "log_softmax", log, certainty="checked")
    r.put(r.arg(5), "masked", _cpp.boolean(r.arg(5)))
    return log


def _block(r: NameParser) -> bool | None:
    vec = r.read(r.arg(0), "vec")
    _types(r, r.cpp.args if vec == "" else r.cpp.args[1:], "dtype_in dtype_acc dtype_out")
    leaves = (_cpp.leaf(text) for text in r.cpp.args)
    epilogue = next((leaf for leaf in leaves if leaf.endswith("Epilogue")), "")
    log = epilogue.startswith("Log")
    r.put(epilogue, "epilogue", epilogue, "log_softmax" if log else "softmax")
    return log if epilogue else None


def _types(r: NameParser, args: tuple[str, ...], fields: str) -> None:
    meanings = {"dtype_in": "reads {}", "dtype_out": "writes {}", "dtype_acc": "sums in {}"}
    for text, field in zip(args, fields.split(), strict=False):
        r.read(text, field, meanings[field])


_STATES = "op dtype_in log2_elements log_softmax masked vec"
FAMILY = family(
    "aten_softmax", _decode, 40, _STATES, "documented", hint="oftmax|SoftMax", base=_NAME
)
