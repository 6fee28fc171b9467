"""Selectors: what predictions speak of. Kernels by role, name, op or trait; memcpys; host ops and
calls; regions and steps.

This module parses them; `selection` finds what they match in a trace. A bare op word (`gelu`) means
the GPU kernels that do it, fused ones included; `aten::gelu` means the host op of that name, and
`aten::gelu kernels` the kernels launched below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from foretrace.analyze.guess.tokens import ParseFailure, Token, key_at, text_at
from foretrace.names import families
from foretrace.schema.kernel import ROLES


@dataclass(frozen=True, slots=True)
class Trait:
    """An adjective: `bf16`, `nvjet`, `memory-bound`.

    `kind` is dtype, family, bound, role, work (no collective), core, direction, cast, sdpa, group.
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """`kind` is kernel, memcpy, memset, op, call, launch, sync, region, step, stream or cpu.

    The other fields narrow it down: `name` is a name with `*`, `word` an op that a kernel does,
    `under` an op above a kernel, `ordinal` a place in the order of launch.
    """

    text: str
    kind: str
    name: str = ""
    word: str = ""
    under: str = ""
    traits: tuple[Trait, ...] = ()
    ordinal: int | None = None
    distinct: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether it matches GPU operations, not host events."""
        return self.kind in ("kernel", "memcpy", "memset")


ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "sixth": 5, "last": -1}
_DTYPE_WORDS = (
    "bf16=bf16 bfloat16=bf16 fp16=f16 f16=f16 half=f16 fp32=f32 f32=f32 tf32=tf32 fp64=f64 f64=f64 "
    "fp8=fp8 e4m3=e4m3 e5m2=e5m2 int8=i8"
)
DTYPES = {word: dtype for word, _, dtype in (pair.partition("=") for pair in _DTYPE_WORDS.split())}
# A word stands for every family whose name contains it.
_FAMILIES = """
nvjet cutlass cublas xmma cudnn aten inductor triton liger flash mem_efficient nccl tensile miopen
vllm cub composable
"""
FAMILY_WORDS = tuple(_FAMILIES.split())
KERNEL_BOUNDS = ("compute", "memory", "l2", "latency", "comms")
DIRECTIONS = ("dtod", "htod", "dtoh", "ptop")
TRAITS: dict[str, Trait] = {
    **{word: Trait("dtype", dtype) for word, dtype in DTYPES.items()},
    **{word: Trait("family", word) for word in FAMILY_WORDS},
    **{f"{bound}-bound": Trait("bound", bound) for bound in KERNEL_BOUNDS},
    **{word: Trait("direction", word) for word in DIRECTIONS},
    "tensor-core": Trait("core", "true"),
}
# Words for linear layers. A trace does not say which weight a matmul used, so each stands for any
# matmul.
_LAYERS = """
gate up down gate_proj up_proj down_proj q_proj k_proj v_proj o_proj qkv fc1 fc2 lm_head
"""
LINEAR_WORDS = tuple(_LAYERS.split())
# What a model's author calls a part -> the name of the group (`Trace.work_groups`).
GROUPS = {
    "rmsnorm": "RMSNorm",
    "rope": "RoPE",
    "swiglu": "SwiGLU",
    "geglu": "GeGLU",
    "loss": "loss",
}
_PLURALS = {"copy": "copies", "softmax": "softmaxes", "launch": "launches"}
_KINDS = ("memcpy", "memset", "op", "call", "launch", "sync", "region", "step", "stream")
# Words for a host call or a host op whose own name few remember.
_CALLS = {word: Selector(word, "call", name="*GraphLaunch*") for word in ("graphs", "cuda-graphs")}
_OPS = {"item": Selector("item", "op", name="aten::item")}


def _forms(word: str) -> tuple[str, str]:
    return word, _PLURALS.get(word, word + "s")


HEADS: dict[str, Selector] = {
    **{word: Selector(word, "kernel") for word in _forms("kernel")},
    **{
        word: Selector(word, "kernel", traits=(Trait("role", role),))
        for role in ROLES
        for word in _forms(role)
    },
    **{word: Selector(word, kind) for kind in _KINDS for word in _forms(kind)},
    **{word: Selector(word, "kernel", traits=(Trait("cast", "true"),)) for word in _forms("cast")},
    **{
        word: Selector(word, "kernel", traits=(Trait("group", group),))
        for word, group in GROUPS.items()
    },
    "sdpa": Selector("sdpa", "kernel", traits=(Trait("sdpa", "sdpa"),)),
    "compute": Selector("compute", "kernel", traits=(Trait("work", "compute"),)),
    "backward": Selector("backward", "kernel", under="autograd::engine*"),
    **_CALLS,
    **_OPS,
}
_NAMED = {word: kind for kind in ("kernel", "op", "call", "region") for word in _forms(kind)}
_CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]\w*\*?")


@cache
def op_words() -> frozenset[str]:
    """Op names that can be written without `aten::`; any other op needs its namespace."""
    return families.vocabulary() - set(HEADS) - set(TRAITS)


@cache
def vocabulary() -> tuple[str, ...]:
    """Every word that can begin a selector."""
    return (*HEADS, *TRAITS, *ORDINALS, "distinct", "cpu kernels", *sorted(op_words()))


def read_selector(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """`distinct gemm kernels`, `first bf16 gemm`, `memcpy`, `aten::mm`, `op "a name*"`."""
    start, ordinal, traits = place, None, []
    distinct = key_at(tokens, place) == "distinct"
    place += distinct
    if key_at(tokens, place) in ORDINALS:
        ordinal, place = ORDINALS[key_at(tokens, place)], place + 1
    while key_at(tokens, place) in TRAITS:
        traits.append(TRAITS[key_at(tokens, place)])
        place += 1
    head, place = _head(tokens, place, bool(traits))
    text = " ".join(f'"{t.text}"' if t.quoted else t.text for t in tokens[start:place])
    traits = [*head.traits, *traits]
    found = replace(head, text=text, traits=tuple(traits), ordinal=ordinal, distinct=distinct)
    return found, place


def _head(tokens: Sequence[Token], place: int, described: bool) -> tuple[Selector, int]:
    word, text = key_at(tokens, place), text_at(tokens, place)
    if word == "cpu" and _past(tokens, place + 1, "kernel") > place + 1:
        return Selector("cpu kernels", "cpu"), place + 2
    if word in _NAMED and place + 1 < len(tokens) and _is_name(tokens[place + 1]):
        return Selector("", _NAMED[word], name=tokens[place + 1].text), place + 2
    if word in HEADS:
        head = HEADS[word]
        return head, _past(tokens, place + 1, "kernel") if head.kind == "kernel" else place + 1
    if "::" in word:
        after = _past(tokens, place + 1, "kernel")
        if after > place + 1:
            return Selector("", "kernel", under=text), after
        return Selector("", "op", name=text), _past(tokens, place + 1, "op")
    if word and _CALL.fullmatch(text):
        return Selector("", "call", name=text), _past(tokens, place + 1, "call")
    if word in op_words():
        return Selector(word, "kernel", word=word), _past(tokens, place + 1, "kernel")
    if described:
        return Selector("", "kernel"), place
    raise ParseFailure(place, vocabulary())


def _past(tokens: Sequence[Token], place: int, word: str) -> int:
    """The place behind `word` or its plural, or `place` where neither stands there."""
    return place + 1 if key_at(tokens, place) in _forms(word) else place


def _is_name(token: Token) -> bool:
    """Whether a token behind `kernel`, `op`, `call` or `region` is a name, not the next word."""
    marked = any(mark in token.text for mark in ("*", "_", "::"))
    return token.quoted or marked or bool(_CALL.fullmatch(token.text))
