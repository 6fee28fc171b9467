"""ATen's random numbers: fills (`normal_`, `uniform_`, …) and dropout."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, rx

OPS = {
    "random_from_to": "random",
    "random_full_64_bits_range": "random",
    "bernoulli_tensor": "bernoulli",
}


def _decode(r: NameParser) -> KernelId | None:
    if not r.cpp.scope.startswith("at::native"):
        return None
    if r.base.startswith("distribution_elementwise_grid_stride_kernel"):
        return _distribution(r)
    if r.base.startswith("fused_dropout_kernel"):
        _put_op(r, "aten::native_dropout")
        r.read(r.arg(0), "dtype", certainty="documented")
        if r.base.endswith("_vec"):
            r.read(r.arg(4), "vec", certainty="inferred")
        return r.done("random", "dropout {dtype}")
    row = r.row("aten_random")
    if not row:
        return None
    op, short = row
    _put_op(r, op)
    return r.done("random", short)


def _put_op(r: NameParser, op: str) -> None:
    r.put(r.base, "template", r.base, "ATen's kernel for random numbers", "documented")
    r.put(r.base, "op", op)


def _distribution(r: NameParser) -> KernelId:
    transform = rx(r"(?<!\w)(\w+)_and_transform<").search(r.name)
    inner = rx(r"(?<!\w)(\w+?)(?:_cuda)?_kernel<at::CUDAGeneratorImpl").search(r.name)
    word = inner[1] if inner else transform[1] if transform else ""
    word = OPS.get(word, word)
    _put_op(r, f"aten::{word}_" if word else "")
    if transform:
        r.put(transform[1], "distribution", transform[1], "the distribution drawn from")
    types = _cpp.inside(r.name, f"{transform[1]}_and_transform") if transform else ()
    r.read(_cpp.nth(types, 0), "dtype", "writes {}")
    return r.done("random", f"{word}_ {{dtype}}" if word else "random fill")


_HINT = "distribution_|dropout_kernel|andperm|ultinomial|renormRows"
FAMILY = family("aten_random", _decode, 40, "op distribution dtype vec", "checked", hint=_HINT)
