"""What launched it: the steps, regions and ops around a kernel or an op, the outermost first.

The names must appear in this order; others can be between them. `ProfilerStep*` is any step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.grammar import Slot, read_name
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.selection import select
from foretrace.analyze.guess.windows import Window, named
from foretrace.analyze.guess.words import FAMILY_WORDS, MEMORY, ParseFailure, Token, key_at, text_at


def _from(window: Window, query: Query) -> Measurement:
    found, launch = select(window, query.what), window.evidence.trace.gpu.launch
    chains = [_chain(window, int(launch[at]) if found.on_gpu else at) for at in found.sure]
    no = None if window.gap else False  # an op above it may be what is missing
    wanted = query.args["chain"]
    answers = [None if chain is None else _contains(chain, wanted) or no for chain in chains]
    verdict = kinds.judge_all(query.args["quantifier"], answers, found.unclear)
    lacking = "some launches were not recorded" if answers else f"no {query.what.text}"
    why = window.gap or f"{lacking} in {window.label}" if verdict == "unknown" else ""
    measured = kinds.tally([" > ".join(chain) if chain else "no caller" for chain in chains])
    return kinds.from_selection(found, verdict, measured, why)


def _chain(window: Window, event: int) -> list[str] | None:
    """Names of everything around a host event, itself last when it is an op."""
    host = window.evidence.trace.host
    if event < 0:
        return None
    names = []
    while event >= 0:
        if host.is_op[event] or host.is_region[event] or host.is_step[event]:
            names.append(window.evidence.name(event))
        event = int(host.parent[event])
    return names[::-1]


def _contains(chain: list[str], wanted: list[str]) -> bool:
    left = iter(chain)
    return all(any(named(name, found) for found in left) for name in wanted)


def _read_chain(tokens: Sequence[Token], place: int) -> tuple[list[str], int]:
    # `copies come from pageable memory`, `gemms come from cuBLAS` are about no caller
    if key_at(tokens, place) in (*MEMORY, *FAMILY_WORDS):
        raise ParseFailure(place, ["a name"])
    plain = place < len(tokens) and re.fullmatch("[a-z]+", text_at(tokens, place))
    if plain and not tokens[place].quoted and key_at(tokens, place + 1) not in ("", ">"):
        raise ParseFailure(place, ["a name"])  # `from a graph replay`
    value, place = read_name(tokens, place)
    found = [value]
    while key_at(tokens, place) == ">":
        value, place = read_name(tokens, place + 1)
        found.append(value)
    return found, place


KIND = GuessKind(
    "origin",
    28,
    ("{quantifier:quantifier} {what:selector} comes|come from {chain:chain}",),
    kinds.per_window(_from),
    slots={"chain": Slot("names between `>`, the outermost first", _read_chain)},
)
