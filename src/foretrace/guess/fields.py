"""Fields of kernels: what a name states, what a launch was given, and what the roofline says.

A field that does not apply (the layout of a gelu) is simply not there. A field that applies and
that the name does not state is not known, and a prediction about it is unknown, except for marks
that a family of names always writes when they are there: nvjet writes `bias` and `splitK`, so a
name without them states their absence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from foretrace import families
from foretrace.guess.amounts import NUMBER, UNITS, Amount, Compare
from foretrace.guess.things import DTYPES, Stuck
from foretrace.guess.tokens import Token

if TYPE_CHECKING:
    from foretrace.guess.work import Work

PRODUCTS = ("gemm", "conv", "attention")
NOT_THERE = object()  # the kernel has no such thing
NOT_STATED = object()  # it may have it; nothing in the trace says


@dataclass(frozen=True, slots=True)
class Field:
    """`keys` are tried in order; `roles` are those it applies to (empty: all); `mark`: absent from
    the name means absent.
    """

    name: str
    meaning: str
    keys: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    source: str = "name"
    mark: bool = False


_TABLE = (
    Field(
        "layout",
        "transposition of weight and activation as cuBLAS sees them: tn, nn, nt",
        roles=("gemm", "conv"),
    ),
    Field(
        "tile",
        "rows x columns (x depth) of one block's piece: 256x128x64",
        ("tile", "tile_mnk", "tile_mn"),
        PRODUCTS,
    ),
    Field("stages", "pieces in flight in the pipeline", roles=PRODUCTS),
    Field("cluster", "blocks that share memory: 1x2", roles=PRODUCTS),
    Field(
        "epilogue",
        "what is done to the result before it is written: bias, relu, gelu",
        roles=PRODUCTS,
        mark=True,
    ),
    Field(
        "splitk",
        "the depth is cut and summed by a second kernel",
        ("splitk", "split_k"),
        PRODUCTS,
        mark=True,
    ),
    Field(
        "batch_mode", "nvjet's bz (output only) or badd (adds to what is there)", roles=("gemm",)
    ),
    Field("coop", "which operand nvjet's warps share: A or B", roles=("gemm",)),
    Field("mma", "the tensor-core instruction: 16x8x16", roles=PRODUCTS),
    Field("tensor_core", "whether tensor cores do the work", roles=PRODUCTS),
    Field(
        "dtype",
        "type of the operands: bf16, fp16, fp32, fp8",
        ("dtype_in", "dtype", "dtype_a", "dtype_class"),
    ),
    Field("arch", "the architecture that the code was built for: sm90"),
    Field("vec", "elements that one thread moves at once", roles=("pointwise", "copy", "random")),
    Field("functor", "ATen's functor", roles=("pointwise", "copy", "optimizer")),
    Field("template", "ATen's kernel template: vectorized_elementwise_kernel"),
    Field("ops", "ops that Inductor merged"),
    Field("head_dim", "size of an attention head", roles=("attention",)),
    Field("causal", "whether the mask is causal", roles=("attention",)),
    Field("family", "the family of names: nvjet, cutlass2x, aten_elementwise", source="case"),
    Field("role", "gemm, pointwise, …", source="case"),
    Field("grid", "blocks launched: 132x1x1", source="launch"),
    Field("block", "threads per block: 128x1x1", source="launch"),
    Field("registers", "registers per thread", source="launch"),
    Field("shared_memory", "bytes of shared memory per block", source="launch"),
    Field(
        "occupancy",
        "percent of warps that fit, as the profiler estimated it; its 0 means not estimated",
        source="launch",
    ),
    Field("stream", "the stream it ran on", source="launch"),
    Field("bound", "compute or memory, from shapes and time under the roofline", source="bound"),
)
_PHRASES = {
    "shared memory": "shared_memory",
    "vector width": "vec",
    "split k": "splitk",
    "tensor core": "tensor_core",
    "head dim": "head_dim",
    "batch mode": "batch_mode",
}
_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")


@cache
def fields() -> dict[str, Field]:
    """Every field by name: those above, and whatever else a family of names can state."""
    stated = sorted({key for family in families.every() for key in family.states})
    return {field.name: field for field in _TABLE} | {
        key: Field(key, "as `foretrace name` prints it")
        for key in stated
        if key not in {field.name for field in _TABLE}
    }


def described() -> tuple[Field, ...]:
    """The fields that the manual lists."""
    return _TABLE


@cache
def _can_state(family: str, key: str) -> bool:
    return any(key in known.states for known in families.every() if known.name == family)


def read_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    words = " ".join(token.key for token in tokens[place : place + 2])
    if words in _PHRASES:
        return fields()[_PHRASES[words]], place + 2
    word = tokens[place].key if place < len(tokens) else ""
    if word not in fields():
        raise Stuck(place, [*fields(), *(phrase.split()[0] for phrase in _PHRASES)])
    return fields()[word], place + 1


def read_value(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """One word; a size may have a unit: `100 kB` is `100000`."""
    if place >= len(tokens) or (not tokens[place].quoted and tokens[place].text in "==!=<=>=,:~"):
        raise Stuck(place, ["a value"])
    text = tokens[place].text
    unit = UNITS["bytes"].get(tokens[place + 1].text) if place + 1 < len(tokens) else None
    if unit is not None and NUMBER.fullmatch(text) and text.isascii() and text.isdigit():
        return str(int(int(text) * unit)), place + 2
    return text, place + 1


def value_of(work: Work, row: int, field: Field) -> Any:
    """What the kernel in this row states for the field; `NOT_THERE` or `NOT_STATED` otherwise."""
    case = work.case(row)
    if field.source == "case":
        return case.ident.family if field.name == "family" else case.role
    if field.source == "bound":
        bound = work.trace.work_bounds[row]
        return NOT_STATED if bound == "unknown" else bound
    if field.source == "launch":
        value = work.footprint(row, field.name)
        return NOT_STATED if value is None else value
    return _stated(case, field)


def _stated(case: Any, field: Field) -> Any:
    for key in field.keys or (field.name,):
        if case.ident.get(key) is not None:
            return case.ident.get(key)
    if field.roles and case.role not in field.roles:
        return NOT_THERE
    return NOT_THERE if field.mark and _can_state(case.ident.family, field.name) else NOT_STATED


def agrees(actual: Any, compare: Compare | None, wanted: str | None) -> bool | None:
    """Whether a field's value is the wanted one; without a wanted value, whether it is there at
    all.
    """
    if actual is NOT_STATED:
        return None
    if actual is NOT_THERE:
        return False
    if wanted is None:
        return bool(actual)
    symbol = compare.symbol if compare else "=="
    if symbol == "!=":
        return not _same(actual, wanted)
    if symbol == "==":
        return _same(actual, wanted)
    found = NUMBER.fullmatch(wanted.removesuffix("%"))
    if found is None or found[3] or not isinstance(actual, int | float):
        return None
    return Compare(symbol).verdict(actual, actual, Amount(wanted, float(found[1]))) == "hit"


def _same(actual: Any, wanted: str) -> bool:
    word = wanted.lower()
    if isinstance(actual, bool):
        return word in (_YES if actual else _NO)
    if isinstance(actual, list):
        return _same_list(actual, word)
    if isinstance(actual, int | float):
        found = NUMBER.fullmatch(word.removesuffix("%"))
        return found is not None and not found[3] and float(found[1]) == actual
    return str(actual).lower() in (word, DTYPES.get(word, word))


def _same_list(actual: list[Any], word: str) -> bool:
    """Sizes may be cut short (`256x128` is any depth); of words one is enough."""
    if all(isinstance(item, int) for item in actual):
        sizes = word.split("x")
        return (
            0 < len(sizes) <= len(actual) and [str(item) for item in actual[: len(sizes)]] == sizes
        )
    return word in [str(item).lower() for item in actual]


def value_text(actual: Any) -> str:
    """A value for people."""
    if actual is NOT_STATED:
        return "not stated"
    if actual is NOT_THERE:
        return "none"
    if isinstance(actual, list):
        return ("x" if all(isinstance(item, int) for item in actual) else "+").join(
            str(item) for item in actual
        )
    return (
        {True: "yes", False: "no"}.get(actual, str(actual))
        if isinstance(actual, bool)
        else str(actual)
    )
