"""Things that predictions speak of: kernels by role, name, op or trait; copies; host ops and calls;
regions and steps.

Only reading is here; `select` finds them in a trace. A bare op word (`gelu`) means the GPU kernels
that do it, fused ones included; `aten::gelu` means the host op of that name, and
`aten::gelu kernels` the kernels launched below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from foretrace.families import VOCABULARY
from foretrace.guess.tokens import Token
from foretrace.schema.kernel import ROLES


class Stuck(Exception):
    """Reading cannot go on at `place`; one of `wanted` would have done."""

    def __init__(self, place: int, wanted: Iterable[str]) -> None:
        super().__init__(place)
        self.place, self.wanted = place, tuple(wanted)


@dataclass(frozen=True, slots=True)
class Trait:
    """An adjective: `bf16`, `nvjet`, `memory-bound`. `kind` is dtype, family, bound, role, core or
    direction.
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Thing:
    """`kind` is kernel, memcpy, memset, op, call, launch, sync, region, step or cpu; everything
    else narrows it down.

    `name` is a name with `*`, `word` an op that a kernel does, `under` an op above a kernel,
    `ordinal` the how-manieth.
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
        return self.kind in ("kernel", "memcpy", "memset")

    def called(self, text: str) -> Thing:
        """The same thing under the word that a person used for it."""
        return replace(self, text=text)


ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "sixth": 5, "last": -1}
DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "f16",
    "f16": "f16",
    "half": "f16",
    "fp32": "f32",
    "f32": "f32",
    "tf32": "tf32",
    "fp64": "f64",
    "f64": "f64",
    "fp8": "fp8",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
    "int8": "i8",
}
# A word -> families whose name holds it.
FAMILY_WORDS = (
    "nvjet",
    "cutlass",
    "cublas",
    "xmma",
    "cudnn",
    "aten",
    "inductor",
    "triton",
    "liger",
    "flash",
    "nccl",
    "tensile",
    "miopen",
    "vllm",
    "cub",
    "composable",
)
DIRECTIONS = ("dtod", "htod", "dtoh", "ptop")
TRAITS: dict[str, Trait] = {
    **{word: Trait("dtype", dtype) for word, dtype in DTYPES.items()},
    **{word: Trait("family", word) for word in FAMILY_WORDS},
    **{f"{bound}-bound": Trait("bound", bound) for bound in ("compute", "memory", "comms")},
    **{word: Trait("direction", word) for word in DIRECTIONS},
    "tensor-core": Trait("core", "true"),
}
# Words for linear layers. A trace does not say which weight a product used, so each stands for any
# matrix product.
LINEAR_WORDS = (
    "gate",
    "up",
    "down",
    "gate_proj",
    "up_proj",
    "down_proj",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "qkv",
    "fc1",
    "fc2",
    "lm_head",
)
_PLURALS = {"copy": "copies", "softmax": "softmaxes"}
HEADS: dict[str, Thing] = {
    **{word: Thing(word, "kernel") for word in ("kernel", "kernels")},
    **{
        word: Thing(word, "kernel", traits=(Trait("role", role),))
        for role in ROLES
        for word in (role, _PLURALS.get(role, role + "s"))
    },
    **{
        word: Thing(word, kind)
        for kind, words in {
            "memcpy": ("memcpy", "memcpys"),
            "memset": ("memset", "memsets"),
            "op": ("op", "ops"),
            "call": ("call", "calls"),
            "launch": ("launch", "launches"),
            "sync": ("sync", "syncs"),
            "region": ("region", "regions"),
            "step": ("step", "steps"),
        }.items()
        for word in words
    },
}
_NAMED = {
    "kernel": "kernel",
    "kernels": "kernel",
    "op": "op",
    "ops": "op",
    "call": "call",
    "calls": "call",
    "region": "region",
    "regions": "region",
}
_CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]\w*\*?")
_KERNELS = ("kernel", "kernels")


@cache
def op_words() -> frozenset[str]:
    """Op names that may be said without `aten::`; any other op is said with its namespace."""
    return frozenset(VOCABULARY.split()) - set(HEADS) - set(TRAITS)


def read_thing(tokens: Sequence[Token], place: int) -> tuple[Thing, int]:
    """`distinct gemm kernels`, `first bf16 gemm`, `memcpy`, `aten::mm`,
    `op "Torch-Compiled Region*"`.
    """
    start, ordinal, traits = place, None, []
    distinct = _key(tokens, place) == "distinct"
    place += distinct
    if _key(tokens, place) in ORDINALS:
        ordinal, place = ORDINALS[_key(tokens, place)], place + 1
    while _key(tokens, place) in TRAITS:
        traits.append(TRAITS[_key(tokens, place)])
        place += 1
    head, place = _head(tokens, place, bool(traits))
    text = " ".join(_shown(token) for token in tokens[start:place])
    return replace(
        head, text=text, traits=(*head.traits, *traits), ordinal=ordinal, distinct=distinct
    ), place


def _shown(token: Token) -> str:
    return f'"{token.text}"' if token.quoted else token.text


def _key(tokens: Sequence[Token], place: int) -> str:
    return tokens[place].key if place < len(tokens) else ""


def _head(tokens: Sequence[Token], place: int, described: bool) -> tuple[Thing, int]:
    word = _key(tokens, place)
    if word == "cpu" and _key(tokens, place + 1) in _KERNELS:
        return Thing("cpu kernels", "cpu"), place + 2
    if word in _NAMED and place + 1 < len(tokens) and _is_name(tokens[place + 1]):
        return Thing("", _NAMED[word], name=tokens[place + 1].text), place + 2
    if word in HEADS:
        return HEADS[word], _after_kernels(tokens, place + 1) if HEADS[
            word
        ].kind == "kernel" else place + 1
    if "::" in word:
        return _op(tokens, place)
    if _CALL.fullmatch(tokens[place].text if word else ""):
        after = place + 2 if _key(tokens, place + 1) in ("call", "calls") else place + 1
        return Thing("", "call", name=tokens[place].text), after
    if word in op_words():
        return Thing(word, "kernel", word=word), _after_kernels(tokens, place + 1)
    if described:
        return Thing("", "kernel"), place
    raise Stuck(place, vocabulary())


def _op(tokens: Sequence[Token], place: int) -> tuple[Thing, int]:
    name = tokens[place].text
    if _key(tokens, place + 1) in _KERNELS:
        return Thing("", "kernel", under=name), place + 2
    return Thing("", "op", name=name), place + 2 if _key(tokens, place + 1) in (
        "op",
        "ops",
    ) else place + 1


def _after_kernels(tokens: Sequence[Token], place: int) -> int:
    return place + 1 if _key(tokens, place) in _KERNELS else place


def _is_name(token: Token) -> bool:
    """Whether a token behind `kernel`, `op`, `call` or `region` is a name, and not the next word of
    the sentence.
    """
    return (
        token.quoted
        or any(mark in token.text for mark in "*_")
        or "::" in token.text
        or bool(_CALL.fullmatch(token.text))
    )


@cache
def vocabulary() -> tuple[str, ...]:
    """Every word that can begin a thing."""
    return (*HEADS, *TRAITS, *ORDINALS, "distinct", "cpu kernels", *sorted(op_words()))
