"""Reads pickles of plain data: numbers, text, lists, tuples and dicts. Nothing is ever executed.

A pickle is a program for a small stack machine (protocols 0 to 5), and may name any function of the
computer. This machine knows no names: an opcode that would import, call or build an object refuses
the file. It reads the file in windows, so that a subclass may drop what it has used. Damage ends
the reading; what was built until then stays on the stack.
"""

from __future__ import annotations

import codecs
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from foretrace.base import budget
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError, TraceError

WINDOW = 4 << 20  # the matrices of `event_layouts` for one window stay in the cache of a core
FIRST_WINDOW = 256 << 10  # what is learned from the first events makes the next windows cheaper
OFTEN = 1 << 18  # opcodes between two checks of the ceilings: 16 MB of empty lists
MOST_LONG = 512  # bytes of one number: a million digits are no size, no address and no time
INTERNED = 64  # characters: a name that is written again and again is held once
MOST_INTERNED = 100_000
NEWEST = 5  # the newest protocol
_NONE = object()

_FRAME, _FRAME_SIZE = 0x95, 9
_FRAMED = (b"\x80\x04", b"\x80\x05")


def unframed(blocks: Iterator[bytes], dropped: list[int]) -> Iterator[bytes]:
    """A pickle without the headers of its frames, which only help to read ahead.

    `dropped` gets the place of each, in what is left. A pickle whose frames do not follow each
    other keeps the rest of them.
    """
    held, left, given = b"", 2, 0  # the protocol comes before the first frame
    for block in blocks:
        held += block
        if not given and not held.startswith(_FRAMED):
            yield held
            yield from blocks
            return
        at, parts = 0, []
        while at < len(held):
            if left:
                parts.append(held[at : at + left])
                at, left, given = at + len(parts[-1]), left - len(parts[-1]), given + len(parts[-1])
            elif held[at] != _FRAME:
                yield b"".join((*parts, held[at:]))
                yield from blocks
                return
            elif len(held) - at < _FRAME_SIZE:
                break
            else:
                left = int.from_bytes(held[at + 1 : at + _FRAME_SIZE], "little")
                at += _FRAME_SIZE
                dropped.append(given)
        held = held[at:]
        yield from parts
    if held:
        yield held


class PickleDamage(Exception):
    """The file cannot be read beyond this byte."""


class Forgotten:
    """Stands for something that was used and dropped, where the file refers to it again."""


class PlainPickle:
    """A stack machine that builds plain containers out of blocks of bytes.

    `stack` holds what was built since the last mark, `marked` the stacks below it.
    """

    def __init__(self, label: str, blocks: Iterator[bytes], limits: Limits) -> None:
        self.label, self.limits = label, limits
        self.dropped: list[int] = []
        self.blocks = unframed(blocks, self.dropped)
        self.data, self.at, self.base = b"", 0, 0  # `base`: where in the file `data` begins
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.named = 0  # how many items were numbered
        self.lost = Counter[str]()
        self.texts: dict[bytes, str] = {}
        self.protocol, self.ended, self.exhausted = 0, False, False
        self.window = FIRST_WINDOW
        self.codes = [self._code(code) for code in range(256)]

    @property
    def offset(self) -> int:
        """Where in the file the next byte is."""
        at = self.base + self.at
        return at + _FRAME_SIZE * bisect_right(self.dropped, at)

    def run(self) -> None:
        """Execute until the end of the pickle; raises `PickleDamage` where that cannot be."""
        codes = self.codes
        while not self.ended:
            if self.at >= len(self.data) and not self.refill():
                raise PickleDamage("ends early")
            budget.check()
            for _ in range(OFTEN):
                if self.ended or self.at >= len(self.data):
                    break
                code = self.data[self.at]
                self.at += 1
                try:
                    codes[code]()
                except (IndexError, struct.error):
                    raise PickleDamage("lacks what an opcode needs") from None

    def refill(self, size: int = 1) -> bool:
        """Have `size` bytes ahead and more where there are any; False at the end of the file."""
        parts, have = [self.data[self.at :]], len(self.data) - self.at
        while have < max(size, self.window) and not self.exhausted:
            block = next(self.blocks, b"")
            parts.append(block)
            have += len(block)
            self.exhausted = not block
        self.window = min(2 * self.window, WINDOW)
        self.base += self.at
        self.data, self.at = b"".join(parts), 0
        return have >= size

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if end > len(self.data):
            if size > self.limits.string:
                raise PickleDamage(f"states a length of {size:,} bytes")
            if not self.refill(size):
                raise PickleDamage("ends early")
            end = size
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def line(self) -> bytes:
        """The bytes up to the end of the line, for the opcodes of protocol 0."""
        end = self.data.find(b"\n", self.at)
        while end < 0:
            before = len(self.data) - self.at
            if before > self.limits.string or not self.refill(before + 1):
                raise PickleDamage("has a line without an end")
            end = self.data.find(b"\n", before)
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def number(self, size: int) -> int:
        """An unsigned number, as opcodes state lengths and places."""
        return int.from_bytes(self.take(size), "little")

    def pop_mark(self) -> list[Any]:
        """What lies above the last mark."""
        items, self.stack = self.stack, self.marked.pop()
        return items

    def push(self, value: Any) -> None:
        """Put a value on the stack; a subclass may look at it."""
        self.stack.append(value)

    def recall(self, number: int) -> Any:
        """What was numbered so."""
        found = self.memo.get(number, _NONE)
        if found is _NONE:
            raise PickleDamage(f"refers to item {number:,}, which is not there")
        return found

    def remember(self, number: int, value: Any) -> None:
        """Number a value."""
        self.named += number not in self.memo
        self.memo[number] = value

    def extend(self, target: Any, values: list[Any]) -> None:
        """Add values to a list."""
        if type(target) is not list:
            raise PickleDamage("adds to what is no list")
        target += values

    def update(self, target: Any, items: list[Any]) -> None:
        """Set keys and values in a dict."""
        if type(target) is not dict or len(items) % 2:
            raise PickleDamage("sets keys of what is no dict")
        keys = items[::2]
        # the hash of a nested tuple may take forever
        if not all(type(key) is str or type(key) is int for key in keys):
            raise PickleDamage("has a key that is neither text nor a number")
        target.update(zip(keys, items[1::2], strict=True))

    def text(self, raw: bytes) -> str:
        """Text; bytes that are not UTF-8 are replaced."""
        known = self.texts.get(raw)
        if known is not None:
            return known
        try:
            made = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.lost["texts with bytes that are no text"] += 1
            made = raw.decode("utf-8", "replace")
        if len(raw) <= INTERNED and len(self.texts) < MOST_INTERNED:
            self.texts[raw] = made
        return made

    def _code(self, code: int) -> Callable[[], None]:
        """What executes an opcode: a method, perhaps with the number that the table states."""
        name, *number = _NAMES.get(chr(code), ("unknown",))
        method: Callable[..., None] = getattr(self, f"_op_{name}")
        return partial(method, *map(int, number)) if number else method

    def _op_refused(self, what: int) -> NoReturn:
        text = f"a pickle with {_REFUSED[what]}: only plain data is read, nothing was executed"
        hint = "do not load it with pickle either"
        raise TraceError("E_PICKLE", self.label, text, offset=self.offset - 1, hint=hint)

    def _op_unknown(self) -> NoReturn:
        raise PickleDamage("has an unknown opcode")

    # structure

    def _op_proto(self) -> None:
        self.protocol = self.number(1)
        if self.protocol > NEWEST:
            raise PickleDamage(f"states protocol {self.protocol}, newer than {NEWEST}")

    def _op_frame(self) -> None:
        self.take(8)  # how far a reader may read ahead

    def _op_stop(self) -> None:
        if self.marked or len(self.stack) != 1:
            raise PickleDamage("ends with more or less than one item")
        self.ended = True

    def _op_mark(self) -> None:
        if len(self.marked) >= self.limits.depth:
            what, hint = f"nested deeper than {self.limits.depth}", raised_by("depth")
            raise LimitError("E_TOO_DEEP", self.label, what, offset=self.offset, hint=hint)
        self.marked.append(self.stack)
        self.stack = []

    def _op_pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def _op_pop_mark(self) -> None:
        self.pop_mark()

    def _op_dup(self) -> None:
        self.push(self.stack[-1])

    # constants and numbers

    def _op_constant(self, which: int) -> None:
        self.stack.append(_CONSTANTS[which])

    def _op_unsigned(self, size: int) -> None:
        self.stack.append(self.number(size))

    def _op_signed(self, size: int) -> None:
        self.stack.append(int.from_bytes(self.take(size), "little", signed=True))

    def _op_long(self, head: int) -> None:
        size = self.number(head)
        if size > MOST_LONG:
            raise PickleDamage(f"has a number of {size:,} bytes")
        self._op_signed(size)

    def _op_int_line(self) -> None:
        line = self.line()
        self.stack.append(line == b"01" if line in (b"00", b"01") else self._digits(line))

    def _op_long_line(self) -> None:
        self.stack.append(self._digits(self.line().removesuffix(b"L")))

    def _digits(self, line: bytes, kind: type[int] | type[float] = int) -> Any:
        if kind is int and len(line) > MOST_LONG:
            raise PickleDamage(f"has a number of {len(line):,} digits")
        try:
            return kind(line[:MOST_LONG])
        except ValueError:
            raise PickleDamage("has a number without digits") from None

    def _op_float_line(self) -> None:
        self.stack.append(self._digits(self.line(), float))

    def _op_float(self) -> None:
        self.stack.append(struct.unpack(">d", self.take(8))[0])

    # text and bytes

    def _op_text(self, head: int) -> None:
        self.push(self.text(self.take(self.number(head))))

    def _op_text_line(self) -> None:
        try:
            made = self.line().decode("raw-unicode-escape")
        except UnicodeDecodeError:
            raise PickleDamage("has text that cannot be read") from None
        self.push(self.text(made.encode("utf-8", "surrogatepass")))

    def _op_old_text(self) -> None:
        line = self.line().strip()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise PickleDamage("has text without quotes")
        try:
            self.push(self.text(codecs.escape_decode(line[1:-1])[0]))
        except ValueError:
            raise PickleDamage("has text that cannot be read") from None

    def _op_bytes(self, head: int) -> None:
        self.push(self.take(self.number(head)))

    # containers

    def _op_tuple(self) -> None:
        self.push(tuple(self.pop_mark()))

    def _op_tuple_of(self, size: int) -> None:
        if len(self.stack) < size:
            raise PickleDamage("lacks what an opcode needs")
        made = tuple(self.stack[-size:])
        del self.stack[-size:]
        self.push(made)

    def _op_empty_list(self) -> None:
        self.push([])

    def _op_list(self) -> None:
        items = self.pop_mark()
        self.push([])
        self.extend(self.stack[-1], items)

    def _op_append(self) -> None:
        value = self.stack.pop()
        self.extend(self.stack[-1], [value])

    def _op_appends(self) -> None:
        items = self.pop_mark()
        self.extend(self.stack[-1], items)

    def _op_empty_dict(self) -> None:
        self.push({})

    def _op_dict(self) -> None:
        items = self.pop_mark()
        self.push({})
        self.update(self.stack[-1], items)

    def _op_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.update(self.stack[-1], [key, value])

    def _op_setitems(self) -> None:
        items = self.pop_mark()
        self.update(self.stack[-1], items)

    # references

    def _op_get(self, size: int) -> None:
        self.stack.append(self.recall(self.number(size)))

    def _op_get_line(self) -> None:
        self.stack.append(self.recall(self._digits(self.line())))

    def _op_put(self, size: int) -> None:
        self.remember(self.number(size), self.stack[-1])

    def _op_put_line(self) -> None:
        number = self._digits(self.line())
        if number < 0:
            raise PickleDamage("numbers an item below zero")
        self.remember(number, self.stack[-1])

    def _op_memoize(self) -> None:
        self.remember(self.named, self.stack[-1])


_CONSTANTS = (None, True, False, ())
_REFUSED = (
    "the name of a class or a function",
    "an object of a class",
    "a call",
    "the state of an object",
    "data outside the file",
    "a registered extension",
    "a set",
)
# an opcode, the method that executes it, and the number that the method gets: a size in bytes, that
# of the length which comes first, of a tuple, or the place of a constant or of what is refused
_OPCODES = """
\x80 proto | \x95 frame | . stop | ( mark | 0 pop | 1 pop_mark | 2 dup
N constant 0 | \x88 constant 1 | \x89 constant 2 | ) constant 3
K unsigned 1 | M unsigned 2 | J signed 4 | \x8a long 1 | \x8b long 4
I int_line | L long_line | F float_line | G float
\x8c text 1 | X text 4 | \x8d text 8 | U text 1 | T text 4 | V text_line | S old_text
C bytes 1 | B bytes 4 | \x8e bytes 8 | \x96 bytes 8
t tuple | \x85 tuple_of 1 | \x86 tuple_of 2 | \x87 tuple_of 3
] empty_list | l list | a append | e appends | } empty_dict | d dict | s setitem | u setitems
h get 1 | j get 4 | g get_line | q put 1 | r put 4 | p put_line | \x94 memoize
c refused 0 | \x93 refused 0 | i refused 1 | o refused 1 | \x81 refused 1 | \x92 refused 1
R refused 2 | b refused 3 | P refused 4 | Q refused 4 | \x97 refused 4 | \x98 refused 4
\x82 refused 5 | \x83 refused 5 | \x84 refused 5 | \x8f refused 6 | \x90 refused 6 | \x91 refused 6
"""
# "\x85" is a line break of its own for `splitlines`, and white space for `strip`
_NAMES = {
    entry[0]: entry[2:].split()
    for line in _OPCODES.split("\n")
    for entry in line.split(" | ")
    if entry
}
