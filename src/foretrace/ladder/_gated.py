"""The gated MLP in its variants: plain torch, Liger's, and foretrace's own; and where Liger came
from.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

from foretrace.errors import MissingError
from foretrace.ladder._modules import GeGLU
from foretrace.profiling.environment import version_of

HUB_REPO, HUB_VERSION = "kernels-community/liger-kernels", 1
HUB_TIMEOUT_S = 3


def gated_mlp(variant: str, dim: int, hidden: int, device: str) -> tuple[Any, dict[str, Any]]:
    """The module (not yet on its device) and what the run record should say about it."""
    if variant == "liger":
        layer, source = liger_layer(device)
        shape = SimpleNamespace(
            hidden_size=dim, intermediate_size=hidden, hidden_act="gelu_pytorch_tanh"
        )
        return layer(shape), {"liger": source}
    if variant == "fused":
        return _own(dim, hidden), {}
    return GeGLU(dim, hidden), {}


def liger_layer(device: str) -> tuple[Any, dict[str, Any]]:
    """LigerGEGLUMLP from the Hub through `kernels` when the Hub answers, else from PyPI, and which
    of them it was.
    """
    if device == "cpu":
        raise MissingError(
            "Liger's kernels are Triton's and need a GPU; a CPU can run the eager variant"
        )
    problem = "the Hub does not answer"
    if _hub_may_answer():
        try:
            return _from_hub()
        except Exception as error:  # whatever goes wrong there, PyPI's copy is the same class
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return _from_pypi(problem)


def _from_hub() -> tuple[Any, dict[str, Any]]:
    from kernels import get_kernel

    loaded = get_kernel(HUB_REPO, version=HUB_VERSION)
    return loaded.layers.LigerGEGLUMLP, {"source": "hub", "name": HUB_REPO, "version": HUB_VERSION}


def _from_pypi(problem: str) -> tuple[Any, dict[str, Any]]:
    try:
        from liger_kernel.transformers.geglu import LigerGEGLUMLP
    except ImportError as error:
        raise MissingError(
            f"no Liger here ({error}), and {problem}: pip install liger-kernel"
        ) from error
    return LigerGEGLUMLP, {
        "source": "pypi",
        "name": "liger-kernel",
        "version": version_of("liger-kernel"),
        "hub": problem,
    }


def _hub_may_answer() -> bool:
    """Offline mode reads the cache and asks nobody, so that needs no probe; otherwise one short
    question.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return True
    try:
        with urllib.request.urlopen(
            os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=HUB_TIMEOUT_S
        ):
            return True
    except urllib.error.HTTPError:
        return True  # it answered
    except (OSError, ValueError):
        return False


def _own(dim: int, hidden: int) -> Any:
    try:
        from foretrace.kernels import GeGLUMLP
    except ImportError as error:
        raise MissingError(
            "foretrace's own kernels need Triton: pip install 'foretrace[kernels]'"
        ) from error
    return GeGLUMLP(dim, hidden)
