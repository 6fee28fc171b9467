"""Inductor's fusion log: which scheduler nodes it fused, and its own words where it refused.

A scheduler asks in rounds, and asks again about a pair that stayed apart: `times` counts that.
Forward and backward each have a scheduler, and both name their nodes `op0`, `op1`, …: `graph` tells
them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from foretrace.schema.compiler import FusionChoice

if TYPE_CHECKING:
    from foretrace.read.compiler import TextRecord

_REFUSED = re.compile(r"cannot fuse (\w+) with (\w+): (.*)")
_FUSED = re.compile(r"fusing (\w+) with (\w+)")
_SLOWER = "cannot fuse (benchmark): fusing "
# the first of at most ten rounds: another scheduler begins
FIRST_ROUND = re.compile(r"=* ?attempting fusion \(1/\d+\)")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_BUFFER = re.compile(r"'(\w+)'")

Pair = tuple[int, str, str, bool, str]  # graph, a, b, fused, words


def parse_choices(texts: Iterable[TextRecord]) -> tuple[FusionChoice, ...]:
    """Every pair of one compilation with Inductor's answer, in the order it was first given."""
    times: dict[Pair, int] = {}
    graph = -1
    for record in texts:
        if record.channel != "fusion":
            continue
        for line in record.text.splitlines():
            if FIRST_ROUND.match(line):
                graph += 1
            elif found := _answer(line):
                pair = (max(graph, 0), *found)
                times[pair] = times.get(pair, 0) + 1
    return tuple(FusionChoice(*pair[1:], times=n, graph=pair[0]) for pair, n in times.items())


def _answer(line: str) -> tuple[str, str, bool, str] | None:
    line = line.strip()
    if found := _REFUSED.match(line):
        return found[1], found[2], False, found[3]
    if found := _FUSED.fullmatch(line):
        return found[1], found[2], True, ""
    return _measured(line) if line.startswith(_SLOWER) else None


def _measured(line: str) -> tuple[str, str, bool, str]:
    """A pair that was slower as one kernel; this line names buffers, not nodes."""
    text = _COLOUR.sub("", line.removeprefix(_SLOWER))
    a, _, rest = text.partition(" with ")
    b, _, words = rest.partition(" cause ")
    return "_".join(_BUFFER.findall(a)), "_".join(_BUFFER.findall(b)), False, f"benchmark: {words}"
