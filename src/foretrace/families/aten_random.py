"""ATen's random numbers: fills (`normal_`, `uniform_`, …) and dropout."""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes
from foretrace.families._reading import Reading, rx
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


def decode(name: str) -> KernelId | None:
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


def _start(name: str, cpp: _cpp.Cpp, op: str) -> Reading:
    r = Reading(name, FAMILY_NAME)
    r.put(cpp.base, "template", cpp.base, "ATen's kernel for random numbers", "documented")
    if op:
        r.put(cpp.base, "op", op, "the op that launches it", "checked")
    return r


def _distribution(name: str, cpp: _cpp.Cpp) -> KernelId:
    transform = rx(r"(\w+)_and_transform<").search(name)
    inner = rx(r"(\w+?)(?:_cuda)?_kernel<at::CUDAGeneratorImpl").search(name)
    word = inner[1] if inner else transform[1] if transform else ""
    word = OPS.get(word, word)
    r = _start(name, cpp, f"aten::{word}_" if word else "")
    types = _cpp.inside(name, f"{transform[1]}_and_transform") if transform else ()
    if transform:
        r.put(transform[1], "distribution", transform[1], "the distribution drawn from", "checked")
    dtype = _dtypes.cpp(types[0]) if types else None
    if dtype:
        r.put(types[0], "dtype", dtype, f"writes {dtype}", "checked")
    return r.done("random", f"{word}_ {dtype or ''}".strip() if word else "random fill")


def _dropout(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = _start(name, cpp, "aten::native_dropout")
    dtype = _dtypes.cpp(cpp.arg(0))
    if dtype:
        r.put(cpp.arg(0), "dtype", dtype, f"works on {dtype}", "documented")
    vec = _cpp.integer(cpp.arg(4)) if cpp.base.endswith("_vec") else None
    if vec is not None:
        r.put(cpp.arg(4), "vec", vec, f"{vec} elements per load", "inferred")
    return r.done("random", f"dropout {dtype or ''}".strip())


FAMILY = Family(
    name=FAMILY_NAME,
    decode=decode,
    order=40,
    examples={
        "void at::native::(anonymous "
        "namespace)::distribution_elementwise_grid_stride_kernel<float, 4, "
        "at::native::templates"
        "::cuda::uniform_and_transform<c10::Half, float, 4ul, at::CUDAGeneratorImpl*, "
        "at::native::templates::cuda::"
        "uniform_kernel<at::CUDAGeneratorImpl*>(at::TensorIteratorBase&)::{lambda()#1}>(P)::{lambda(P)#1}>(long)": {
            "op": "aten::uniform_",
            "distribution": "uniform",
            "dtype": "f16",
        },
        "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, "
        "unsigned int, 1, 8, "
        "bool>"
        "(P)": {"op": "aten::native_dropout", "dtype": "bf16", "vec": 8},
    },
)
