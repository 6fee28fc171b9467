"""One page: a file that needs no network and runs nothing but its own script.

It is built from the modules in `web/` (`make bundle`); the `kind` of its data says which page it
draws. The page's content security policy names the hashes of exactly this script and this style, so
that nothing a trace contains can run. Data from a trace goes into a JSON block in which `<` cannot
occur, and from there into the page as text only. `columns.ts` undoes what `pack` does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.base.errors import UsageError
from foretrace.base.files import write_text
from foretrace.base.patterns import regex
from foretrace.base.terminal import plain

# marks of direction, and marks without a width
_UNSEEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def page(title: str, data: object, *, connect: str = "'none'") -> str:
    """The whole page. It may fetch from `connect` (CSP): nowhere, or the server it came from."""
    style, script = _sources()
    parts = {
        "title": escape(title),
        "policy": escape(policy(connect), quote=True),
        "style": style,
        "script": script,
        "data": json_block(data),
    }
    # one pass: what is filled in is not filled again
    return re.sub(r"@@(\w+)@@", lambda match: parts[match[1]], read("page.html"))


def write_page(path: str | os.PathLike[str], text: str, traces: Iterable[str]) -> Path:
    """Write a page: all or nothing, and never over one of the traces that it is about."""
    target = Path(path)
    for trace in traces:
        if target.exists() and os.path.exists(trace) and target.samefile(trace):
            raise UsageError(f"{target} is the trace itself: choose another name for the page")
    try:
        write_text(target, text)
    except OSError as problem:
        why = problem.strerror
        raise UsageError(f"{target} cannot be written: {why}; choose another place") from None
    return target


def policy(connect: str) -> str:
    """The content security policy: nothing from anywhere, but this script and this style."""
    digests = (hashlib.sha256(text.encode()).digest() for text in _sources())
    style, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def json_block(data: object) -> str:
    """JSON that no HTML parser reads as markup: no `<`, no `&`, no line separators."""

    def builtins(value: object) -> object:
        return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)

    text = json.dumps(
        data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=builtins
    )
    text = seen(text)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written to a file


def seen(text: str) -> str:
    r"""JSON in which marks that turn or hide text are letters: `\\u202e`, as in the terminal."""
    return _UNSEEN.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


def _sources() -> tuple[str, str]:
    """The style of the pages, and their script."""
    return f"\n{read('page.css')}{read('bundle/main.css')}", "\n" + read("bundle/main.js")


@cache
def read(name: str) -> str:
    """A file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# A generated kernel has some hundred lines. A page holds one of each, and a log may be hostile.
MOST_CODE = 200_000
_INCLUDE = regex(r'(#include ")[^"\n]*/(?=[^"/\n]*")')


def code_text(text: str) -> str:
    """Line by line, so that no control character of a log reaches the page; folders are removed."""
    found = _INCLUDE.sub(r"\1", text[:MOST_CODE].expandtabs(4).strip("\n"))
    lines = (plain(line) for line in found.splitlines())
    cut = f"\n… {len(text) - MOST_CODE:,} more characters" if len(text) > MOST_CODE else ""
    return "\n".join(lines) + cut


Ints = NDArray[np.int64]
# rows of one view: those are packed quickly, whole recordings tightly
SCREENFUL = 30_000


class Packed(Struct, frozen=True):
    """Columns of equal length as text; those in `differences` are written as such."""

    rows: int
    columns: list[str]
    differences: list[str]
    data: str


def pack(columns: Mapping[str, Ints], differences: frozenset[str] = frozenset()) -> Packed:
    """Pack columns; those named in `differences` compress better as such."""
    rows = len(next(iter(columns.values()))) if columns else 0
    wide = {name: column.astype(np.int64) for name, column in columns.items()}
    parts = [
        varints(np.diff(column, prepend=0) if name in differences else column)
        for name, column in wide.items()
    ]
    data = base64.b64encode(zlib.compress(b"".join(parts), 9 if rows > SCREENFUL else 1)).decode()
    return Packed(rows, list(columns), sorted(differences & set(columns)), data)


def varints(values: Ints) -> bytes:
    """Zigzag, then seven bits a byte, low bits first; the high bit says that more follow."""
    signed = values.astype(np.int64)
    folded = ((signed << 1) ^ (signed >> 63)).astype(np.uint64)
    most = max(-(-int(folded.max(initial=0)).bit_length() // 7), 1)
    if most == 1:  # as most columns are
        return folded.astype(np.uint8).tobytes()
    size = np.ones(len(folded), np.int64)
    for step in range(1, most):
        size += folded >= np.uint64(1 << (7 * step))
    first = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    for step in range(most):
        rows = size > step
        group = (folded[rows] >> np.uint64(7 * step)).astype(np.uint8) & np.uint8(127)
        more = np.where(size[rows] > step + 1, np.uint8(128), np.uint8(0))
        out[first[rows] + step] = group | more
    return out.tobytes()
