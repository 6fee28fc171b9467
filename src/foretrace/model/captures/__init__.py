"""From a replayed kernel to the launch that was recorded while its graph was captured."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Ints


class Captured(Struct, frozen=True):
    """For every row of `gpu`: the place of its capture in `trace.captures` and the launch there, an
    event of that trace; -1 where none is known.
    """

    capture: Ints
    launch: Ints


def nothing(count: int) -> Captured:
    """No row has a capture."""
    none = np.full(count, -1, np.int64)
    return Captured(none, none)
