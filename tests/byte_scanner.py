"""Where the records of a trace stand in its bytes, told from strings, escapes and brackets alone.

Nothing of the package and no JSON decoder is used: what this scanner counts, the reader must have
seen. It knows sound documents; damage is made from the places that it gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

# a string with its escapes, or a bracket: nothing else can open or close a record
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_PART = re.compile(
    rb'(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<number>-?\d[\d.eE+-]*)|(?P<word>[a-z]+)'
    rb"|(?P<mark>[{}\[\],:])",
    re.DOTALL,
)
_ATOM = re.compile(rb"[^\s,]+")
_KEY_END = re.compile(rb"\s*:")
_LIST_OPENS = re.compile(rb"\s*:\s*\[")


@dataclass(frozen=True)
class Record:
    """One element of the list of events: its bytes are `data[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True)
class Scan:
    """`opens` is the place behind the `[` of the events, `closes` that of their `]`."""

    opens: int
    closes: int
    records: list[Record]

    @property
    def gaps(self) -> list[Record]:
        """The separators between two records."""
        return [Record(one.end, two.start) for one, two in pairwise(self.records)]


def scan(data: bytes) -> Scan:
    """The list `traceEvents` of a document, or the document itself where it is a list."""
    depth = inside = opens = start = 0
    found: list[Record] = []
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in b"}]":
            depth -= 1
            if inside and depth == inside:
                found.append(Record(start, match.end()))
            elif inside and depth == inside - 1:
                return _scan(data, opens, match.start(), found)
        elif token in b"{[":
            if inside and depth == inside:
                start = match.start()
            depth += 1
            if not inside and (token == b"[" and (depth == 1 or match.start() + 1 == opens)):
                inside, opens = depth, match.end()
        elif inside and depth == inside:
            found.append(Record(match.start(), match.end()))
        elif depth == 1 and token == b'"traceEvents"':
            listed = _LIST_OPENS.match(data, match.end())
            opens = listed.end() if listed else 0
    raise ValueError("no list of events that is closed")


def _scan(data: bytes, opens: int, closes: int, found: list[Record]) -> Scan:
    """Add the numbers and words that stand between objects, lists and strings."""
    edges = [Record(opens, opens), *found, Record(closes, closes)]
    atoms = [
        Record(match.start(), match.end())
        for one, two in pairwise(edges)
        for match in _ATOM.finditer(data, one.end, two.start)
    ]
    return Scan(opens, closes, sorted([*found, *atoms], key=lambda record: record.start))


def balanced(data: bytes, start: int) -> int:
    """The end of the object or list at `start`, or 0 where it has none."""
    depth = 0
    for match in _TOKEN.finditer(data, start):
        depth += (match[0] in b"{[") - (match[0] in b"}]")
        if depth == 0:
            return match.end()
    return 0


def places(data: bytes, found: Scan) -> dict[str, list[int]]:
    """Bytes by what stands there: the classes of places that damage can hit."""
    classes: dict[str, list[int]] = {"header": list(range(found.opens - 1))}
    classes["opening"] = [found.opens - 1]
    classes["tail"] = list(range(found.closes, len(data)))
    classes["between"] = [at for gap in found.gaps for at in range(gap.start, gap.end)]
    for record in found.records:
        for name, at in _inside(data, record):
            classes.setdefault(name, []).append(at)
    return classes


def _inside(data: bytes, record: Record) -> list[tuple[str, int]]:
    rows: list[tuple[str, int]] = []
    depth = 0
    for match in _PART.finditer(data, record.start, record.end):
        depth += (match[0] in b"{[") - (match[0] in b"}]")
        where = "args " if depth > 1 else ""
        if match.lastgroup == "string":
            rows += _string(data, match.start(), match.end(), where)
        elif match.lastgroup == "mark":
            outer = match.start() == record.start or match.end() == record.end
            rows.append(("brace" if outer else where + "mark", match.start()))
        else:
            rows += [(f"{where}{match.lastgroup}", at) for at in range(*match.span())]
    return rows


def _string(data: bytes, start: int, end: int, where: str) -> list[tuple[str, int]]:
    """The two quotes of a string, its escapes, and the rest of it."""
    name = where + ("key" if _KEY_END.match(data, end) else "string")
    rows = [(where + "quote", start), (where + "quote", end - 1)]
    at = start + 1
    while at < end - 1:
        if data[at] == 0x5C:
            rows += [("escape", at), ("escape", at + 1)]
            at += 2
        else:
            rows.append((name, at))
            at += 1
    return rows
