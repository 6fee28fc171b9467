"""Fields of kernels: what a name states, how the kernel was launched, and its roofline bound.

A field that does not apply (the layout of a gelu) is absent. A field that applies and that the name
does not state is unknown, and so is a prediction about it. The exception is marks that a family of
names always writes when they apply: nvjet writes `bias` and `splitK`, so a name without them states
their absence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from foretrace.analyze.guess.amounts import EQUALS, NUMBER, UNITS, Amount, Compare
from foretrace.analyze.guess.evidence import Evidence, GpuOperation
from foretrace.analyze.guess.selectors import DTYPES
from foretrace.analyze.guess.tokens import ParseFailure, Token, key_at, language, text_at
from foretrace.model.costs.attention import BACKWARD, FORWARD
from foretrace.model.costs.attention import described as described_call
from foretrace.model.recording import op_call
from foretrace.names import families

ABSENT = object()  # the kernel has no such thing
UNSTATED = object()  # it may have it; nothing in the trace says


@dataclass(frozen=True, slots=True)
class Field:
    """`keys` are tried in order; `roles` are those it applies to (empty: all).

    `source` is name, case (family and role), launch or bound. With `mark`, a name without the field
    states its absence.
    """

    name: str
    meaning: str
    keys: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    source: str = "name"
    mark: bool = False


_ATTENTION = FORWARD | BACKWARD
_SPACED = ("shared_memory", "tensor_core", "head_dim", "batch_mode")
_PHRASES = {name.replace("_", " "): name for name in _SPACED}
_PHRASES |= {"vector width": "vec", "split k": "splitk"}
_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")


@cache
def described() -> tuple[Field, ...]:
    """The fields that the manual lists."""
    return tuple(map(_described, language("fields").strip().splitlines()))


def _described(line: str) -> Field:
    name, source, roles, keys, meaning = (part.strip() for part in line.split("|"))
    applies, mark = (tuple(keys.split()), tuple(roles.split())), name.endswith("*")
    return Field(name.removesuffix("*"), meaning, *applies, source, mark)


@cache
def fields() -> dict[str, Field]:
    """Every field by name: those described, and whatever else a family of names states."""
    stated = {key for family in families.every() for key in family.states}
    known = {field.name: field for field in described()}
    others = sorted(stated - set(known))
    return known | {key: Field(key, "as `foretrace name` prints it", (key,)) for key in others}


@cache
def _stated_by(family: str) -> frozenset[str]:
    """The fields that names of this family can state."""
    return frozenset(key for each in families.every() if each.name == family for key in each.states)


def read_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    """`layout`, `shared memory`, `splitk`."""
    words = " ".join(token.key for token in tokens[place : place + 2])
    if words in _PHRASES:
        return fields()[_PHRASES[words]], place + 2
    word = key_at(tokens, place)
    if word not in fields():
        raise ParseFailure(place, [*fields(), *(phrase.split()[0] for phrase in _PHRASES)])
    return fields()[word], place + 1


def read_value(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """One word; a size can have a unit: `100 kB` is `100000`."""
    text = text_at(tokens, place)
    if place >= len(tokens) or (not tokens[place].quoted and text in "==!=<=>=,:~"):
        raise ParseFailure(place, ["a value"])
    unit = UNITS["bytes"].get(text_at(tokens, place + 1))
    if unit is not None and NUMBER.fullmatch(text) and text.isascii() and text.isdigit():
        return str(int(int(text) * unit)), place + 2
    return text, place + 1


def value_of(evidence: Evidence, row: int, field: Field) -> Any:
    """What the kernel in this row states for the field, else `ABSENT` or `UNSTATED`."""
    operation = evidence.operation(row)
    if field.source == "case":
        return operation.ident.family if field.name == "family" else operation.role
    if field.name == "roof":
        roof = evidence.roof(row)
        return UNSTATED if roof is None else roof
    if field.source == "bound":
        bound = evidence.trace.work_bounds[row]
        return UNSTATED if bound == "unknown" else bound
    if field.source == "launch":
        value = evidence.footprint(row, field.name)
        return UNSTATED if value is None else value
    stated = _stated(operation, field)
    return _from_arguments(evidence, row, field) if stated is UNSTATED else stated


def _from_arguments(evidence: Evidence, row: int, field: Field) -> Any:
    """What the op that launched the kernel was called with."""
    call = op_call(evidence.trace, int(evidence.trace.origins.op[row]))
    places = _ATTENTION.get(call.name) if call and field.name in ("head_dim", "causal") else None
    said = described_call(call, places) if call and places else None
    value = said and getattr(said, field.name)
    return UNSTATED if value is None else value


def _stated(operation: GpuOperation, field: Field) -> Any:
    ident = operation.ident
    stated = next((ident.get(key) for key in field.keys if ident.get(key) is not None), None)
    if stated is not None:
        return stated
    if field.roles and operation.role not in field.roles:
        return ABSENT
    return ABSENT if field.mark and field.name in _stated_by(ident.family) else UNSTATED


def agrees(actual: Any, compare: Compare | None, wanted: str | None) -> bool | None:
    """Whether a value is the wanted one; without a wanted value, whether there is one at all."""
    if actual is UNSTATED:
        return None
    if actual is ABSENT:
        return False
    if wanted is None:
        return bool(actual)
    symbol = (compare or EQUALS).symbol
    if symbol in ("==", "!="):
        return _same(actual, wanted) is (symbol == "==")
    number = _number(wanted)
    if number is None or not isinstance(actual, int | float):
        return None
    return Compare(symbol).of(actual, Amount(wanted, number)) == "hit"


def _number(word: str) -> float | None:
    found = NUMBER.fullmatch(word.removesuffix("%"))
    return float(found[1]) if found and not found[3] else None


def _same(actual: Any, wanted: str) -> bool:
    word = wanted.lower()
    if isinstance(actual, bool):
        return word in (_YES if actual else _NO)
    if isinstance(actual, list):
        return _same_list(actual, word)
    if isinstance(actual, int | float):
        return _number(word) == actual
    return str(actual).lower() in (word, DTYPES.get(word, word))


def _same_list(actual: list[Any], word: str) -> bool:
    """Sizes can be cut short (`256x128` is any depth); of several words one is enough."""
    if all(isinstance(item, int) for item in actual):
        sizes = word.split("x")
        return len(sizes) <= len(actual) and [str(item) for item in actual[: len(sizes)]] == sizes
    return word in [str(item).lower() for item in actual]


def value_text(actual: Any) -> str:
    """A value for people."""
    if isinstance(actual, bool):
        return "yes" if actual else "no"
    if isinstance(actual, list):
        sizes = all(isinstance(item, int) for item in actual)
        return ("x" if sizes else "+").join(str(item) for item in actual)
    if isinstance(actual, float):
        return f"{actual:.0f}"
    return "not stated" if actual is UNSTATED else "none" if actual is ABSENT else str(actual)
