"""What a recording says twice, or not at all: each is a note, and no answer hides it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from foretrace.base.arrays import filled
from foretrace.base.units import times_text
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host
from foretrace.model.intervals import numbered
from foretrace.model.spans import Spans
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import NAMELESS, NONE, Tables


def note_oddities(
    tables: Tables, host: Host, gpu: Gpu, spans: Spans, ledger: LedgerBuilder
) -> None:
    """Note GPU events without a name, stream or certain device, steps and callers that repeat."""
    nameless = host.named(NAMELESS.__contains__)[gpu.id]
    ledger.note("name_missing", int(nameless.sum()))
    ledger.note("stream_unknown", int((gpu.stream == -1).sum()))
    ledger.note("device_mismatch", int(gpu.misplaced.sum()))
    ledger.note("parent_cycle", _cycling(tables, host))
    _note_steps(host, spans, ledger)


def _note_steps(host: Host, spans: Spans, ledger: LedgerBuilder) -> None:
    """Steps of one process with one number."""
    counts = Counter((int(host.process[step.event]), step.name) for step in spans.steps)
    again = {name: count for (_, name), count in counts.items() if count > 1}
    if again:
        name, count = next(iter(again.items()))
        ledger.note("step_repeated", len(again), f"{name} was recorded {times_text(count)}")


def _cycling(tables: Tables, host: Host) -> int:
    """Python functions whose callers, by the ids in the trace, never end."""
    frames = tables["frames"]
    own, caller = (filled(frames[name], NONE) for name in ("python_id", "python_parent"))
    space, count = host.namespace[frames["event"].to_numpy()], len(own)
    key = numbered(np.tile(space, 2), np.concatenate((own, caller)))
    holder = np.full(int(key.max(initial=-1)) + 2, -1, np.int64)
    holder[key[:count]] = np.arange(count)
    above = np.where((own == NONE) | (caller == NONE), -1, holder[key[count:]])
    for _ in range(count.bit_length()):  # each round doubles how far up it looks
        above = np.where(above >= 0, above[above], -1)
    return int((above >= 0).sum())
