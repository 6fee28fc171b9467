"""Where the kernels run, and the one-time notes when plain torch runs in their place."""

from __future__ import annotations

import importlib.util
import os
import warnings
from functools import lru_cache
from importlib.metadata import version

import torch

HAVE_TRITON = importlib.util.find_spec("triton") is not None
# Under Triton's interpreter the kernels run on CPU tensors: for tests, not for speed.
INTERPRETED = HAVE_TRITON and os.environ.get("TRITON_INTERPRET") == "1"
# Warp-specialised kernels need Gluon as Triton has it from 3.6 on; it has no interpreter.
HAVE_GLUON = (
    HAVE_TRITON and not INTERPRETED and tuple(map(int, version("triton").split(".")[:2])) >= (3, 6)
)

_DTYPES = frozenset((torch.bfloat16, torch.float16, torch.float32))
# Triton's tensor-core path and bf16 begin with Ampere.
_LEAST_CAPABILITY = (8, 0)

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_noted: set[str] = set()


class PlainRoute(UserWarning):
    """Plain torch runs in place of a kernel. Said once per reason."""


def note_once(reason: str) -> None:
    """Say why plain torch runs, the first time this reason comes up."""
    if reason not in _noted:
        _noted.add(reason)
        message = f"foretrace.kernels: plain torch runs here: {reason}"
        warnings.warn(message, PlainRoute, stacklevel=3)


@lru_cache
def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the kernels do not run for this device and dtype; None when they do."""
    if not HAVE_TRITON:
        return "Triton is not installed (pip install 'foretrace[kernels]')"
    if dtype not in _DTYPES:
        return f"{dtype} is not bfloat16, float16 or float32"
    if INTERPRETED:
        return None
    if device.type != "cuda" or torch.version.hip is not None:
        return f"the tensors are on {device.type!r}, not on a CUDA GPU"
    capability = torch.cuda.get_device_capability(device)
    if capability < _LEAST_CAPABILITY:
        return f"compute capability {capability[0]}.{capability[1]} is below 8.0"
    return None


def traced(*tensors: torch.Tensor) -> bool:
    """Whether a compiler, a transform, a tensor subclass or a dispatch mode is active: no direct
    launch then.
    """
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return True
    if torch._C._are_functorch_transforms_active():
        return True
    for tensor in tensors:  # noqa: SIM110 (a generator costs more than the test)
        if type(tensor) not in _PLAIN:
            return True
    return False
