"""Files of any size that a reader may go through again and again."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

from corpus.build import g0, gz

EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":5,"dur":1}'


def braces(n: int) -> bytes:
    """`{},` over and over."""
    return b'{"traceEvents":[' + b"{}," * n + EVENT + b"]}"


def bare_braces(n: int) -> bytes:
    """The same without a list around them."""
    return b"{}," * n


def empty_objects(n: int) -> bytes:
    """Empty objects, well packed."""
    return gzip.compress(b'{"traceEvents":[' + b"{},\n" * n + EVENT + b"]}", mtime=0)


def flipped_bit(n: int) -> bytes:
    """One flipped bit in the middle of a gzip stream; every part is packed alike."""
    stream = zlib.compressobj(wbits=31)
    parts = [stream.compress(b'{"traceEvents":[') + stream.flush(zlib.Z_FULL_FLUSH)]
    for _ in range(n // 20):
        parts.append(stream.compress((EVENT + b",") * 10) + stream.flush(zlib.Z_FULL_FLUSH))
    parts[len(parts) // 2] = _flipped(parts[len(parts) // 2])
    return b"".join(parts) + stream.compress(EVENT + b"]}") + stream.flush()


def _flipped(part: bytes) -> bytes:
    return part[:20] + bytes([part[20] ^ 16]) + part[21:]


def unlisted_key(n: int) -> bytes:
    """A first key that no trace has, with a long value."""
    return b'{"unlisted":[' + b'{"a":1},' * n + b'{}],"traceEvents":[' + EVENT + b"]}"


def newlines(n: int) -> bytes:
    """A broken header and newlines."""
    return b'{"a": @' + b"\n" * n


def newlines_after(n: int) -> bytes:
    """A document that is no trace, and newlines."""
    return b'{"a":1}' + b"\n" * n


def empty_members(n: int) -> bytes:
    """Empty gzip members before the trace."""
    return gz(b"") * n + gz(g0().bytes())


def broken_records(n: int) -> bytes:
    """Every record has an unescaped quote."""
    return b'{"traceEvents":[' + b",".join([EVENT.replace(b"::", b'"')] * n) + b"]}"


def torn_records(n: int) -> bytes:
    """Every record lacks its end."""
    return b'{"traceEvents":[' + b",".join([EVENT[:-5]] * n) + b"]}"


def opening_brackets(n: int) -> bytes:
    """Brackets that never close."""
    return b'{"traceEvents":[' + b"[" * n


def other_records(n: int) -> bytes:
    """A list of other records."""
    return b"[" + b",".join([b'{"id":1,"text":"a"}'] * n) + b"]"


ODD: dict[str, Callable[[int], bytes]] = {
    each.__name__: each
    for each in (
        braces,
        bare_braces,
        empty_objects,
        flipped_bit,
        unlisted_key,
        newlines,
        newlines_after,
        empty_members,
        broken_records,
        torn_records,
        opening_brackets,
        other_records,
    )
}
