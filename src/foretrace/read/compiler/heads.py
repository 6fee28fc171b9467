"""The head of a line: `[rank0]:V1115 07:59:39.444000 652 torch/_inductor/graph.py:2523] `."""

from __future__ import annotations

import re
from typing import Any

_GLOG = (
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d[.,]\d{3,9} (?P<process>\d{1,20}) ?"
    rb"[^\n\t]{1,400}?:\d{1,9}\](?: |$)"
)
HEAD = re.compile(_GLOG)
RECORD_HEAD = re.compile(_GLOG + rb'(?=\{")')
_RANK = re.compile(rb"\[rank(\d{1,9})\]:")
_LARGEST_PID = 1 << 32  # torch 2.4 and earlier write the number of the thread instead


def pid_of(head: re.Match[bytes]) -> int:
    """The process that wrote the line; 0 where the log does not name it."""
    number = int(head["process"])
    return number if number < _LARGEST_PID else 0


def rank_of(prefix: bytes) -> int | None:
    """The rank that the text before a head names."""
    found = _RANK.search(prefix)
    return int(found[1]) if found else None


def compile_id(metadata: dict[str, Any]) -> str:
    """`0/1`, or `!1/0/0` under compiled autograd, as torch prints it; "" outside of both."""
    autograd, frame = metadata.get("compiled_autograd_id"), metadata.get("frame_id")
    numbers = [] if frame is None else [frame, metadata.get("frame_compile_id")]
    if autograd is not None:
        numbers = [autograd, *numbers]
    if not all(isinstance(number, int) for number in numbers):
        return ""
    return ("" if autograd is None else "!") + "/".join(map(str, numbers))
