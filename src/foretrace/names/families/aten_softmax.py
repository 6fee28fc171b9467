"""ATen's softmax: a warp per row up to 1024 elements, a block per row above.

Names:

    softmax_warp_(forward|backward)<Tin, Tout, acc, log2_elements, is_log_softmax, is_masked>
    cunn_SoftMax(Forward|Backward)[Smem|Reg|…]<[vector width,] Tin, acc, Tout, Epilogue, …>
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_OPS = {
    (False, False): "aten::_softmax",
    (True, False): "aten::_log_softmax",
    (False, True): "aten::_softmax_backward_data",
    (True, True): "aten::_log_softmax_backward_data",
}
_BLOCK = r"cunn_(Spatial)?SoftMax(Forward|Backward)\w*"


def _decode(name: str) -> KernelId | None:
    if "oftmax" not in name[:160] and "SoftMax" not in name[:160]:
        return None
    cpp = _cpp.parse(name)
    if found := rx(r"softmax_warp_(forward|backward)").fullmatch(cpp.base):
        return _warp(name, cpp, found[1] == "backward")
    if found := rx(_BLOCK).fullmatch(cpp.base):
        return _block(name, cpp, found[2] == "Backward", bool(found[1]))
    return None


def _warp(name: str, cpp: _cpp.Cpp, backward: bool) -> KernelId:
    r = NameParser(name, "aten_softmax", "documented")
    r.put(cpp.base, "template", cpp.base, "softmax with one warp per row, up to 1024 elements")
    _types(r, cpp.args, "dtype_in", "dtype_out", "dtype_acc")
    size = _cpp.integer(cpp.arg(3))
    if size is not None and size < 64:
        r.put(cpp.arg(3), "log2_elements", size, f"rows of up to {2**size} elements", "checked")
    log = _cpp.boolean(cpp.arg(4))
    r.put(cpp.arg(4), "log_softmax", log, "log_softmax" if log else "softmax", "checked")
    masked = _cpp.boolean(cpp.arg(5))
    r.put(cpp.arg(5), "masked", masked, "with a mask" if masked else "without a mask")
    return _done(r, cpp, log, backward, "warp")


def _block(name: str, cpp: _cpp.Cpp, backward: bool, spatial: bool) -> KernelId:
    r = NameParser(name, "aten_softmax", "documented")
    r.put(cpp.base, "template", cpp.base, "softmax with one block per row")
    vec = _cpp.integer(cpp.arg(0))
    r.put(cpp.arg(0), "vec", vec, "{} elements per load")
    shift = 0 if vec is None else 1
    _types(r, cpp.args[shift:], "dtype_in", "dtype_acc", "dtype_out")
    leaves = (_cpp.leaf(text) for text in cpp.args)
    epilogue = next((leaf for leaf in leaves if leaf.endswith("Epilogue")), "")
    log = None
    if epilogue:
        log = epilogue.startswith("Log")
        r.put(epilogue, "epilogue", epilogue, "log_softmax" if log else "softmax")
    return _done(r, cpp, log, backward, "spatial" if spatial else "block")


def _types(r: NameParser, args: tuple[str, ...], *fields: str) -> None:
    meanings = {"dtype_in": "reads {}", "dtype_out": "writes {}", "dtype_acc": "sums in {}"}
    for text, field in zip(args, fields, strict=False):
        r.put(text, field, _cpp.dtype(text), meanings[field])


def _done(r: NameParser, cpp: _cpp.Cpp, log: bool | None, backward: bool, way: str) -> KernelId:
    if log is not None:
        r.put(cpp.base, "op", _OPS[log, backward], "the op that launches it", "checked")
    word = f"{'log_' if log else ''}softmax {'bwd' if backward else 'fwd'}"
    return r.done("softmax", joined(word, r.get("dtype_in"), f"({way})"))


FAMILY = Family(
    "aten_softmax", _decode, 40, word_set("op dtype_in log2_elements log_softmax masked vec")
)
