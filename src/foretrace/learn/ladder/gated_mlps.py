# ruff: noqa: D102 (the docstring of a module covers its forward)
"""The gated MLP in its variants: plain torch, Liger's (from the Hub or PyPI), and foretrace's."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from foretrace.base.errors import MissingError
from foretrace.record.profiling.run_record import version_of

HUB_REPO, HUB_VERSION = "kernels-community/liger-kernels", 1
HUB_TIMEOUT_S = 3


class GeGLU(nn.Module):  # type: ignore[misc]
    """down(gelu(gate(x)) * up(x)), tanh form, no bias."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate(x), self.up(x)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class PackedGeGLU(nn.Module):  # type: ignore[misc]
    """The same with gate and up as halves of one matmul, and `fused(gate, up)` as the activation.

    Each half is a view with gaps between its rows, as models with packed weights hand it on.
    """

    def __init__(self, dim: int, hidden: int, fused: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.fused(gate, up))


def gated_mlp(variant: str, dim: int, hidden: int, device: str) -> tuple[Any, dict[str, Any]]:
    """The module (not yet on its device), and what the run record says about it."""
    if variant.startswith("liger"):
        layer, source = liger_layer(device)
        if variant == "liger_packed":
            fused = sys.modules[layer.__module__].LigerGELUMulFunction.apply
            return PackedGeGLU(dim, hidden, fused), {"liger": source}
        shape = {"hidden_size": dim, "intermediate_size": hidden}
        return layer(SimpleNamespace(**shape, hidden_act="gelu_pytorch_tanh")), {"liger": source}
    if variant != "fused":
        return GeGLU(dim, hidden), {}
    try:
        from foretrace.kernels import GeGLUMLP
    except ImportError as error:
        message = "foretrace's own kernels need Triton: pip install 'foretrace[kernels]'"
        raise MissingError(message) from error
    return GeGLUMLP(dim, hidden), {}


def liger_layer(device: str) -> tuple[Any, dict[str, Any]]:
    """LigerGEGLUMLP from the Hub when it answers, else from PyPI, and which one it was."""
    if device == "cpu":
        raise MissingError("Liger's Triton kernels need a GPU: use the eager variant on a CPU")
    problem = "the Hub does not answer"
    if _hub_may_answer():
        try:
            from kernels import get_kernel

            source = {"source": "hub", "name": HUB_REPO, "version": HUB_VERSION}
            return get_kernel(HUB_REPO, version=HUB_VERSION).layers.LigerGEGLUMLP, source
        except Exception as error:  # noqa: BLE001 (PyPI has the same class: any failure falls back)
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    name = "liger-kernel"
    try:
        from liger_kernel.transformers.geglu import LigerGEGLUMLP
    except ImportError as error:
        message = (
            f"Liger is not installed ({error}), and {problem}: pip install {name}; or load it once "
            f"with pip install 'foretrace[hub]' where the Hub answers, copy {hub_cache()} here, "
            "and set HF_HUB_OFFLINE=1"
        )
        raise MissingError(message) from error
    source = {"source": "pypi", "name": name, "version": version_of(name), "hub": problem}
    return LigerGEGLUMLP, source


def hub_cache() -> str:
    """Where `kernels` keeps what it loads: `$KERNELS_CACHE`, else the cache of the Hub."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface"
    )
    chosen = os.environ.get("KERNELS_CACHE") or os.environ.get("HF_HUB_CACHE")
    return os.path.expanduser(chosen or os.path.join(home, "hub"))


def source_text(source: dict[str, Any]) -> str:
    """Where Liger came from, where it is kept, and what makes the same run work offline."""
    name = f"Liger: {source['name']} {source['version']}"
    if source["source"] == "hub":
        return f"{name} from the Hub, kept in {hub_cache()}; offline, set HF_HUB_OFFLINE=1"
    return f"{name} from PyPI, which needs no Hub ({source['hub']})"


def _hub_may_answer() -> bool:
    """Offline mode and local kernels need no probe; otherwise send one short request."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    if offline or HUB_REPO in os.environ.get("LOCAL_KERNELS", ""):
        return True
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        with urllib.request.urlopen(endpoint, timeout=HUB_TIMEOUT_S):
            return True
    except urllib.error.HTTPError:
        return True  # it answered
    except (OSError, ValueError):
        return False
