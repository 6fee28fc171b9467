"""Several traces of one run: what can be said only of all of them together.

Ranks may carry different time bases (a quarter of a year apart, when one process started just after midnight of a quarter) or
claim the same rank; a rank may be missing. Such notes go into the ledger of every trace of the set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..schema.ledger import LedgerBuilder
from .about import is_coordinator
from .trace import Trace, with_notes


def note_set(traces: Sequence[Trace]) -> None:
    """Add to each ledger what the set as a whole shows. A serving engine's coordinator is no rank."""
    ranks = [trace for trace in traces if not is_coordinator(trace.path)]
    if len(ranks) < 2:
        return
    notes = LedgerBuilder()
    bases = Counter(trace.tables.base_ns for trace in ranks)
    notes.note("base_mismatch", len(bases) - 1, f"{len(bases)} time bases in {len(ranks)} traces: aligned by base + ts")
    claimed = Counter(trace.about.rank for trace in ranks if trace.about.rank is not None)
    twice = sorted(rank for rank, count in claimed.items() if count > 1)
    notes.note("rank_duplicate", len(twice), f"ranks claimed more than once: {', '.join(map(str, twice))}")
    world = max((trace.about.world_size or 0 for trace in ranks), default=0)
    lacking = sorted(set(range(world)) - set(claimed)) if claimed else []
    notes.note("rank_missing", len(lacking), f"{len(claimed)} of {world} ranks are here")
    for trace in traces:
        trace.ledger = with_notes(trace.ledger, notes.freeze().notes)
