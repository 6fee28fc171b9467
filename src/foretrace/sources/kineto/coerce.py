"""A parsed record of any shape as an `Event`: a wrong type is coerced or left out, and noted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.kineto.records import ARG_FIELDS, Args, Event

# how a field of `Args` is declared -> the plain types that it takes
_KINDS: dict[str, tuple[type, ...]] = {
    "Int | None": (int,),
    "Number": (int, float),
    "Word": (int, str),
    "str | None": (str,),
    "bool | None": (bool,),
}
_LOWER = {key.lower(): attribute for key, attribute in ARG_FIELDS.items()}
_INT64 = range(-(1 << 63), 1 << 63)


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
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def _word(value: Any) -> int | str | None:
    if isinstance(value, bool) or value is None:
        return None if value is None else str(value)
    if isinstance(value, int):
        return value if value in _INT64 else str(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value)
    return _text(value)


def _time(value: Any, ledger: LedgerBuilder) -> Any:
    """A number, or a number written as text (torch_npu); anything else is no time at all."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return None
        ledger.note("ts_type")
        return number
    return value if isinstance(value, int | float | Decimal) else None


def _args(found: Any, ledger: LedgerBuilder) -> Args | None:
    if not isinstance(found, dict) or not found:
        return None
    args = Args()
    for key, value in found.items():
        attribute = ARG_FIELDS.get(key) or _LOWER.get(key.lower())
        if attribute is not None and value is not None:
            number = float(value) if isinstance(value, Decimal) else value  # only times are exact
            setattr(args, attribute, _fit(number, Args.__annotations__[attribute], ledger))
    return args


def _fit(value: Any, declared: str, ledger: LedgerBuilder) -> Any:
    """`value` as the type a field declares, or its empty value with a note."""
    if declared == "Raw":
        return Raw(msgspec.json.encode(value))
    kinds = _KINDS[declared]
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
            return str(value) if str in kinds else None
        return value
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) > 18:
        return None  # beyond 64 bits: noted as such where it was read
    ledger.note("arg_type")
    if isinstance(value, float) and value.is_integer() and int in kinds and int(value) in _INT64:
        return int(value)
    if isinstance(value, str) and int in kinds:
        try:
            return int(value) if int(value) in _INT64 else None
        except ValueError:
            return None
    if str in kinds and isinstance(value, int | float):
        return str(value)
    return None
