"""Which requests a kernel worked on: the sums of lengths that the annotation of its step states.

    execute_36_context_4(sq512sk900sqsq65536sqsk115200)_generation_32(sq32sk32785sqsq32sqsk32785)

`context` requests are prefilled, `generation` requests decode. `sq` is their new tokens, `sk` all
tokens that those look at; `sqsq` and `sqsk` add up squares and products of the two.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from foretrace.model.costs import Context
from foretrace.model.intervals import Ints

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_SUMS = r"(\d{1,9})\(sq(\d{1,15})sk(\d{1,15})sqsq(\d{1,18})sqsk(\d{1,18})\)"
_STEP = re.compile(rf"execute_\d{{1,9}}_context_{_SUMS}_generation_{_SUMS}")


def context_of(name: str) -> Context | None:
    """The requests that an annotation states, prefilled and decoding ones together."""
    found = _STEP.fullmatch(name)
    if found is None:
        return None
    sums = [int(text) for text in found.groups()]
    requests, queries, keys, squares, pairs = (sums[at] + sums[at + 5] for at in range(5))
    return Context(requests, queries, keys, pairs, squares)


def contexts(trace: Trace, rows: Ints) -> tuple[Ints, list[Context]]:
    """For rows of `gpu` the number of their context, or -1, and the distinct contexts."""
    host = trace.host
    stated = host.is_region & host.named(_STEP.fullmatch)
    if not stated.any():
        return np.full(len(rows), -1, np.int64), []
    event = host.nearest(trace.gpu.launch[rows], stated)
    names, number = np.unique(host.name[event[event >= 0]], return_inverse=True)
    known = [context_of(host.names[name]) for name in names.tolist()]
    found = np.full(len(rows), -1, np.int64)
    found[event >= 0] = number.reshape(-1)
    return found, [each for each in known if each is not None]
