# ruff: noqa: D102 (the docstring of a module covers its forward)
"""What the rungs run, written plainly so that a trace can be read beside it.

The gated MLP has variants: plain torch, Liger's (from the Hub or PyPI), and foretrace's.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import record_function

from foretrace.base.errors import MissingError, UsageError
from foretrace.record.profiling.run_record import version_of
from foretrace.record.rung import Built, Setup

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Attention(nn.Module):  # type: ignore[misc]
    """Causal self-attention: one projection for queries, keys and values; torch picks a backend."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_size(dim, heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        split = self.qkv(x).view(batch, seq, 3, self.heads, self.head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


class TransformerBlock(nn.Module):  # type: ignore[misc]
    """A pre-norm transformer block around any gated MLP."""

    def __init__(self, dim: int, heads: int, mlp: Any) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(dim), Attention(dim, heads)
        self.mlp_norm, self.mlp = nn.RMSNorm(dim), mlp

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):  # type: ignore[misc]
    """A small language model with its loss: embedding, blocks, norm, head."""

    def __init__(self, vocab: int, layers: int, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        blocks = (TransformerBlock(dim, heads, GeGLU(dim, hidden)) for _ in range(layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def place(setup: Setup) -> dict[str, Any]:
    """Device and dtype of a setup, as torch's constructors take them."""
    return {"device": setup.device, "dtype": TORCH_DTYPES[setup.dtype]}


def head_size(dim: int, heads: int) -> int:
    """The features of one head."""
    if dim % heads:
        raise UsageError(f"{heads} heads cannot share {dim} features: heads must divide dim")
    return dim // heads


def parameters_of(module: Any) -> int:
    """How many weights a module has."""
    return sum(weight.numel() for weight in module.parameters())


def forward_only(module: Any, *inputs: Tensor) -> Callable[[], object]:
    """A call of `module` without gradients, as one step."""

    def call() -> object:
        with torch.no_grad():
            return module(*inputs)

    return call


def _sequence_step(setup: Setup, module: Any, name: str, facts: dict[str, Any]) -> Built:
    """A module over (batch, seq, dim): forward, or with `--backward` also the sum's backward."""
    module = module.to(**place(setup)).train(setup["backward"])
    x = torch.randn(setup["batch"], setup["seq"], setup["dim"], **place(setup))
    facts = {**facts, "parameters": parameters_of(module)}
    compiled = setup.compile(module)
    if not setup["backward"]:
        return Built(forward_only(compiled, x), region=f"{name}_fwd", facts=facts)
    x.requires_grad_(True)

    def call() -> object:
        loss = compiled(x).sum()
        loss.backward()  # gradients accumulate, as in an accumulation loop
        return loss

    return Built(call, region=f"{name}_train", facts=facts)


def matmul_add(setup: Setup) -> Built:
    """x and w are (size, size), or (batch, size, size); b is (size, size), or (size,) for `1d`.

    At size 64 the host takes far longer than the GPU; at 4096 the GPU is busy. With the default
    two-dimensional bias the compiled form is one `aten::addmm`, which copies the bias into the
    result first: the kernel count falls and a memcpy appears.
    """
    size, batch = setup["size"], setup["batch"]
    shape = (batch, size, size) if batch else (size, size)
    x, w = (torch.randn(shape, **place(setup)) for _ in range(2))
    b = torch.randn((size,) if setup["bias"] == "1d" else (size, size), **place(setup))

    def separate(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.add(torch.matmul(x, w), b)

    def together(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.baddbmm(b.expand(shape), x, w) if batch else torch.addmm(b, x, w)

    function = setup.compile(together if setup.variant == "addmm" else separate)
    return Built(forward_only(function, x, w, b), region="matmul_add")


def linear(setup: Setup) -> Built:
    """nn.Linear over (batch, in_dim), or (batch, seq, in_dim) with `--seq`.

    The matmul adds the bias in its epilogue, so one kernel does both.
    """
    layer = nn.Linear(setup["in_dim"], setup["out_dim"], bias=not setup["no_bias"])
    layer = layer.to(**place(setup)).eval()
    rows = (setup["batch"], setup["seq"]) if setup["seq"] else (setup["batch"],)
    x = torch.randn(*rows, setup["in_dim"], **place(setup))
    facts = {"parameters": parameters_of(layer)}
    return Built(forward_only(setup.compile(layer), x), region="linear_fwd", facts=facts)


def mlp(setup: Setup) -> Built:
    """The GeGLU MLP: three matmuls and two pointwise operations that can be fused.

    Eager runs five kernels, compiled and Liger four: gelu and mul are one kernel, and the matmuls
    do not change.
    """
    module, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    return _sequence_step(setup, module, "mlp", facts)


def block(setup: Setup) -> Built:
    """A transformer block: norms, attention and the gated MLP, with their residual connections."""
    mlp, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    module = TransformerBlock(setup["dim"], setup["heads"], mlp)
    return _sequence_step(setup, module, "block", facts)


def attention(setup: Setup) -> Built:
    """Causal attention over (batch, heads, seq, head_dim) queries, keys and values.

    Written out it is six GPU operations; one is the copy that an out-of-place mask makes. A fused
    backend is one kernel. The `math` backend is SDPA's own written-out form; it rebuilds the mask
    on every call.
    """
    if setup.device == "cpu" and setup.variant in ("efficient", "cudnn"):
        choices = "choose naive, inplace, math, flash"
        raise MissingError(f"the {setup.variant} backend has no CPU form: {choices}")
    shape = (setup["batch"], setup["heads"], setup["seq"], setup["head_dim"])
    qkv = [torch.randn(shape, **place(setup)) for _ in range(3)]
    if setup.variant in ("math", "efficient", "flash", "cudnn"):
        return Built(_pinned(setup, *qkv), region="sdpa_fwd")
    return Built(_written_out(setup, *qkv), region="attn_fwd")


def _written_out(setup: Setup, query: Tensor, key: Tensor, value: Tensor) -> Callable[[], object]:
    seq, scale, in_place = setup["seq"], setup["head_dim"] ** -0.5, setup.variant == "inplace"
    # built once, outside the step
    hidden = torch.ones(seq, seq, device=setup.device, dtype=torch.bool).triu(1)

    def attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        fill = scores.masked_fill_ if in_place else scores.masked_fill
        weights = torch.softmax(fill(hidden, float("-inf")), dim=-1)
        return torch.matmul(weights, value)

    return forward_only(setup.compile(attend), query, key, value, hidden)


def _pinned(setup: Setup, query: Tensor, key: Tensor, value: Tensor) -> Callable[[], object]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    name = setup.variant.upper()
    backend = getattr(SDPBackend, name if name == "MATH" else f"{name}_ATTENTION")

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    function = setup.compile(attend)

    def call() -> object:
        try:
            with torch.no_grad(), sdpa_kernel(backend):
                return function(query, key, value)
        except RuntimeError as problem:
            if "No available kernel" not in str(problem):
                raise
            message = f"SDPA's {setup.variant} backend does not run this shape and dtype here"
            raise MissingError(message) from problem

    return call


def model(setup: Setup) -> Built:
    """A language model of Hugging Face transformers over (batch, seq) tokens, without a cache.

    Nothing is downloaded: the shapes of a model select its kernels, the values of its weights do
    not.
    """
    try:
        import transformers
    except ImportError as problem:
        message = "the model rung needs transformers: pip install transformers"
        raise MissingError(message) from problem
    config = _config(transformers, setup)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model = model.to(**place(setup)).eval()
    tokens = torch.randint(setup["vocab"], (setup["batch"], setup["seq"]), device=setup.device)
    function = setup.compile(model)

    def call() -> object:
        with torch.no_grad():
            return function(input_ids=tokens, use_cache=False).logits

    facts = {"transformers": transformers.__version__, "parameters": parameters_of(model)}
    return Built(call, region="model_fwd", facts=facts)


def _config(transformers: Any, setup: Setup) -> Any:
    names = ("layers", "dim", "heads", "hidden", "vocab", "seq")
    layers, dim, heads, hidden, vocab, seq = (setup[name] for name in names)
    features = head_size(dim, heads)
    if setup.variant == "gpt2":
        sizes = {"n_layer": layers, "n_embd": dim, "n_head": heads, "n_inner": hidden}
        tokens = {"vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 0}
        return transformers.GPT2Config(**sizes, **tokens, n_positions=max(seq, 1024))
    kind = transformers.GemmaConfig if setup.variant == "gemma" else transformers.LlamaConfig
    sizes = {"num_hidden_layers": layers, "hidden_size": dim, "intermediate_size": hidden}
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": features}
    return kind(**sizes, vocab_size=vocab, max_position_embeddings=max(seq, 2048))


def train_step(setup: Setup) -> Built:
    """A training step of a small decoder: forward, backward, AdamW, each in its own region.

    The variants are AdamW's three implementations. The loop launches several kernels per weight,
    foreach a few per group of weights, fused about one per group. Only the model is compiled.
    """
    sizes = [setup[name] for name in ("vocab", "layers", "dim", "heads", "hidden")]
    model = Decoder(*sizes).to(**place(setup)).train()
    tokens = torch.randint(setup["vocab"], (setup["batch"], setup["seq"]), device=setup.device)
    how = {"foreach": setup.variant == "foreach", "fused": setup.variant == "fused"}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    function = setup.compile(model)

    def call() -> object:
        optimizer.zero_grad(set_to_none=True)
        with record_function("forward"):
            loss = function(tokens)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        return loss

    return Built(call, region="train_step", facts={"parameters": parameters_of(model)})


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
