"""What ATen's kernel templates have in common: the op behind a functor's name, and the type a
lambda works on.
"""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes
from foretrace.families._reading import rx

_LAMBDA = r"[{\[]lambda ?\(([^(){}\[\]]*)\)"
_ENDINGS = (
    "CUDAKernelImpl",
    "KernelImpl",
    "_kernel_cuda",
    "_cuda_kernel",
    "_kernel_impl",
    "_cuda_out",
    "_kernel",
    "Functor",
    "_cuda",
    "_impl",
)
# Where the literal name would mislead: the op that ATen launches this kernel for.
OPS = {
    "mse": "mse_loss",
    "mse_backward": "mse_loss_backward",
    "smooth_l1": "smooth_l1_loss",
    "huber": "huber_loss",
    "pow_tensor_scalar": "pow",
    "pow_tensor_tensor": "pow",
    "lerp_scalar": "lerp",
    "lerp_tensor": "lerp",
    "div_true": "div",
    "max_elementwise": "maximum",
    "min_elementwise": "minimum",
    "masked_scale": "native_dropout_backward",
    "smooth_l1_backward": "smooth_l1_loss_backward",
    "huber_backward": "huber_loss_backward",
    "pow_scalar_tensor": "pow",
    "compare_eq": "eq",
    "compare": "compare (lt, le, gt, ge)",
    "compare_scalar": "compare (lt, le, gt, ge)",
    "clamp_scalar": "clamp",
    "binary_cross_entropy_out": "binary_cross_entropy",
    "addcmul_scalar": "addcmul",
    "logical_not": "logical_not",
}


def op_word(functor: str) -> str:
    """`GeluBackwardCUDAKernelImpl` -> `gelu_backward`, `rsqrt_kernel_cuda` -> `rsqrt`."""
    word = functor.removeprefix("CUDAFunctor_").removeprefix("launch_")
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    word = rx(r"(?<=[a-z0-9])(?=[A-Z])").sub("_", word).lower().strip("_")
    return OPS.get(word, word)


def lambda_types(text: str) -> list[str]:
    """The argument types of the innermost lambda, as written. Lambda numbers are dispatch branches
    and mean nothing.
    """
    found = [inner for inner in rx(_LAMBDA).findall(text) if inner.strip()]
    return list(_cpp.split(found[-1])) if found else []


def lambda_dtype(text: str) -> tuple[str, str] | None:
    """The one type that the innermost lambda works on (`bool` masks aside) and its spelling, if it
    is one.
    """
    known = {dtype: written for written in lambda_types(text) if (dtype := _dtypes.cpp(written))}
    if len(known) > 1:
        known.pop("bool", None)
    return next(iter(known.items())) if len(known) == 1 else None
