"""The words of a prediction: tokens, numbers with units, and what they speak of.

A number means what its digits say: `38.65 GFLOP` holds for anything that rounds to 38.65,
`5 kernels` for exactly five. `+- 10%` or `+- 2 us` widens that; `about` stands for `+- 10%`.

A selector is kernels by role, name, op or trait; memcpys; host ops and calls; regions and steps.
`selection` finds what it matches in a trace. A bare op word (`gelu`) means the GPU kernels that do
it, fused ones included; `aten::gelu` means the host op of that name, and `aten::gelu kernels` the
kernels launched below it.
"""

from __future__ import annotations

import difflib
import operator
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.work import families
from foretrace.work.kernel import ROLES


def one_edit(one: str, other: str) -> bool:
    """Whether one letter more, less or other, or two swapped, make one word of the other."""
    start = _shared(one, other)
    one, other = one[start:], other[start:]
    end = _shared(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _shared(one: str, other: str) -> int:
    """How many letters two words begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The word most similar to `word`, the first of equals, or an empty text."""
    measure = difflib.SequenceMatcher(b=word.lower()[:60])
    best, closeness = "", cutoff
    for candidate in words:
        measure.set_seq1(candidate.lower())
        # The quick ratios are upper bounds of the real one, which costs a hundred times as much.
        if best and (measure.real_quick_ratio() <= closeness or measure.quick_ratio() <= closeness):
            continue
        if measure.ratio() > closeness or (not best and measure.ratio() >= cutoff):
            best, closeness = candidate, measure.ratio()
    return best


LONGEST = 2_000  # characters; longer than any sentence a person writes
_TOKEN = regex(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>==|!=|<=|>=|\+-|\+/-|[±<>=~,:])'
    # `52,856` is one number, as the pages print it
    # and so is `model.py:41` one place
    r'|(?P<word>(?:(?<![\w,.])\d{1,3}(?:,\d{3})+(?![\d,])|::|(?<=\.py):(?=\d)|[^\s",:<>=!~±])+)'
    r"|(?P<odd>\S))"
)
_THOUSANDS = regex(r"\d{1,3}(?:,\d{3})+")


@cache
def tables() -> dict[str, Any]:
    """The tables of `language.toml`: words for the language, and for what it answers."""
    text = files(__package__).joinpath("language.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def language(table: str) -> str:
    """A table of words: one entry a line."""
    return str(tables()[table])


class GuessError(UsageError):
    """A prediction that cannot be parsed.

    `word` is the wrong word of `text`, `at` its position, `nearest` the valid word that it may be a
    slip of, `example` a valid prediction about the same matter.
    """

    def __init__(
        self,
        text: str,
        word: str,
        at: int,
        problem: str,
        nearest: str = "",
        where: str = "",
        example: str = "",
    ) -> None:
        self.text, self.word, self.at, self.problem = text, word, at, problem
        self.nearest, self.example = nearest, example
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        carets = " " * at + "^" * max(len(word), 1)
        super().__init__(f"{where or 'cannot parse'}\n  {shown}\n  {carets} {self.advice}")

    @property
    def advice(self) -> str:
        """The problem and what to write instead, in one line."""
        meant = f"; did you mean `{self.nearest}`?" if self.nearest else ""
        example = f"; write for example `{self.example}`" if self.example and not meant else ""
        return f"{self.problem}{meant}{example}"

    def suggesting(self, example: str, where: str = "") -> GuessError:
        """The same error with a prediction that can be parsed, and where the text comes from."""
        parts = (self.text, self.word, self.at, self.problem, self.nearest)
        return GuessError(*parts, where, example or self.example)


class ParseFailure(Exception):
    """Parsing cannot go on at `place`; one of `wanted` would be valid there."""

    def __init__(self, place: int, wanted: Iterable[str]) -> None:
        super().__init__(place)
        self.place, self.wanted = place, tuple(wanted)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` without quotes; `at` is where it begins in the prediction.

    `written` is how the prediction says it, where `text` is another word for it.
    """

    text: str
    at: int
    quoted: bool = False
    written: str = ""

    @property
    def key(self) -> str:
        """The token as a word of the language: lower case; empty for quoted text."""
        return "" if self.quoted else self.text.lower()

    @property
    def end(self) -> int:
        """Where it ends in the prediction."""
        return self.at + len(self.written or self.text) + self.quoted


def split(text: str) -> list[Token]:
    """`in mlp_fwd: kernels == 5` -> six tokens."""
    if len(text) > LONGEST:
        raise UsageError(f"the guess has {len(text):,} characters; the limit is {LONGEST:,}")
    tokens = []
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "odd":
            raise GuessError(text, found[kind], found.start(kind), "is not valid here")
        word, at = found[kind], found.start(kind)
        plain = word.replace(",", "") if kind == "word" and _THOUSANDS.match(word) else word
        tokens.append(Token(plain, at, kind == "quoted", "" if plain == word else word))
    if not tokens:
        raise UsageError("the guess is empty: write for example `in mlp_fwd: kernels == 5`")
    return tokens


def key_at(tokens: Sequence[Token], place: int) -> str:
    """The word at `place`; empty past the end."""
    return tokens[place].key if place < len(tokens) else ""


def text_at(tokens: Sequence[Token], place: int) -> str:
    """The text at `place` as written; empty past the end."""
    return tokens[place].text if place < len(tokens) else ""


def wrong(text: str, tokens: Sequence[Token], place: int, expected: Iterable[str]) -> GuessError:
    """The error for the token at `place`, where one of the `expected` words would be valid."""
    words = list(dict.fromkeys(expected))
    wanted = ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
    if place >= len(tokens):
        end = len(text.rstrip()) + 1
        return GuessError(text, "", end, f"ends too early; expected {wanted}")
    word, at = tokens[place].written or tokens[place].text, tokens[place].at
    if not words:
        return GuessError(text, word, at, f"`{word}` is unexpected: the prediction ends before it")
    problem = f"`{word}` is not understood" + (f"; expected {wanted}" if len(words) <= 8 else "")
    return GuessError(text, word, at, problem, _slip(word, words))


def _slip(word: str, words: Iterable[str]) -> str:
    """The valid word that `word` is one slip away from: a letter more, less, other, or two swapped.

    Anything further is chance: by letters alone `memory-bound` is near `more`.
    """
    found = (other for other in words if other[:1].lower() == word[:1].lower())
    meant = (other for other in found if word.lower() not in language("no_slips").split())
    return next((other for other in meant if one_edit(word.lower(), other.lower())), "")


# what `about` allows: the articles' own rounding ("10% faster" for 9%) is of this size
ABOUT = 0.10

# dimension -> {unit: its size in the base unit}. Base units: ns, bytes, FLOP, one, FLOP/s, bytes/s.
UNITS: dict[str, dict[str, float]] = {
    "time": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "flops": {"FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "share": {"%": 0.01},
    "ratio": {"x": 1},
    "part": {"x": 1, "%": 0.01},
    "rate": {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    "bandwidth": {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
    "count": {"": 1},
}
NUMBER = regex(r"(\d{1,15}(?:\.(\d{1,15}))?)(.*)")
_COUNT_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
COUNTS = tuple(_COUNT_WORDS.split())
SYMBOLS = {"=": "==", **{symbol: symbol for symbol in ("==", "!=", "<", "<=", ">", ">=", "~")}}
_WORDINGS = {
    "==": "exactly",
    "~": "about",
    "<": "under, below, fewer than, less than",
    ">": "over, above, more than",
    "<=": "at most, up to",
    ">=": "at least",
}
PHRASES = {phrase: symbol for symbol, text in _WORDINGS.items() for phrase in text.split(", ")}
_HOLDS: dict[str, Callable[[float, float], bool]]
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Amount:
    """`value` in base units; a difference up to `slack` still counts as equal."""

    text: str
    value: float
    slack: float = 0.0

    def within(self, share: float | None = None, far: float | None = None) -> Amount:
        """The same amount with a tolerance, as a share of itself or in base units."""
        slack = abs(self.value) * share if share is not None else far or 0.0
        return replace(self, slack=max(slack, self.slack))

    @property
    def exact(self) -> Amount:
        """The same amount without the tolerance of its digits; a stated `+-` stays."""
        return self if "+-" in self.text else replace(self, slack=0.0)


@dataclass(frozen=True, slots=True)
class Compare:
    """One of `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`."""

    symbol: str

    def verdict(self, low: float, high: float, amount: Amount) -> str:
        """`hit` when all of `low` to `high` satisfies it, `miss` when none does, else unknown."""
        if self.symbol == "!=":
            equal = Compare("==").verdict(low, high, amount)
            return {"hit": "miss", "miss": "hit"}.get(equal, "unknown")
        if self.symbol in ("==", "~"):
            wanted = amount.within(share=ABOUT) if self.symbol == "~" else amount
            # A hair of room for the arithmetic: 0.1 + 0.2 must equal 0.3.
            slack = wanted.slack * (1 + 1e-9)
            least, most = wanted.value - slack, wanted.value + slack
            outside = "miss" if high < least or low > most else "unknown"
            return "hit" if least <= low and high <= most else outside
        answers = {_HOLDS[self.symbol](value, amount.value) for value in (low, high)}
        return "unknown" if len(answers) == 2 else "hit" if answers.pop() else "miss"

    def of(self, value: float, amount: Amount) -> str:
        """The verdict on one measured value."""
        return self.verdict(value, value, amount)


EQUALS = Compare("==")


def read_compare(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    """`==`, `is at most`, `under`, …; `is` before a number is `==`."""
    start = place + 1 if key_at(tokens, place) in ("is", "are") else place
    word = key_at(tokens, start)
    if word in SYMBOLS:
        return Compare(SYMBOLS[word]), start + 1
    if start > place and (word in COUNTS or NUMBER.match(word)):
        return EQUALS, start
    return read_phrase(tokens, start)


def read_phrase(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    """`at most`, `fewer than`, `about`, …"""
    for size in (2, 1):
        words = " ".join(token.key for token in tokens[place : place + size])
        if words in PHRASES:
            return Compare(PHRASES[words]), place + size
    starts = f"{key_at(tokens, place)} "
    seconds = [phrase.split()[1] for phrase in PHRASES if phrase.startswith(starts)]
    if seconds:
        raise ParseFailure(place + 1, seconds)
    raise ParseFailure(place, [*SYMBOLS, *(phrase.split()[0] for phrase in PHRASES)])


def read_number(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    """`5`, `five`, `4.5`."""
    word = key_at(tokens, place)
    if word in COUNTS:
        return Amount(str(COUNTS.index(word)), COUNTS.index(word)), place + 1
    amount = _amount(word, "", "count")
    if amount is None:
        raise ParseFailure(place, ["a number"])
    return amount, place + 1


def read_count(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    """`5`, `five`; nothing with a fraction."""
    wanted = ["a whole number", *COUNTS]
    try:
        amount, after = read_number(tokens, place)
    except ParseFailure:
        raise ParseFailure(place, wanted) from None
    if amount.value % 1:
        raise ParseFailure(place, wanted)
    return amount, after


def reader(dimension: str) -> Callable[[Sequence[Token], int], tuple[Amount, int]]:
    """Reads `56 us`, `56us`, `10%`, each with `+- 5%` or `+- 2 us` behind it."""

    def read(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
        amount, after = _plain(tokens, place, dimension)
        if key_at(tokens, after) not in ("+-", "+/-", "±", "within"):
            return amount, after
        relative = key_at(tokens, after + 1).endswith("%")
        slack, last = _plain(tokens, after + 1, "share" if relative else dimension)
        wider = amount.within(**{"share" if relative else "far": slack.value})
        return replace(wider, text=f"{amount.text} +- {slack.text}"), last

    return read


def _plain(tokens: Sequence[Token], place: int, dimension: str) -> tuple[Amount, int]:
    units, word = UNITS[dimension], text_at(tokens, place)
    found = NUMBER.fullmatch(word)
    if found is None:
        raise ParseFailure(place, [f"a number with a unit ({', '.join(units)})"])
    unit, after = (found[3], place + 1) if found[3] else (text_at(tokens, place + 1), place + 2)
    amount = _amount(found[1], _unit(unit, units), dimension)
    if amount is None:
        raise ParseFailure(after - 1, units)
    return amount, after


def _unit(word: str, units: Iterable[str]) -> str:
    """A unit in any case, unless two units differ in case alone."""
    if word in units:
        return word
    lower = word.lower()
    flops = lower.removesuffix("s") if lower.endswith("flops") else lower
    same = [unit for unit in units if unit.lower() in (lower, flops, f"{flops}/s")]
    return same[0] if len(same) == 1 else "?"


def _amount(text: str, unit: str, dimension: str) -> Amount | None:
    """`38.65` with `GFLOP` -> an amount as precise as it is written; None when it is not valid."""
    found = NUMBER.fullmatch(text)
    factor = UNITS[dimension].get(unit) if found and not found[3] else None
    if found is None or factor is None:
        return None
    slack = 0.0 if dimension == "count" else 0.5 * 10.0 ** -len(found[2] or "") * factor
    shown = f"{found[1]}{unit}" if unit in ("%", "x") else f"{found[1]} {unit}".rstrip()
    return Amount(shown, float(found[1]) * factor, slack)


@dataclass(frozen=True, slots=True)
class Trait:
    """An adjective: `bf16`, `nvjet`, `memory-bound`.

    `kind` is dtype, family, bound, role, work (no collective), core, direction, cast, sdpa, group,
    phase (forward), depthwise, layout (a conversion), optimizer (its name), called (a pattern of
    its name and of the ops above it).
    """

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """`kind` is kernel, memcpy, memset, op, call, launch, sync, region, module, step, stream, cpu.

    The other fields narrow it down: `name` is a name with `*`, `word` an op that a kernel does,
    `under` an op above a kernel, `ordinal` a place in the order of launch. `written` is the word of
    the sentence that `text` stands for.
    """

    text: str
    kind: str
    name: str = ""
    word: str = ""
    under: str = ""
    traits: tuple[Trait, ...] = ()
    ordinal: int | None = None
    distinct: bool = False
    written: str = ""

    @property
    def on_gpu(self) -> bool:
        """Whether it matches GPU operations, not host events."""
        return self.kind in ("kernel", "memcpy", "memset")

    @property
    def is_collective(self) -> bool:
        """Whether it matches collectives, which a CPU runs too."""
        return any(trait.kind == "collective" for trait in self.traits)


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
# the memory that a copy reads (`from`) or writes (`to`) -> what its name has
_FROM = {"pageable": "pageable ->", "pinned": "pinned ->", "host": "htod", "gpu": "dtoh"}
_TO = {"pageable": "-> pageable", "pinned": "-> pinned", "host": "dtoh", "gpu": "htod"}
MEMORY = tuple(_TO)
DIRECTIONS = ("dtod", "htod", "dtoh", "ptop", "pageable", "pinned")
OPTIMIZERS = ("adam", "adamw", "sgd", "adagrad", "rmsprop", "adafactor", "lion", "lamb", "muon")
# parts of kernel names that people use as words
_NAME_WORDS = "winograd volta ampere turing hopper sgemm hgemm igemm tensorop wgmma sendrecv"
TRAITS: dict[str, Trait] = {
    **{word: Trait("dtype", dtype) for word, dtype in DTYPES.items()},
    **{word: Trait("family", word) for word in FAMILY_WORDS},
    **{f"{bound}-bound": Trait("bound", bound) for bound in KERNEL_BOUNDS},
    **{word: Trait("direction", word) for word in DIRECTIONS},
    "tensor-core": Trait("core", "true"),
    "depthwise": Trait("depthwise", "true"),
    "foreach": Trait("called", r"aten::_foreach_"),
    "host-device": Trait("direction", "crosses"),
    "gloo": Trait("family", "gloo"),
    **{word: Trait("named", word) for word in _NAME_WORDS.split()},
    "loss": Trait("group", "loss"),
    "wgrad": Trait("called", r"wgrad"),
    "dgrad": Trait("called", r"dgrad"),
    "moe": Trait("called", r"moe|expert|grouped_?(gemm|mm)|_matmul_ogs"),
    "quantization": Trait("called", r"quant"),
    "lstm": Trait("called", r"lstm"),
    "gru": Trait("called", r"\bgru|_gru"),
    "rnn": Trait("called", r"rnn|lstm|\bgru"),
    "upsample": Trait("called", r"upsample|interpolate"),
}
# said before a kernel word or behind it: `backward gemm`, `batchnorm backward`
PHASES = {word: Trait("phase", word) for word in ("forward", "backward")}
# Words for linear layers. A trace does not say which weight a matmul used, so each stands for any
# matmul.
_LAYERS = """
gate up down gate_proj up_proj down_proj q_proj k_proj v_proj o_proj qkv fc1 fc2 lm_head
"""
LINEAR_WORDS = tuple(_LAYERS.split())
# What a model's author calls a part -> the name of the group (`Trace.work_groups`).
GROUPS = {"rmsnorm": "RMSNorm", "rope": "RoPE", "swiglu": "SwiGLU", "geglu": "GeGLU"}
GROUPS |= {"loss": "loss", "pooling": "pooling", "residual_add": "residual add"}
# a collective -> how kernels, ops and ranges of the host name it
COLLECTIVES = {
    "all_reduce": r"all_?reduce",
    "all_gather": r"all_?gather",
    "reduce_scatter": r"reduce_?scatter",
    "all_to_all": r"all_?to_?all",
    "broadcast": r"broadcast",
}
COPIES = ("copy", "copies", "transfer", "transfers")
_PLURALS = {"copy": "copies", "softmax": "softmaxes", "launch": "launches"}
_KINDS = ("memcpy", "memset", "op", "call", "launch", "sync", "region", "step", "stream")


def _forms(word: str) -> tuple[str, str]:
    return word, _PLURALS.get(word, word + "s")


def that_are(word: str, kind: str, value: str) -> Selector:
    """The kernels of a trait."""
    return Selector(word, "kernel", traits=(Trait(kind, value),))


HEADS: dict[str, Selector] = {
    **{word: Selector(word, "kernel") for word in _forms("kernel")},
    **{word: that_are(word, "role", role) for role in ROLES for word in _forms(role)},
    **{word: Selector(word, kind) for kind in _KINDS for word in _forms(kind)},
    **{word: that_are(word, "cast", "true") for word in _forms("cast")},
    **{word: that_are(word, "group", group) for word, group in GROUPS.items()},
    "sdpa": that_are("sdpa", "sdpa", "sdpa"),
    "compute": that_are("compute", "work", "compute"),
    "backward": Selector("backward", "kernel", under="autograd::engine*"),
    "forward": that_are("forward", "phase", "forward"),
    **{word: that_are(word, "collective", pattern) for word, pattern in COLLECTIVES.items()},
    "gpu-work": Selector("GPU operations", "work"),
    "batchnorm": that_are("batchnorm", "called", r"batch_?norm|\bbn_(fw|bw)"),
    "torch.compile": Selector("torch.compile", "op", name="TorchDynamo Cache Lookup"),
    **{word: that_are("activations", "activation", "") for word in _forms("activation")},
    "layout-conversions": that_are("layout conversions", "layout", "true"),
    "dataloader": Selector("dataloader", "region", name="enumerate(DataLoader)*"),
    **{word: that_are(word, "optimizer", word) for word in OPTIMIZERS},
    **{word: Selector(word, "call", name="*GraphLaunch*") for word in ("graphs", "cuda-graphs")},
    "item": Selector("item", "op", name="aten::item"),
}
_NAMED = {
    word: kind for kind in ("kernel", "op", "call", "region", "module") for word in _forms(kind)
}
CALL = regex(r"(?:cuda|cu|hip)[A-Z]\w*\*?")


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
    phase = PHASES.get(key_at(tokens, place)) if _begins(key_at(tokens, place + 1)) else None
    place += phase is not None
    while key_at(tokens, place) in TRAITS:
        traits.append(TRAITS[key_at(tokens, place)])
        place += 1
    head, place = _head(tokens, place, traits)
    if head.kind == "kernel" and not phase and key_at(tokens, place) in PHASES:
        phase, place = PHASES[key_at(tokens, place)], _past(tokens, place + 1, "kernel")
    traits += [phase] if phase else []
    if traits and head.kind not in ("kernel", "memcpy", "memset"):  # `nccl streams`
        raise ParseFailure(start, ["kernels"])
    if head.kind == "memcpy" and key_at(tokens, place) in ("from", "to"):
        traits, place = _memory(tokens, place, traits)
    text = " ".join(f'"{t.text}"' if t.quoted else t.text for t in tokens[start:place])
    traits = [*head.traits, *traits]
    last = tokens[place - 1]
    written = last.written if text == last.text else ""  # one word alone, as the sentence has it
    found = replace(head, text=text, traits=tuple(traits), ordinal=ordinal)
    return replace(found, distinct=distinct, written=written), place


def _begins(word: str) -> bool:
    """Whether a word is one for kernels, and more than `kernels`."""
    head = HEADS.get(word)
    said = head.kind == "kernel" and bool(head.traits) if head else word in op_words()
    return word in TRAITS or (said and word not in PHASES)


def _memory(tokens: Sequence[Token], place: int, traits: list[Trait]) -> tuple[list[Trait], int]:
    """`from pageable memory`: the memory that a copy reads, or writes."""
    kind, reads = key_at(tokens, place + 1), key_at(tokens, place) == "from"
    if kind not in MEMORY:
        raise ParseFailure(place + 1, MEMORY)
    found = Trait("direction", (_FROM if reads else _TO)[kind])
    return [*traits, found], place + 2 + (key_at(tokens, place + 2) == "memory")


def _head(tokens: Sequence[Token], place: int, traits: Sequence[Trait]) -> tuple[Selector, int]:
    word, text = key_at(tokens, place), text_at(tokens, place)
    moved = any(trait.kind == "direction" for trait in traits)
    between = key_at(tokens, place + 1) in ("from", "to") and key_at(tokens, place + 2) in MEMORY
    if word in COPIES and (moved or between):
        return HEADS["memcpy"], place + 1
    if moved and word not in HEADS:
        return HEADS["memcpy"], place
    if word == "step" and key_at(tokens, place + 1).isdecimal():
        name = f"ProfilerStep#{int(key_at(tokens, place + 1))}"
        return Selector("", "step", name=name), place + 2
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
    if word and CALL.fullmatch(text):
        return Selector("", "call", name=text), _past(tokens, place + 1, "call")
    if word in op_words() and not (traits and word in language("everyday").split()):
        return Selector(word, "kernel", word=word), _past(tokens, place + 1, "kernel")
    single = word.removesuffix("s")
    if single != word and single in op_words() and single not in language("everyday").split():
        return Selector(single, "kernel", word=single), _past(tokens, place + 1, "kernel")
    if traits:
        return Selector("", "kernel"), place
    raise ParseFailure(place, vocabulary())


def _past(tokens: Sequence[Token], place: int, word: str) -> int:
    """The place behind `word` or its plural, or `place` where neither stands there."""
    return place + 1 if key_at(tokens, place) in _forms(word) else place


def _is_name(token: Token) -> bool:
    """Whether a token behind `kernel`, `op`, `call` or `region` is a name, not the next word."""
    marked = any(mark in token.text for mark in ("*", "_", "::"))
    return token.quoted or marked or bool(CALL.fullmatch(token.text))
