"""Logs read a second time, slowly: the whole file as text, line by line, without expressions.

Shares no code with the reader. It knows sound logs, and records whose payload was changed; of a
record that is damaged it says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

COMMON = ["rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload"]
COMMON += ["stack", "subgraph_name"]


class Slow(NamedTuple):
    kind: str
    name: str
    where: str
    rank: int | None
    fields: Any
    payload: str
    line: int
    agrees: bool | None  # with its digest


def is_head(line: str) -> bool:
    parts = line.split(" ")
    if len(parts) < 5 or parts[0][:1] not in "VIWEC" or not parts[0][1:].isdigit():
        return False
    return parts[1].count(":") == 2 and parts[2].isdigit() and parts[3].endswith("]")


def groups(data: bytes) -> Iterator[tuple[int, str, list[str]]]:
    """Every head line with the lines below it, up to the next."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    heads = [at for at, line in enumerate(lines) if is_head(line)]
    for at, after in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield at + 1, lines[at], lines[at + 1 : after]


def structured(data: bytes) -> tuple[list[Slow], int, list[int]]:
    """Records, how many strings there were, and the lines of damaged records."""
    names: dict[int, str] = {}
    found, strings, damaged = [], 0, []

    def named(value: dict[str, Any]) -> dict[str, Any]:
        number = value.get("filename")
        return {**value, "filename": names[number]} if isinstance(number, int) else value

    for number, head, below in groups(data):
        text = head[head.index("] {") + 2 :]
        try:
            record = json.loads(text, object_hook=named)
        except ValueError:
            damaged.append(number)
            continue
        if "str" in record:
            names[record["str"][1]] = record["str"][0]
            strings += 1
            continue
        payload = "\n".join(line[1:] for line in below if line[:1] == "\t")
        digest = record.get("has_payload")
        agrees = digest and _md5(payload) == digest
        if digest and not agrees and payload.startswith("{") and not _is_json(payload):
            damaged.append(number)
            continue
        found.append(_slow(record, payload, number, agrees))
    return found, strings, damaged


def _slow(record: dict[str, Any], payload: str, line: int, agrees: bool | None) -> Slow:
    kind = next(key for key in record if key not in COMMON)
    fields = record[kind]
    if "stack" in record:
        fields = {"stack": record["stack"], **fields}
    where = ""
    if "frame_id" in record:
        where = f"{record['frame_id']}/{record['frame_compile_id']}"
    name = fields["name"] if kind == "artifact" else ""
    return Slow(kind, name, where, record.get("rank"), fields, payload, line, agrees)


def _md5(payload: str) -> str:
    return hashlib.md5(payload.encode("utf-8", "surrogateescape")).hexdigest()


def _is_json(payload: str) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


def messages(data: bytes) -> list[tuple[str, str, str]]:
    """Channel, compile id with its attempt, and text of every message of a log text."""
    found: list[tuple[str, str, str, str]] = []
    for line in data.decode().split("\n"):
        if not is_head(line):
            continue
        place, _, rest = line.partition("] ")
        tags = []
        while rest.startswith("["):
            tag, closed, after = rest.partition("] ")
            if not closed or not (tag[1:3] == "__" or tag[1:2].isdigit()):
                break
            tags.append(tag[1:])
            rest = after
        channel = "".join(tag[2:] for tag in tags if tag.startswith("__"))
        where = "".join(tag for tag in tags if not tag.startswith("__"))
        if found and found[-1][:3] == (place, channel, where):
            found[-1] = (place, channel, where, found[-1][3] + "\n" + rest)
        else:
            found.append((place, channel, where, rest))
    return [(channel, where, text) for _, channel, where, text in found]
