"""ATen's random numbers: fills (`normal_`, `uniform_`, …) and dropout."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

FAMILY_NAME = "aten_random"
OPS = {
    "random_from_to": "random",
    "random_full_64_bits_range": "random",
    "bernoulli_tensor": "bernoulli",
}
OTHERS = {
    "randperm_handle_duplicate_keys_kernel": ("aten::randperm", "randperm"),
    "sampleMultinomialOnce": ("aten::multinomial", "multinomial"),
    "sampleMultinomialWithReplacement": ("aten::multinomial", "multinomial"),
    "renormRowsL1": ("aten::multinomial", "multinomial (normalise)"),
}


def _decode(name: str) -> KernelId | None:
    if not rx(r"distribution_|dropout_kernel|andperm|ultinomial|renormRows").search(name[:160]):
        return None
    cpp = _cpp.parse(name)
    if not cpp.scope.startswith("at::native"):
        return None
    if cpp.base.startswith("distribution_elementwise_grid_stride_kernel"):
        return _distribution(name, cpp)
    if cpp.base.startswith("fused_dropout_kernel"):
        return _dropout(name, cpp)
    if cpp.base in OTHERS:
        op, short = OTHERS[cpp.base]
        return _start(name, cpp, op).done("random", short)
    return None


def _start(name: str, cpp: _cpp.Cpp, op: str) -> NameParser:
    r = NameParser(name, FAMILY_NAME, "checked")
    r.put(cpp.base, "template", cpp.base, "ATen's kernel for random numbers", "documented")
    r.put(cpp.base, "op", op, "the op that launches it")
    return r


def _distribution(name: str, cpp: _cpp.Cpp) -> KernelId:
    transform = rx(r"(?<!\w)(\w+)_and_transform<").search(name)
    inner = rx(r"(?<!\w)(\w+?)(?:_cuda)?_kernel<at::CUDAGeneratorImpl").search(name)
    word = inner[1] if inner else transform[1] if transform else ""
    word = OPS.get(word, word)
    r = _start(name, cpp, f"aten::{word}_" if word else "")
    types = _cpp.inside(name, f"{transform[1]}_and_transform") if transform else ()
    if transform:
        r.put(transform[1], "distribution", transform[1], "the distribution drawn from")
    dtype = _cpp.put_dtype(r, _cpp.nth(types, 0), "dtype", "writes {}")
    return r.done("random", f"{word}_ {dtype or ''}".strip() if word else "random fill")


def _dropout(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = _start(name, cpp, "aten::native_dropout")
    dtype = _cpp.put_dtype(r, cpp.arg(0), "dtype", "works on {}", "documented")
    vec = _cpp.integer(cpp.arg(4)) if cpp.base.endswith("_vec") else None
    r.put(cpp.arg(4), "vec", vec, "{} elements per load", "inferred")
    return r.done("random", joined("dropout", dtype))


FAMILY = Family(FAMILY_NAME, _decode, 40, word_set("op distribution dtype vec"))
