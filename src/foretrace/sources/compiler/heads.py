"""The head of a line: `[rank0]:V1115 07:59:39.444000 652 torch/_inductor/graph.py:2523] `."""

from __future__ import annotations

import re
from typing import Any

# The number after the time is the process, before torch 2.5 the thread.
HEAD = re.compile(
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d[.,]\d{3,9} (?P<pid>\d{1,20}) ?"
    rb"(?P<file>[^\n\t]{1,400}?):\d{1,9}\] ?"
)
_RANK = re.compile(rb"\[rank(\d{1,9})\]:")
_PREFIX = 256  # bytes that another program may have put before a head


def head_of(line: bytes) -> re.Match[bytes] | None:
    """The head, after what else the line begins with."""
    return HEAD.match(line) or HEAD.search(line, 0, line.find(b"\n") if b"\n" in line else None)


def rank_of(prefix: bytes) -> int | None:
    """The rank that a prefix names."""
    found = _RANK.search(prefix)
    return int(found[1]) if found else None


def compile_id(metadata: dict[str, Any]) -> str:
    """`0/1`, or `!1/0/0` under compiled autograd, as torch prints it; "" outside of both."""
    autograd, frame = metadata.get("compiled_autograd_id"), metadata.get("frame_id")
    numbers = [] if frame is None else [frame, metadata.get("frame_compile_id")]
    numbers = [autograd, *numbers] if autograd is not None else numbers
    if not all(isinstance(number, int) for number in numbers):
        return ""
    return ("!" if autograd is not None else "") + "/".join(map(str, numbers))
