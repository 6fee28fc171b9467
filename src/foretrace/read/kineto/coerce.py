"""A parsed record of any shape as an `Event`: a wrong type is coerced or left out, and noted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from foretrace.read.kineto.columns import EXACT_US
from foretrace.read.kineto.records import ARG_FIELDS, NAN, Args, Event, exact_number
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.whole import INT64, whole

# how a field of `Args` is declared -> the plain types that it takes
_KINDS: dict[str, tuple[type, ...]] = {
    "Int | None": (int,),
    "Number": (int, float),
    "Word": (int, str),
    "str | None": (str,),
    "bool | None": (bool,),
}
# Python reads more than this: other digits, underscores, words for infinity
_TIME = re.compile(r"\s*(-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,4})?)\s*")
_TEXT_OR_NUMBER = frozenset({b'"', b"-", *(b"%d" % digit for digit in range(10))})
_TS = attrgetter("ts")
_LONG = re.compile(r"-?[0-9]{19,}")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def coerce(record: dict[str, Any], ledger: LedgerBuilder) -> Event:
    """Never fails: a record is kept even when nothing in it has the right type."""
    return Event(
        ph=_text(record.get("ph")) or "",
        cat=_text(record.get("cat")) or "",
        name=_text(record.get("name")),
        pid=_word(record.get("pid")),
        tid=_word(record.get("tid")),
        ts=_time(record.get("ts"), ledger),
        dur=_time(record.get("dur"), ledger),
        id=_word(record.get("id")),
        args=_args(record.get("args"), ledger),
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float | Decimal) else _encode(value).decode()


def _word(value: Any) -> int | str | None:
    if isinstance(value, bool) or value is None:
        return None if value is None else str(value)
    if isinstance(value, float | Decimal):
        value = int(value) if float(value).is_integer() else str(value)
    if isinstance(value, int):
        return value if value in INT64 else str(value)
    return _text(value)


def _time(value: Any, ledger: LedgerBuilder) -> Any:
    """A number, or a number written as text (torch_npu); anything else is no time at all."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _TIME.fullmatch(value)
        ledger.note("ts_type", 1 if found else 0)
        return exact_number(found[1]) if found else None
    return value if isinstance(value, int | float | Decimal) else None


def beyond_floats(events: Sequence[Event]) -> bool:
    """Whether some time is absolute and has decimals: a double near 1.7e15 has steps of 0.25."""
    try:
        if max(map(_TS, events), default=0) <= EXACT_US:  # quick, and false where one is no number
            return False
    except TypeError:
        pass
    return any([type(event.ts) is float and event.ts > EXACT_US for event in events])


def exact_times(events: Iterable[Event]) -> int:
    """Decode the times that were kept as written; the number of those that are text."""
    ledger = LedgerBuilder()
    for event in events:
        event.ts = _written(bytes(event.ts), exact_number, ledger)  # type: ignore[arg-type]
        event.dur = _written(bytes(event.dur), float, ledger)  # type: ignore[arg-type]
    return ledger.counts.get("ts_type", 0)


def _written(raw: bytes, number: Callable[[str], Any], ledger: LedgerBuilder) -> Any:
    if raw[:1] not in _TEXT_OR_NUMBER:
        return NAN
    found = _time(msgspec.json.decode(raw), ledger) if raw[:1] == b'"' else number(raw.decode())
    return NAN if found is None else found


def _args(found: Any, ledger: LedgerBuilder) -> Args | None:
    if not isinstance(found, dict) or not found:
        return None
    args = Args()
    for key, value in found.items():
        attribute = ARG_FIELDS.get(key)
        if attribute is not None and value is not None:
            number = float(value) if isinstance(value, Decimal) else value  # only times are exact
            setattr(args, attribute, _fit(number, Args.__annotations__[attribute], ledger))
    return args


def _fit(value: Any, declared: str, ledger: LedgerBuilder) -> Any:
    """`value` as the type a field declares, or its empty value with a note."""
    if declared == "Raw":
        return Raw(_encode(value))
    kinds = _KINDS[declared]
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        if isinstance(value, int) and not isinstance(value, bool) and value not in INT64:
            return str(value) if str in kinds else None
        return value
    number = whole(value) if isinstance(value, str) else None
    if number is None and isinstance(value, str) and _LONG.fullmatch(value):
        return None  # beyond 64 bits: noted as such where it was read
    ledger.note("arg_type")
    if isinstance(value, float) and value.is_integer() and int in kinds and int(value) in INT64:
        return int(value)
    if number is not None and int in kinds:
        return number
    if str in kinds and isinstance(value, int | float):
        return str(value)
    return None
